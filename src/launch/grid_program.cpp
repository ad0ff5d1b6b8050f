#include "launch/grid_program.h"

#include <algorithm>

namespace slipway::internal {
namespace {

// Rounded down. The two divisions without a result were turned away.
std::int64_t divide_down(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) == (b < 0) ? quotient + 1 : quotient;
}

bool can_divide(std::int64_t a, std::int64_t b) noexcept { return b != 0 && !(b == -1 && a == INT64_MIN); }

// False: there is no result.
inline bool apply(GridOp op, std::int64_t a, std::int64_t b, std::int64_t& result) noexcept {
  switch (op) {
    case GridOp::kAdd: return !__builtin_add_overflow(a, b, &result);
    case GridOp::kSubtract: return !__builtin_sub_overflow(a, b, &result);
    case GridOp::kMultiply: return !__builtin_mul_overflow(a, b, &result);
    case GridOp::kNegate: return !__builtin_sub_overflow(std::int64_t{0}, b, &result);
    case GridOp::kDivide:
      if (!can_divide(a, b)) return false;
      result = divide_down(a, b);
      return true;
    case GridOp::kCeilDivide:
      if (!can_divide(a, b)) return false;
      result = divide_up(a, b);
      return true;
    case GridOp::kRemainder:
      if (b == 0) return false;
      // The processor has no quotient of INT64_MIN and -1, and traps; the remainder by -1 is 0 always.
      result = b == -1 ? 0 : a % b;
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      return true;
    case GridOp::kMin: result = std::min(a, b); return true;
    case GridOp::kMax: result = std::max(a, b); return true;
    case GridOp::kArgument:
    case GridOp::kConstant:
    case GridOp::kStore: break;
  }
  return false;
}

}  // namespace

const char* name_of(GridOp op) noexcept {
  switch (op) {
    case GridOp::kAdd: return "+";
    case GridOp::kSubtract:
    case GridOp::kNegate: return "-";
    case GridOp::kMultiply: return "*";
    case GridOp::kDivide: return "/";
    case GridOp::kRemainder: return "%";
    case GridOp::kCeilDivide: return "cdiv";
    case GridOp::kMin: return "min";
    case GridOp::kMax: return "max";
    case GridOp::kArgument: return "argument";
    case GridOp::kConstant: return "constant";
    case GridOp::kStore: return "store";
  }
  return "unknown";
}

bool load_integer(ArgKind kind, const std::byte* from, std::int64_t& value) noexcept {
  switch (kind) {
    case ArgKind::kI8: value = detail::load_argument<std::int8_t>(from); return true;
    case ArgKind::kI16: value = detail::load_argument<std::int16_t>(from); return true;
    case ArgKind::kI32: value = detail::load_argument<std::int32_t>(from); return true;
    case ArgKind::kU8: value = detail::load_argument<std::uint8_t>(from); return true;
    case ArgKind::kU16: value = detail::load_argument<std::uint16_t>(from); return true;
    case ArgKind::kU32: value = detail::load_argument<std::uint32_t>(from); return true;
    case ArgKind::kU64: value = detail::load_argument<std::int64_t>(from); return value >= 0;
    default: value = detail::load_argument<std::int64_t>(from); return true;
  }
}

bool GridProgram::add(const GridInstruction& instruction, GridFailure& failure) {
  const bool unary = instruction.op == GridOp::kNegate, binary = instruction.op > GridOp::kNegate;
  const std::size_t operands = unary ? 1 : binary ? 2 : 0;
  // In postfix order the operands are what was added last, if they are constants.
  const bool known = operands != 0 && code_.size() >= operands &&
                     std::all_of(code_.end() - static_cast<std::ptrdiff_t>(operands), code_.end(),
                                 [](const GridInstruction& i) { return i.op == GridOp::kConstant; });
  if (!known) {
    code_.push_back(instruction);
    return true;
  }
  const std::int64_t right = code_.back().value;
  const std::int64_t left = binary ? code_[code_.size() - 2].value : 0;
  if (binary) code_.pop_back();
  GridInstruction& folded = code_.back();
  folded.position = instruction.position;
  if (apply(instruction.op, left, right, folded.value)) return true;
  folded.op = instruction.op;  // for the failure's sentence
  failure = {&folded, left, right};
  return false;
}

void append_dimension(std::vector<GridInstruction>& code, const GridProgram& program, std::uint32_t dimension) {
  for (const GridInstruction& instruction : program.code()) {
    // What stands in front of a binary operation computes its right operand; a constant stands alone.
    if (instruction.op > GridOp::kNegate && code.back().op == GridOp::kConstant) {
      const std::int64_t right = code.back().value;
      code.back() = instruction;
      code.back().immediate = true;
      code.back().value = right;
    } else {
      code.push_back(instruction);
    }
  }
  code.push_back({.op = GridOp::kStore, .source = dimension});
}

bool evaluate_grid(const std::vector<GridInstruction>& code, const std::byte* packed, std::int64_t (&grid)[3],
                   GridFailure& failure) noexcept {
  std::int64_t stack[kGridStack];
  std::int64_t* waiting = stack;  // behind the last value that waits
  std::int64_t top = 0;           // what would lie on top of them, in a register
  for (const GridInstruction& i : code) {
    if (i.op == GridOp::kArgument) {
      *waiting++ = top;
      if (!load_integer(i.kind, packed + i.packed_offset, top)) [[unlikely]] {
        failure = {&i, top, 0};
        return false;
      }
    } else if (i.op == GridOp::kStore) {
      grid[i.source] = top;
      waiting = stack;
    } else if (i.op == GridOp::kConstant) {
      *waiting++ = top;
      top = i.value;
    } else {
      const std::int64_t left = i.immediate ? top : i.op == GridOp::kNegate ? 0 : *--waiting;
      const std::int64_t right = i.immediate ? i.value : top;
      if (!apply(i.op, left, right, top)) [[unlikely]] {
        failure = {&i, left, right};
        return false;
      }
    }
  }
  return true;
}

}  // namespace slipway::internal
