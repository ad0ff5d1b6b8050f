// Grid rules: how a launch plan computes each call's grid from its arguments (PlanOptions::grid in plan.h).
//
// A rule is an expression, read once, or a function. It is immutable and cheap to copy; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/export.h"
#include "slipway/stream.h"

namespace slipway {

namespace internal {
struct GridRuleImpl;
}

// What the function of a rule sees: the integers among the arguments of one call, those of run time and the fixed ones,
// by their position in the kernel's signature. Valid during the call only.
class SLIPWAY_API GridArguments {
 public:
  // How many parameters the kernel has.
  std::size_t size() const noexcept;
  // Throws InvalidArgument when this argument is no integer (i8 to u64), or a u64 above 2^63-1; OutOfRange when there
  // is none.
  std::int64_t operator[](std::size_t index) const;

  struct Impl;
  explicit GridArguments(const Impl& impl) noexcept : impl_(impl) {}

 private:
  const Impl& impl_;
};

// Called in each launch, by the thread that launches, so perhaps by several at once. What it returns is checked as any
// other grid is. It refuses a call by throwing; nothing is then submitted, and the next call is a new one.
using GridFunction = std::function<Extent(const GridArguments& arguments)>;

class SLIPWAY_API GridRule {
 public:
  // One to three dimensions, separated by commas, as in "cdiv(n, 128), 1" or "((m + 15) // 16, -(-n // 32),)"; those
  // left out are 1. `names` are those of all the kernel's parameters, in order; a name is used where an integer stands.
  //
  //   integers in decimal, names, parentheses, + - *, and cdiv(a, b), min(a, b, ...), max(a, b, ...)
  //   / and // both round down, as // of Python does: -7 / 2 is -4
  //   a % b has the sign of b, so that a / b * b + a % b is a: -7 % 2 is 1
  //   cdiv(a, b) is a / b rounded up, -(-a // b)
  //
  // All in signed 64-bit integers. In each launch a result beyond them, a division by zero, or a u64 argument above
  // 2^63-1 that is used, is refused with InvalidArgument, and nothing is submitted; the next call is a new one.
  //
  // Throws InvalidArgument with the position (from 0) and the reason when the text cannot be read, when parentheses,
  // functions and signs nest deeper than 32, when it has more than 4,000 characters, or when a part of it that has
  // nothing but integers has no result. What a name stands for is looked at when a plan is created.
  static GridRule expression(std::string_view text, const std::vector<std::string>& names);

  static GridRule function(GridFunction function);

  // The grid, where it is the same whatever the arguments are: of expressions without names. Plans made with such a
  // rule have a static shape.
  std::optional<Extent> constant() const noexcept;

  const std::shared_ptr<const internal::GridRuleImpl>& impl() const noexcept { return impl_; }

 private:
  explicit GridRule(std::shared_ptr<const internal::GridRuleImpl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const internal::GridRuleImpl> impl_;
};

}  // namespace slipway
