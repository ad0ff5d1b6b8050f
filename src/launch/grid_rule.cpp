// Grid rules: made from a text or a function, bound to a plan, evaluated for a call.
#include "launch/grid_rule.h"

#include <algorithm>
#include <exception>

#include "record/layout.h"
#include "slipway/error.h"

namespace slipway {

struct GridArguments::Impl {
  const std::vector<internal::GridSource>& sources;
  const std::string& kernel;
  const std::byte* packed;
};

namespace internal {
namespace {

bool is_integer(ArgKind kind) noexcept { return kind >= ArgKind::kI8 && kind <= ArgKind::kU64; }

Error too_large(const std::string& which, std::int64_t bits) {
  return {ErrorCode::kInvalidArgument, which + " is " + std::to_string(static_cast<std::uint64_t>(bits)) +
                                           ", and grids are computed in signed 64-bit integers, up to "
                                           "9223372036854775807; pass a smaller value"};
}

// A fixed argument as a call would see it. What does not fit its parameter is refused as everywhere.
void take_fixed(GridSource& source, const std::string& kernel, std::size_t index, const Parameter& p,
                const Argument& argument) {
  std::byte packed[8]{};
  pack_argument(kernel, index, p, sizeof packed, argument, packed).throw_if_error();
  source.from = GridSource::From::kPlan;
  source.fits = load_integer(p.kind, packed, source.value);
}

}  // namespace

std::string describe(const GridFailure& failure) {
  const GridOp op = failure.at->op;
  const std::string left = std::to_string(failure.left), right = std::to_string(failure.right);
  std::string text;
  if (op == GridOp::kNegate) text = "-(" + right + ")";
  else if (op == GridOp::kCeilDivide) text = "cdiv(" + left + ", " + right + ")";
  else text = left + " " + name_of(op) + " " + (failure.right < 0 ? "(" + right + ")" : right);
  const bool divides = op == GridOp::kDivide || op == GridOp::kRemainder || op == GridOp::kCeilDivide;
  return text + (divides && failure.right == 0 ? " divides by zero" : " does not fit a signed 64-bit integer");
}

PlanGrid::PlanGrid(const GridRule& rule, std::string kernel, const Signature& signature,
                   std::span<const std::pair<std::size_t, Argument>> fixed)
    : rule_(rule.impl()), kernel_(std::move(kernel)), is_function_(rule_->function != nullptr) {
  if (!is_function_ && !rule.constant() && rule_->names.size() != signature.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the grid '" + rule_->text + "' was given the names of " + std::to_string(rule_->names.size()) +
                    " parameters, but kernel '" + kernel_ + "' has " + std::to_string(signature.size()) + " (" +
                    to_string(signature) + "); name all of them in order, the fixed ones too");
  }
  sources_.resize(signature.size());
  for (std::size_t i = 0; i < signature.size(); ++i) {
    if (!is_integer(signature[i].kind)) continue;
    sources_[i].from = GridSource::From::kCall;
    sources_[i].kind = signature[i].kind;
    for (const auto& [index, argument] : fixed) {
      if (index == i) take_fixed(sources_[i], kernel_, i, signature[i], argument);
    }
  }
  if (is_function_) return;
  for (std::uint32_t d = 0; d < rule_->programs.size(); ++d) take_dimension(d, signature);
}

void PlanGrid::take_dimension(std::uint32_t dimension, const Signature& signature) {
  GridProgram program;
  for (GridInstruction instruction : rule_->programs[dimension].code()) {
    if (instruction.op == GridOp::kArgument) {
      const std::uint32_t index = instruction.source;
      const GridSource& source = sources_[index];
      const std::string which = "'" + rule_->names[index] + "', argument " + std::to_string(index);
      if (source.from == GridSource::From::kNone) {
        throw Error(ErrorCode::kInvalidArgument, "the grid '" + rule_->text + "' cannot be used at position " +
                                                     std::to_string(instruction.position) + ": " + which +
                                                     " of kernel '" + kernel_ + "', is " +
                                                     to_string({signature[index]}) + "; only i8 to u64 are integers");
      }
      instruction.kind = source.kind;
      if (source.from == GridSource::From::kPlan) {
        if (!source.fits) throw too_large(which + " of kernel '" + kernel_ + "',", source.value);
        instruction.op = GridOp::kConstant;
        instruction.value = source.value;
      }
    }
    GridFailure failure;
    if (!program.add(instruction, failure)) throw_failure(failure, nullptr);
  }
  if (!program.is_constant()) return append_dimension(code_, program, dimension);
  (dimension == 0 ? constants_.x : dimension == 1 ? constants_.y : constants_.z) = program.constant();
}

std::optional<Extent> PlanGrid::constant() const noexcept {
  if (is_function_ || !code_.empty()) return std::nullopt;
  return constants_;
}

void PlanGrid::locate(std::span<const std::uint32_t> parameters, std::span<const std::uint32_t> packed_offsets) {
  for (std::size_t i = 0; i < parameters.size(); ++i) sources_[parameters[i]].packed_offset = packed_offsets[i];
  for (GridInstruction& i : code_) {
    if (i.op == GridOp::kArgument) i.packed_offset = sources_[i.source].packed_offset;
  }
}

Extent PlanGrid::evaluate(const std::byte* packed) const {
  if (is_function_) return call(packed);
  GridFailure failure;
  std::int64_t grid[3] = {constants_.x, constants_.y, constants_.z};
  if (!evaluate_grid(code_, packed, grid, failure)) [[unlikely]]
    throw_failure(failure, packed);
  return {grid[0], grid[1], grid[2]};
}

bool PlanGrid::try_evaluate(const std::byte* packed, Extent& grid) const noexcept {
  if (is_function_) return false;
  GridFailure failure;
  std::int64_t dimensions[3] = {constants_.x, constants_.y, constants_.z};
  if (!evaluate_grid(code_, packed, dimensions, failure)) return false;
  grid = {dimensions[0], dimensions[1], dimensions[2]};
  return true;
}

// `packed` null: the plan is being made, and only fixed arguments are known.
void PlanGrid::throw_failure(const GridFailure& failure, const std::byte* packed) const {
  const std::uint16_t position = failure.at->position;
  const std::string where = "the grid '" + rule_->text + "' of kernel '" + kernel_ + "' has no result at position " +
                            std::to_string(position) + ": ";
  if (failure.at->op == GridOp::kArgument) {
    throw too_large(where + "'" + rule_->names[failure.at->source] + "'", failure.left);
  }
  // The values of the names in this dimension.
  std::string values;
  std::vector<std::uint32_t> named;
  const auto has_position = [&](const GridInstruction& i) { return i.position == position && i.op == failure.at->op; };
  for (const GridProgram& program : rule_->programs) {
    if (std::none_of(program.code().begin(), program.code().end(), has_position)) continue;
    for (const GridInstruction& i : program.code()) {
      if (i.op != GridOp::kArgument || std::find(named.begin(), named.end(), i.source) != named.end()) continue;
      named.push_back(i.source);
      const GridSource& source = sources_[i.source];
      std::int64_t value = source.value;
      if (source.from == GridSource::From::kCall) {
        if (!packed || !load_integer(source.kind, packed + source.packed_offset, value)) continue;
      }
      values += (values.empty() ? ", with " : ", ") + rule_->names[i.source] + " = " + std::to_string(value);
    }
  }
  throw Error(ErrorCode::kInvalidArgument, where + describe(failure) + values + "; pass values that have a grid");
}

Extent PlanGrid::call(const std::byte* packed) const {
  const GridArguments::Impl arguments{sources_, kernel_, packed};
  const auto where = [&] { return "the grid function of a plan for kernel '" + kernel_ + "' threw "; };
  // What is thrown on is about this call and says that nothing was submitted, whatever the function threw.
  try {
    return rule_->function(GridArguments(arguments));
  } catch (const Error& error) {
    throw Error(error.code(), where() + error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidArgument, where() + "'" + error.what() + "'; pass values that have a grid");
  } catch (...) {
    throw Error(ErrorCode::kInvalidArgument,
                where() + "something that is no std::exception; pass values that have a grid");
  }
}

}  // namespace internal

std::size_t GridArguments::size() const noexcept { return impl_.sources.size(); }

std::int64_t GridArguments::operator[](std::size_t index) const {
  using From = internal::GridSource::From;
  const auto which = [&] { return "argument " + std::to_string(index) + " of kernel '" + impl_.kernel + "'"; };
  if (index >= impl_.sources.size()) {
    throw Error(ErrorCode::kOutOfRange,
                which() + " was asked for, but it has " + std::to_string(impl_.sources.size()) + "; count from 0");
  }
  const internal::GridSource& source = impl_.sources[index];
  if (source.from == From::kNone) {
    throw Error(ErrorCode::kInvalidArgument, which() + " is no integer (i8 to u64); a grid is computed from integers");
  }
  std::int64_t value = source.value;
  const bool fits = source.from == From::kPlan
                        ? source.fits
                        : internal::load_integer(source.kind, impl_.packed + source.packed_offset, value);
  if (!fits) throw internal::too_large(which(), value);
  return value;
}

GridRule GridRule::expression(std::string_view text, const std::vector<std::string>& names) {
  return GridRule(std::make_shared<const internal::GridRuleImpl>(
      internal::GridRuleImpl{{}, std::string(text), names, internal::parse_grid(text, names)}));
}

GridRule GridRule::function(GridFunction function) {
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument, "the function of a grid is empty; pass something to call");
  }
  return GridRule(
      std::make_shared<const internal::GridRuleImpl>(internal::GridRuleImpl{std::move(function), {}, {}, {}}));
}

std::optional<Extent> GridRule::constant() const noexcept {
  if (impl_->function) return std::nullopt;
  for (const internal::GridProgram& program : impl_->programs) {
    if (!program.is_constant()) return std::nullopt;
  }
  return Extent{impl_->programs[0].constant(), impl_->programs[1].constant(), impl_->programs[2].constant()};
}

}  // namespace slipway
