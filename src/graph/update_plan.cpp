// Update plans: validated once against a graph, then resolved in every step.
#include "slipway/update_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "device/handles.h"
#include "graph/definition.h"
#include "graph/graph_access.h"
#include "record/layout.h"

namespace slipway {
namespace internal {

// A source with its items behind it, so that resolving follows numbers.
struct SourceNode {
  UpdateSource::Kind kind;
  std::size_t input = 0;                  // kInput
  const UpdateValue* constant = nullptr;  // kConstant; in `entries`
  std::vector<SourceNode> items{};
};

struct PlanWrite {
  std::uint32_t variable;
  SourceNode source;
  std::string where;  // "key 'length' of entry 2 ('attention')"
};

struct BoundPlanImpl {
  std::shared_ptr<const DefinitionImpl> definition;
  std::vector<UpdateEntry> entries;  // constants are read here
  std::vector<PlanWrite> writes;
  std::vector<std::size_t> consumed;
};

}  // namespace internal

namespace {

using internal::BoundPlanImpl;
using internal::DefinitionImpl;
using internal::OperationDefinition;
using internal::PlanWrite;
using internal::SourceNode;
using internal::Variable;

constexpr const char* kValueNames[] = {"none", "a bool", "an integer", "a float", "a string", "a tensor", "a list"};

const char* name_of_value(const UpdateValue& v) { return kValueNames[static_cast<std::size_t>(v.kind())]; }

std::string_view base_name(std::string_view name) {
  for (const std::string_view suffix : {".default", ".out"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

bool is_integer(ArgKind kind) { return kind >= ArgKind::kI8 && kind <= ArgKind::kU64; }
bool is_float(ArgKind kind) { return kind >= ArgKind::kF16 && kind <= ArgKind::kF64; }

// --- Values into their places ---

// What one key takes, written into `place`, which has room for it.
class Writer {
 public:
  Writer(const BoundPlanImpl& plan, const PlanWrite& write, std::span<const UpdateValue> inputs, std::byte* place)
      : plan_(plan),
        write_(write),
        variable_(plan.definition->variables[write.variable]),
        inputs_(inputs),
        place_(place) {}

  void write() {
    if (variable_.kind == ArgKind::kBytes) return write_bytes();
    write_scalar(value_of(write_.source));
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& sentence) const {
    throw Error(code, write_.where + " of the update plan for graph '" + plan_.definition->name + "' " + sentence);
  }
  [[noreturn]] void fail_kind(const std::string& found) const {
    fail(ErrorCode::kInvalidArgument, "got " + found + " for the parameter '" + variable_.name + "', which is " +
                                          name_of(variable_.kind) + "; give a value that it takes");
  }

  const UpdateValue& value_of(const SourceNode& source) const {
    static const UpdateValue kNone;
    if (source.kind == UpdateSource::Kind::kNone) return kNone;
    if (source.kind == UpdateSource::Kind::kConstant) return *source.constant;
    if (source.input < inputs_.size()) return inputs_[source.input];
    fail(ErrorCode::kOutOfRange, "takes input " + std::to_string(source.input) + ", and the call has " +
                                     std::to_string(inputs_.size()) +
                                     " inputs; pass all inputs of the call that the plan was made for");
  }

  void write_scalar(const UpdateValue& value) const {
    using Kind = UpdateValue::Kind;
    std::optional<Argument> argument;
    if (variable_.kind == ArgKind::kTensor) {
      if (value.kind() == Kind::kTensor || value.kind() == Kind::kNone)
        argument.emplace(DevicePtr{static_cast<std::uint64_t>(value.as_integer())});
    } else if (variable_.kind == ArgKind::kBool) {
      if (value.kind() == Kind::kBool) argument.emplace(value.as_integer() != 0);
    } else if (is_float(variable_.kind)) {
      if (value.kind() == Kind::kFloat) argument.emplace(value.as_float());
      if (value.kind() == Kind::kInteger) argument.emplace(as_double(value));
    } else if (value.kind() == Kind::kInteger) {
      if (value.is_unsigned()) argument.emplace(static_cast<std::uint64_t>(value.as_integer()));
      else argument.emplace(value.as_integer());
    }
    if (!argument) fail_kind(name_of_value(value));
    Parameter p;
    p.kind = variable_.kind;
    const internal::Status why =
        internal::pack_argument(plan_.definition->name, 0, p, variable_.size, *argument, place_);
    if (why.ok()) return;
    fail(ErrorCode::kOutOfRange, "got a value that the parameter '" + variable_.name + "' (" + name_of(variable_.kind) +
                                     ") cannot hold: " + why.details().sentence);
  }

  static double as_double(const UpdateValue& value) {
    return value.is_unsigned() ? static_cast<double>(static_cast<std::uint64_t>(value.as_integer()))
                               : static_cast<double>(value.as_integer());
  }

  void write_bytes() {
    const SourceNode& source = write_.source;
    if (source.kind == UpdateSource::Kind::kList) {
      append(source);
    } else {
      const UpdateValue& value = value_of(source);
      if (value.kind() == UpdateValue::Kind::kNone) {
        std::memset(place_, 0, variable_.size);
        return;
      }
      if (value.kind() == UpdateValue::Kind::kString) return write_text(value.text());
      if (value.kind() != UpdateValue::Kind::kList) fail_kind(name_of_value(value));
      append(value);
    }
    if (at_ != variable_.size) {
      fail(ErrorCode::kOutOfRange, "got a list of " + std::to_string(at_ / 8) + " numbers, " + std::to_string(at_) +
                                       " bytes, and the parameter '" + variable_.name + "' has " +
                                       std::to_string(variable_.size) + "; fill it exactly");
    }
  }

  void write_text(const std::string& text) const {
    if (text.size() > variable_.size) {
      fail(ErrorCode::kOutOfRange, "got a string of " + std::to_string(text.size()) + " bytes, and the parameter '" +
                                       variable_.name + "' has " + std::to_string(variable_.size) +
                                       "; make it shorter");
    }
    std::memcpy(place_, text.data(), text.size());
    std::memset(place_ + text.size(), 0, variable_.size - text.size());
  }

  void append(const SourceNode& source) {
    if (source.kind != UpdateSource::Kind::kList) return append(value_of(source));
    for (const SourceNode& item : source.items) append(item);
  }

  // What does not fit is only counted, for the error.
  void append(const UpdateValue& value) {
    switch (value.kind()) {
      case UpdateValue::Kind::kList:
        for (const UpdateValue& item : value.items()) append(item);
        return;
      case UpdateValue::Kind::kInteger: return put(value.as_integer());
      case UpdateValue::Kind::kFloat: return put(value.as_float());
      default: fail_kind(std::string("a list with ") + name_of_value(value));
    }
  }
  template <class T>
  void put(T number) {
    static_assert(sizeof number == 8);
    if (at_ + sizeof number <= variable_.size) std::memcpy(place_ + at_, &number, sizeof number);
    at_ += sizeof number;
  }

  const BoundPlanImpl& plan_;
  const PlanWrite& write_;
  const Variable& variable_;
  std::span<const UpdateValue> inputs_;
  std::byte* place_;
  std::size_t at_ = 0;
};

// --- Validation ---

class Binder {
 public:
  explicit Binder(BoundPlanImpl& plan) : plan_(plan), definition_(*plan.definition) {}

  void bind() {
    const std::size_t records = definition_.operations.size();
    if (plan_.entries.empty()) {
      if (records == 0) return;
      fail("there is none, and the graph has " + std::to_string(records) +
           " operations; make the plan where the graph is made (one that was kept from before may lack it), or set the "
           "values yourself");
    }
    if (plan_.entries.size() == 1 && records > 1) plan_.entries.resize(records, UpdateEntry(plan_.entries.front()));
    if (plan_.entries.size() != records) {
      fail("it has " + std::to_string(plan_.entries.size()) + " entries for " + std::to_string(records) +
           " operations; give one for each, in the order of the capture, or a single one for all");
    }
    for (std::size_t i = 0; i < records; ++i) bind_entry(i);
    find_consumed();
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const {
    throw Error(ErrorCode::kInvalidArgument,
                "the update plan does not fit graph '" + definition_.name + "': " + sentence);
  }

  void bind_entry(std::size_t index) {
    const UpdateEntry& entry = plan_.entries[index];
    const OperationDefinition& operation = definition_.operations[index];
    const std::string where = "entry " + std::to_string(index) + " ('" + entry.operation + "')";
    if (base_name(entry.operation) != base_name(operation.name)) {
      fail(where + " stands where the graph has the operation '" + operation.name +
           "'; list the operations in the order of the capture");
    }
    if (entry.updates.empty()) fail(where + " updates nothing; leave no entry without a key");
    for (const auto& [key, source] : entry.updates) {
      std::string at = "key '" + key + "' of ";
      at += where;
      const std::uint32_t variable = find_key(operation, key, at);
      PlanWrite write{variable, flatten(source, at), at};
      const auto other = givers_.find(variable);
      if (other != givers_.end() && !equal(*other->second.second, source)) {
        fail(at + " gives the parameter '" + definition_.variables[variable].name + "', to which " +
             other->second.first + " gives another source; a parameter has one value in a step");
      }
      if (other != givers_.end()) continue;
      givers_.emplace(variable, std::pair(at, &source));
      const Variable& taker = definition_.variables[variable];
      if (write.source.kind == UpdateSource::Kind::kList && taker.kind != ArgKind::kBytes) {
        fail(at + " got a list for the parameter '" + taker.name + "', which is " + name_of(taker.kind) +
             "; give a value that it takes");
      }
      if (is_fixed(write.source)) {
        // What is the same in each call is refused here and not in the first one.
        std::byte scratch[internal::kMaxBytesParameter];
        Writer(plan_, write, {}, scratch).write();
      }
      plan_.writes.push_back(std::move(write));
    }
  }

  std::uint32_t find_key(const OperationDefinition& operation, const std::string& key, const std::string& at) const {
    const OperationDefinition& declared = definition_.operations[operation.same_as];
    std::string keys;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (definition_.variables[operation.inputs[i]].gate != 0) continue;  // computed
      const std::string& name = definition_.variables[declared.inputs[i]].name;
      if (name == key) return operation.inputs[i];
      keys += (keys.empty() ? "" : ", ") + name;
    }
    fail(at + " is no parameter of the operation; it takes: " + (keys.empty() ? "none" : keys));
  }

  SourceNode flatten(const UpdateSource& source, const std::string& at) const {
    SourceNode node{source.kind()};
    switch (source.kind()) {
      case UpdateSource::Kind::kNone: break;
      case UpdateSource::Kind::kInput:
        if (source.index() < 0)
          fail(at + " takes input " + std::to_string(source.index()) + "; inputs are counted from 0");
        node.input = static_cast<std::size_t>(source.index());
        break;
      case UpdateSource::Kind::kConstant:
        check_constant(source.value(), at);
        node.constant = &source.value();
        break;
      case UpdateSource::Kind::kList:
        for (const UpdateSource& item : source.items()) node.items.push_back(flatten(item, at));
        break;
      default: fail(at + " has a source of the unknown kind " + std::to_string(static_cast<int>(source.kind())));
    }
    return node;
  }
  void check_constant(const UpdateValue& value, const std::string& at) const {
    if (value.kind() == UpdateValue::Kind::kTensor)
      fail(at + " has a tensor as a constant; memory may move, so make it an input of the call");
    for (const UpdateValue& item : value.items()) check_constant(item, at);
  }
  static bool is_fixed(const SourceNode& source) {
    return source.kind != UpdateSource::Kind::kInput && std::all_of(source.items.begin(), source.items.end(), is_fixed);
  }

  void find_consumed() {
    std::map<std::size_t, bool> proven;
    for (const PlanWrite& write : plan_.writes) {
      const ArgKind kind = definition_.variables[write.variable].kind;
      const bool list = write.source.kind == UpdateSource::Kind::kList;
      look_at(write.source, is_integer(kind) || (list && kind == ArgKind::kBytes), proven);
    }
    for (const auto& [input, is] : proven) {
      if (is) plan_.consumed.push_back(input);
    }
  }
  static void look_at(const SourceNode& source, bool exactly, std::map<std::size_t, bool>& proven) {
    if (source.kind == UpdateSource::Kind::kInput) {
      const auto it = proven.emplace(source.input, true).first;
      it->second = it->second && exactly;
    }
    for (const SourceNode& item : source.items) look_at(item, exactly, proven);
  }

  static bool equal(const UpdateValue& a, const UpdateValue& b) {
    return a.kind() == b.kind() && a.is_unsigned() == b.is_unsigned() && a.as_integer() == b.as_integer() &&
           std::bit_cast<std::uint64_t>(a.as_float()) == std::bit_cast<std::uint64_t>(b.as_float()) &&
           a.text() == b.text() &&
           std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [](const UpdateValue& x, const UpdateValue& y) { return equal(x, y); });
  }
  static bool equal(const UpdateSource& a, const UpdateSource& b) {
    return a.kind() == b.kind() && a.index() == b.index() && equal(a.value(), b.value()) &&
           std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [](const UpdateSource& x, const UpdateSource& y) { return equal(x, y); });
  }

  BoundPlanImpl& plan_;
  const DefinitionImpl& definition_;
  // By variable: who gives it, and what.
  std::map<std::uint32_t, std::pair<std::string, const UpdateSource*>> givers_;
};

}  // namespace

BoundUpdatePlan UpdatePlan::bind(const GraphDefinition& definition) const {
  (void)internal::deref(definition, "the graph definition");
  auto plan = std::make_shared<BoundPlanImpl>();
  plan->definition = definition.impl();
  plan->entries = entries_;
  Binder(*plan).bind();
  return BoundUpdatePlan(std::move(plan));
}

bool BoundUpdatePlan::resolve(std::span<const UpdateValue> inputs, StepValues& values) const {
  const BoundPlanImpl& plan = internal::deref(*this, "the update plan");
  if (internal::GraphAccess::definition(values) != plan.definition.get()) {
    throw Error(ErrorCode::kInvalidNode, "the update plan of graph '" + plan.definition->name +
                                             "' was given values of another graph; use those of its own executables");
  }
  if (plan.entries.empty()) return false;
  // Everything is checked before anything is set.
  alignas(16) std::byte scratch[internal::kMaxBytesParameter];
  for (const PlanWrite& write : plan.writes) Writer(plan, write, inputs, scratch).write();
  for (const PlanWrite& write : plan.writes) {
    Writer(plan, write, inputs,
           internal::GraphAccess::bytes(values) + plan.definition->variables[write.variable].offset)
        .write();
  }
  return true;
}

const std::vector<std::size_t>& BoundUpdatePlan::consumed_integers() const {
  return internal::deref(*this, "the update plan").consumed;
}
std::size_t BoundUpdatePlan::entry_count() const { return internal::deref(*this, "the update plan").entries.size(); }

}  // namespace slipway
