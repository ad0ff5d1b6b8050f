// Grid expressions as they are evaluated: one short program for each dimension, in postfix order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipway/signature.h"
#include "slipway/stream.h"

namespace slipway::internal {

// A text nests at most this deep; each level holds at most three values that wait (the left sides of a sum and of a
// product, and the least or greatest argument so far), so that the stack below always suffices.
constexpr int kMaxGridNesting = 32;
constexpr std::size_t kGridStack = 3 * (kMaxGridNesting + 2);
constexpr std::size_t kMaxGridText = 4000;

enum class GridOp : std::uint8_t {
  kArgument,  // pushes the argument
  kConstant,  // pushes the value
  kStore,     // takes the value: it is the dimension `source`
  kNegate,
  // Of two operands. The right one is on the stack, or in the instruction (`immediate`).
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kCeilDivide,
  kMin,
  kMax,
};

// "+", "cdiv", ...
const char* name_of(GridOp op) noexcept;

struct GridInstruction {
  GridOp op = GridOp::kConstant;
  bool immediate = false;
  ArgKind kind = ArgKind::kI64;     // arguments
  std::uint16_t position = 0;       // in the text
  std::uint32_t source = 0;         // arguments: which parameter of the kernel; kStore: which dimension
  std::uint32_t packed_offset = 0;  // arguments: where it lies in the packed run-time arguments
  std::int64_t value = 0;           // constants, and right operands that are
};

// What one instruction was to do and could not.
struct GridFailure {
  const GridInstruction* at = nullptr;  // null: nothing failed
  std::int64_t left = 0;
  std::int64_t right = 0;
};

// One dimension of a grid, while it is made.
class GridProgram {
 public:
  // Adds an instruction. What has only constants to work on is done now: false when that has no result, with the
  // failure, and the program is then of no use.
  bool add(const GridInstruction& instruction, GridFailure& failure);
  bool is_constant() const noexcept { return code_.size() == 1 && code_.front().op == GridOp::kConstant; }
  std::int64_t constant() const noexcept { return code_.front().value; }
  const std::vector<GridInstruction>& code() const noexcept { return code_; }

 private:
  std::vector<GridInstruction> code_;
};

// Adds the dimension to what is evaluated. Constants on the right go into their operations.
void append_dimension(std::vector<GridInstruction>& code, const GridProgram& program, std::uint32_t dimension);

// Stores the dimensions that the code is about. False: one of them has no result.
bool evaluate_grid(const std::vector<GridInstruction>& code, const std::byte* packed, std::int64_t (&grid)[3],
                   GridFailure& failure) noexcept;

// An integer of the kind, packed at its natural size: for grids, and for range guards. False: a u64 that does not fit.
bool load_integer(ArgKind kind, const std::byte* from, std::int64_t& value) noexcept;

}  // namespace slipway::internal
