// Update plans: which input of a call gives which value of a graph, said once, so that a step's values follow from
// the list of the call's inputs.
//
//   const auto plan = UpdatePlan::from_json(R"([{"op": "attention", "updates": {"length": {"kind": "input", "index":
//   3}}}])"); const BoundUpdatePlan update = plan.bind(definition);       // checked once: names become numbers if
//   (update.resolve(inputs, values)) graph.launch(stream, values);
//
// A plan has one entry for each operation of the graph (each application of one), in the order of the capture. An
// entry names its operation and gives sources for some of its inputs. A *key* is the name of an input: what the
// parameter is called that the operation was declared with. A further application of the same operation has the
// same keys, and they stand for the parameters that it was applied to. An input that another operation computes is
// no key. A plan of one entry goes to all operations, each of which gets a copy.
//
// Values stay: what no key of a plan gives keeps what it was in the StepValues.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipway/export.h"
#include "slipway/graph.h"

namespace slipway {

namespace internal {
struct BoundPlanImpl;
}

// A value that a call is given, or a constant of a plan. What takes which: integers and bools take themselves, exactly;
// floats take floats and integers; a tensor takes an address, or none for the null address; bytes(n) take a list, a
// string or none. A list fills them exactly, flattened, each integer as 64 signed bits and each float as 64 bits; a
// string is padded with zeros; none is all zeros.
class SLIPWAY_API UpdateValue {
 public:
  enum class Kind : std::uint8_t { kNone, kBool, kInteger, kFloat, kString, kTensor, kList };

  UpdateValue() noexcept = default;  // none
  // clang-format off
  template <std::integral T>
  UpdateValue(T value) noexcept
      : kind_(std::same_as<T, bool> ? Kind::kBool : Kind::kInteger), is_unsigned_(std::unsigned_integral<T>),
        integer_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  UpdateValue(T value) noexcept : kind_(Kind::kFloat), float_(static_cast<double>(value)) {}
  // clang-format on
  UpdateValue(std::string text) : kind_(Kind::kString), text_(std::move(text)) {}
  UpdateValue(const char* text) : UpdateValue(std::string(text)) {}
  UpdateValue(DevicePtr address) noexcept : kind_(Kind::kTensor), integer_(static_cast<std::int64_t>(address)) {}
  static UpdateValue list(std::vector<UpdateValue> items) {
    UpdateValue value;
    value.kind_ = Kind::kList;
    value.items_ = std::move(items);
    return value;
  }

  Kind kind() const noexcept { return kind_; }
  bool is_unsigned() const noexcept { return is_unsigned_; }  // integers: as_integer() has the bits of a std::uint64_t
  std::int64_t as_integer() const noexcept { return integer_; }  // also of bools and tensors
  double as_float() const noexcept { return float_; }
  const std::string& text() const noexcept { return text_; }
  const std::vector<UpdateValue>& items() const noexcept { return items_; }

 private:
  Kind kind_ = Kind::kNone;
  bool is_unsigned_ = false;
  std::int64_t integer_ = 0;
  double float_ = 0;
  std::string text_;
  std::vector<UpdateValue> items_;
};

// Where a value comes from.
class SLIPWAY_API UpdateSource {
 public:
  enum class Kind : std::uint8_t { kInput, kConstant, kNone, kList };

  static UpdateSource input(std::int64_t index) { return {Kind::kInput, index, {}, {}}; }
  static UpdateSource constant(UpdateValue value) { return {Kind::kConstant, 0, std::move(value), {}}; }
  static UpdateSource none() { return {Kind::kNone, 0, {}, {}}; }
  static UpdateSource list(std::vector<UpdateSource> items) { return {Kind::kList, 0, {}, std::move(items)}; }

  Kind kind() const noexcept { return kind_; }
  std::int64_t index() const noexcept { return index_; }
  const UpdateValue& value() const noexcept { return value_; }
  const std::vector<UpdateSource>& items() const noexcept { return items_; }

 private:
  UpdateSource(Kind kind, std::int64_t index, UpdateValue value, std::vector<UpdateSource> items)
      : kind_(kind), index_(index), value_(std::move(value)), items_(std::move(items)) {}
  Kind kind_;
  std::int64_t index_;
  UpdateValue value_;
  std::vector<UpdateSource> items_;
};

struct UpdateEntry {
  std::string operation;  // its name; ".default" and ".out" at the end do not count
  std::vector<std::pair<std::string, UpdateSource>> updates;
};

// A plan that was validated for one graph. A shared handle; any thread.
class SLIPWAY_API BoundUpdatePlan {
 public:
  BoundUpdatePlan() noexcept = default;
  explicit BoundUpdatePlan(std::shared_ptr<const internal::BoundPlanImpl> impl) noexcept : impl_(std::move(impl)) {}

  // Sets what the plan gives in `values`, from the inputs of one call; false, and nothing is touched, when the plan
  // has no entries. Allocates nothing. To be called before the inputs are copied anywhere or given up. Throws
  // OutOfRange for an input that the call does not have, and InvalidArgument or OutOfRange for one that is not what
  // its parameter takes; nothing was set then. InvalidNode for values of another graph.
  bool resolve(std::span<const UpdateValue> inputs, StepValues& values) const;

  // Inputs that are integers wherever the plan uses them, and arrive exactly in what they are used for: whoever keeps
  // graphs by the integers of a call may leave these out. In ascending order.
  const std::vector<std::size_t>& consumed_integers() const;

  std::size_t entry_count() const;  // after one entry was copied to all operations
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<const internal::BoundPlanImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<const internal::BoundPlanImpl> impl_;
};

// One thread at a time, as any value.
class SLIPWAY_API UpdatePlan {
 public:
  UpdatePlan() = default;
  explicit UpdatePlan(std::vector<UpdateEntry> entries) : entries_(std::move(entries)) {}

  // A list of {"op": NAME, "updates": {KEY: SOURCE}}, where a source is {"kind": "input", "index": I},
  // {"kind": "constant", "value": V}, {"kind": "none"} or {"kind": "list", "items": [SOURCE...]}, and V is null, a
  // bool, a number, a string, or a list of such. InvalidArgument with line and column.
  static UpdatePlan from_json(std::string_view text);

  const std::vector<UpdateEntry>& entries() const noexcept { return entries_; }

  // Checks all of it against the graph. InvalidArgument names entry, key and what is wrong.
  BoundUpdatePlan bind(const GraphDefinition& definition) const;

 private:
  std::vector<UpdateEntry> entries_;
};

}  // namespace slipway
