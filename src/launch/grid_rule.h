// Grid rules, as they are made and as a plan uses them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/grid_program.h"
#include "slipway/argument.h"
#include "slipway/grid.h"
#include "slipway/signature.h"

namespace slipway::internal {

using GridPrograms = std::array<GridProgram, 3>;

struct GridRuleImpl {
  GridFunction function;  // empty: an expression
  std::string text;
  std::vector<std::string> names;
  GridPrograms programs;  // arguments are positions in `names`; not finished
};

// Reads the text of an expression. Throws InvalidArgument.
GridPrograms parse_grid(std::string_view text, std::span<const std::string> names);

// What failed, as a sentence without an end: "cdiv(7, 0) divides by zero".
std::string describe(const GridFailure& failure);

// Where an integer of a call comes from, for one parameter of the kernel.
struct GridSource {
  enum class From : std::uint8_t { kCall, kPlan, kNone };
  From from = From::kNone;  // kNone: it is no integer
  ArgKind kind = ArgKind::kI64;
  std::uint32_t packed_offset = 0;  // kCall
  std::int64_t value = 0;           // kPlan: it is fixed
  bool fits = true;                 // kPlan: a u64 above 2^63-1 does not
};

// A rule made for one plan.
class PlanGrid {
 public:
  // Throws when the rule does not fit the kernel. `fixed` are the plan's fixed arguments.
  PlanGrid(const GridRule& rule, std::string kernel, const Signature& signature,
           std::span<const std::pair<std::size_t, Argument>> fixed);

  // The grid, where it is the same in every call.
  std::optional<Extent> constant() const noexcept;
  // Tells where the run-time arguments lie: before the first call.
  void locate(std::span<const std::uint32_t> parameters, std::span<const std::uint32_t> packed_offsets);

  // The grid of one call, not yet checked against the device. Throws InvalidArgument, and what it throws is about this
  // call only. Any number of threads at once.
  Extent evaluate(const std::byte* packed) const;
  // The same where that waits for nothing and throws nothing: false for functions, and where evaluate() would throw.
  bool try_evaluate(const std::byte* packed, Extent& grid) const noexcept;

 private:
  void take_dimension(std::uint32_t dimension, const Signature& signature);
  [[noreturn]] void throw_failure(const GridFailure& failure, const std::byte* packed) const;
  Extent call(const std::byte* packed) const;

  std::shared_ptr<const GridRuleImpl> rule_;
  std::string kernel_;
  bool is_function_;
  Extent constants_;                   // the dimensions that no call changes
  std::vector<GridInstruction> code_;  // computes the others
  std::vector<GridSource> sources_;
};

}  // namespace slipway::internal
