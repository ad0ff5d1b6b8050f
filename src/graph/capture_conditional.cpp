// Conditional nodes while they are captured: the entries between which their bodies lie.
#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "graph/capture_impl.h"

namespace slipway::internal {
namespace {

// Nobody is known to need more, and a walk of nested bodies should stay easy to read in a dump.
constexpr std::size_t kMostDepth = 16;

const char* name_of_flags(std::uint8_t flags) {
  if ((flags & kConditionRepeated) != 0) return "while";
  return (flags & kConditionIndexed) != 0 ? "switch" : "if";
}

// Its number among the types of conditions; as many as there are for another.
std::uint8_t kind_flag(DType dtype) {
  return static_cast<std::uint8_t>(std::find(std::begin(kConditionTypes), std::end(kConditionTypes), dtype) -
                                   std::begin(kConditionTypes));
}

// How deep conditional nodes lie in another in a finished graph.
std::size_t depth_of(const DefinitionImpl& definition) {
  std::size_t depth = 0, most = 0;
  for (const TapeEntry& entry : definition.entries) {
    if (entry.what == TapeEntry::What::kCondition) most = std::max(most, ++depth);
    if (entry.what == TapeEntry::What::kConditionEnd) --depth;
  }
  return most;
}

}  // namespace

void CaptureImpl::refuse_in_body(const StreamImpl& stream, const char* what) {
  const auto& within = definition_->nodes[open_.back().node];
  invalidate(ErrorCode::kFailedPrecondition,
             std::string(what) + " ('" + stream.name() + "') inside a body of a conditional node '" + within.name +
                 "', where only the stream '" + within.stream +
                 "' takes work and branches neither begin nor end; fork and join outside of the node");
}

void CaptureImpl::refuse_end_in_body() {
  const std::lock_guard lock(mutex_);
  if (open_.empty()) return;
  invalidate(ErrorCode::kFailedPrecondition, "was to end inside a body of a conditional node '" +
                                                 definition_->nodes[open_.back().node].name +
                                                 "'; end it when the body has returned");
}

void CaptureImpl::check_condition(std::uint8_t flags, const Condition& condition) const {
  const std::string what = std::string(name_of_condition(flags)) + " in the capture '" + definition_->name + "'";
  if (kind_flag(condition.dtype) == std::size(kConditionTypes)) {
    throw Error(ErrorCode::kInvalidArgument,
                what + " is of type " + name_of(condition.dtype) + "; a condition is a bool, i32 or u32");
  }
  const auto address = static_cast<std::uint64_t>(condition.address);
  const std::uint64_t bytes = condition.dtype == DType::kBool ? 1 : 4;
  device_->addresses().check_range(what.c_str(), address, bytes, !device_->info().host_addressable).throw_if_error();
  if (address % bytes != 0) {
    throw Error(ErrorCode::kInvalidArgument, what + " is of 4 bytes and lies " + std::to_string(address % bytes) +
                                                 " past a multiple of them; align it");
  }
}

void CaptureImpl::add_entry(TapeEntry::What what, const CapturedStream& state, std::uint32_t node,
                            std::uint32_t conditional) {
  TapeEntry entry;
  entry.what = what;
  entry.branch = branch_of(state);
  entry.node = node;
  entry.conditional = conditional;
  definition_->entries.push_back(entry);
}

std::size_t CaptureImpl::begin_conditional(StreamImpl& stream, const ConditionalDefinition& conditional,
                                           const std::string& kind) {
  const std::lock_guard lock(mutex_);
  require_valid();
  if (open_.size() == kMostDepth) {
    invalidate(ErrorCode::kOutOfRange, "was given a '" + kind + "' inside " + std::to_string(kMostDepth) +
                                           " other conditional nodes, which is the limit; nest fewer");
  }
  CapturedStream& state = state_of(stream);
  const IncompleteGuard guard(*this);
  NodeDefinition node{kind, kind, {}, {}, {}, {}};
  node.detail = std::string(name_of(kConditionTypes[conditional.flags & kConditionKinds])) + " condition";
  if (kind == "while") node.detail += ", at most " + std::to_string(conditional.most_turns) + " turns";
  else
    node.detail += ", " + std::to_string(conditional.body_count) + (conditional.body_count == 1 ? " body" : " bodies");
  const std::uint32_t number = add_node(state, std::move(node));
  definition_->addresses->add(conditional.address, name_of_condition(conditional.flags));
  const auto index = static_cast<std::uint32_t>(definition_->conditionals.size());
  definition_->conditionals.push_back(conditional);
  add_entry(TapeEntry::What::kCondition, state, number, index);
  open_.push_back({index, number, &stream, 0, 0, {}});
  return open_.size() - 1;
}

void CaptureImpl::run_body(const Stream& stream, std::uint32_t number, const GraphBody* body, const std::string& kind) {
  {
    const std::lock_guard lock(mutex_);
    const IncompleteGuard guard(*this);
    OpenConditional& open = open_.back();
    open.body = number;
    open.nodes = definition_->nodes.size();
    CapturedStream& state = state_of(*stream.impl());
    state.last = {open.node};
    add_entry(TapeEntry::What::kBody, state, open.node, open.index);
  }
  if (!body || !*body) return;
  const auto failed = [&](const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!invalid_.ok()) return;
    invalid_ = Status(ErrorCode::kFailedPrecondition, "the capture '" + definition_->name + "' had a body of a '" +
                                                          kind + "' that threw: " + what + "; capture again");
  };
  try {
    (*body)(stream);
  } catch (const std::exception& e) {
    failed(e.what());
    throw;
  } catch (...) {
    failed("an exception that is not a std::exception");
    throw;
  }
  const std::lock_guard lock(mutex_);
  require_valid();
  OpenConditional& open = open_.back();
  if (definition_->nodes.size() == open.nodes) {
    invalidate(ErrorCode::kFailedPrecondition,
               "has a '" + kind + "' whose body " + std::to_string(number) +
                   " has no work; submit it to the stream that the body is given, or leave the node out (in a switch a "
                   "null body does nothing)");
  }
  const CapturedStream& state = state_of(*stream.impl());
  open.last.insert(open.last.end(), state.last.begin(), state.last.end());
}

void CaptureImpl::end_conditional(StreamImpl& stream) {
  const std::lock_guard lock(mutex_);
  require_valid();
  CapturedStream& state = state_of(stream);
  const IncompleteGuard guard(*this);
  OpenConditional open = std::move(open_.back());
  open_.pop_back();
  add_entry(TapeEntry::What::kConditionEnd, state, open.node, open.index);
  state.last = {open.node};
  state.last.insert(state.last.end(), open.last.begin(), open.last.end());
}

void CaptureImpl::add_conditional(const Stream& stream, std::uint8_t flags, const Condition& condition,
                                  std::span<const GraphBody* const> bodies, std::uint64_t most_turns) {
  const char* const kind = name_of_flags(flags);
  const bool null_is_fine = (flags & kConditionIndexed) != 0;
  const bool missing = std::any_of(bodies.begin(), bodies.end(), [](const GraphBody* b) { return !*b; });
  if (bodies.empty() || (missing && !null_is_fine)) {
    throw Error(ErrorCode::kInvalidArgument, std::string("a '") + kind + "' in the capture '" + definition_->name +
                                                 (bodies.empty() ? "' has no bodies" : "' has a null body") +
                                                 "; pass something that submits its work");
  }
  check_condition(flags, condition);
  ConditionalDefinition conditional;
  conditional.address = static_cast<std::uint64_t>(condition.address);
  conditional.flags = static_cast<std::uint8_t>(flags | kind_flag(condition.dtype));
  conditional.body_count = static_cast<std::uint32_t>(bodies.size());
  conditional.most_turns = most_turns;
  const std::size_t depth = begin_conditional(*stream.impl(), conditional, kind);
  try {
    for (std::uint32_t i = 0; i < conditional.body_count; ++i) run_body(stream, i, bodies[i], kind);
    end_conditional(*stream.impl());
  } catch (...) {
    const std::lock_guard lock(mutex_);
    open_.resize(depth);
    throw;
  }
}

void CaptureImpl::check_depth(const DefinitionImpl& child) {
  const std::size_t depth = open_.size() + depth_of(child);
  if (depth <= kMostDepth) return;
  invalidate(ErrorCode::kOutOfRange, "was given the graph '" + child.name +
                                         "', whose conditional nodes would then be " + std::to_string(depth) +
                                         " deep; the limit is " + std::to_string(kMostDepth) + ", nest fewer");
}

void CaptureImpl::embed_conditional(const CapturedStream& state, const DefinitionImpl& child, const TapeEntry& from,
                                    std::uint32_t node_base, std::uint32_t conditional_base) {
  add_entry(from.what, state, from.node + node_base, from.conditional + conditional_base);
  if (from.what != TapeEntry::What::kCondition) return;
  const ConditionalDefinition& conditional = child.conditionals[from.conditional];
  definition_->addresses->add(conditional.address, name_of_condition(conditional.flags));
  definition_->conditionals.push_back(conditional);
}

}  // namespace slipway::internal

namespace slipway {

std::shared_ptr<internal::CaptureImpl> Capture::conditional_on(const Stream& stream, const char* kind) {
  (void)captured(stream, "the conditional node", kind);
  return impl_;  // a body may drop the capture
}

void Capture::if_node(const Stream& stream, const Condition& condition, const GraphBody& body) {
  const std::array bodies{&body};
  conditional_on(stream, "if")->add_conditional(stream, 0, condition, bodies, 0);
}

void Capture::if_else_node(const Stream& stream, const Condition& condition, const GraphBody& body,
                           const GraphBody& otherwise) {
  const std::array bodies{&body, &otherwise};
  conditional_on(stream, "if")->add_conditional(stream, 0, condition, bodies, 0);
}

void Capture::while_node(const Stream& stream, const Condition& condition, const GraphBody& body,
                         std::uint64_t most_turns) {
  if (most_turns == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a 'while' was given a limit of 0 turns, and would only ever fail; give 1 or more");
  }
  const std::array bodies{&body};
  conditional_on(stream, "while")->add_conditional(stream, internal::kConditionRepeated, condition, bodies, most_turns);
}

void Capture::switch_node(const Stream& stream, const Condition& condition, const std::vector<GraphBody>& bodies) {
  std::vector<const GraphBody*> list;
  list.reserve(bodies.size());
  for (const GraphBody& body : bodies) list.push_back(&body);
  conditional_on(stream, "switch")->add_conditional(stream, internal::kConditionIndexed, condition, list, 0);
}

}  // namespace slipway
