// Any text as a grid: it is refused with InvalidArgument, or evaluates to the same grid whether its names are known
// when the plan is made or in the call, for whatever values; or both ways have no result.
//
// Input: the text, up to the first zero byte; behind it three integers of 8 bytes each, those of n, m and k.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/grid_rule.h"
#include "slipway/error.h"

namespace {

using namespace slipway;

template <class Call>
auto unless_refused(const Call& call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) std::abort();
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const end = std::find(data, data + size, 0);
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<std::size_t>(end - data));
  std::int64_t values[3] = {7, -3, 1000};
  if (end != data + size)
    std::memcpy(values, end + 1, std::min(sizeof values, static_cast<std::size_t>(data + size - end - 1)));

  const auto rule = unless_refused([&] { return GridRule::expression(text, {"n", "m", "k"}); });
  if (!rule) return 0;
  const Signature signature = parse_signature("i64, i64, i64");
  const auto in_call = unless_refused([&] {
    internal::PlanGrid grid(*rule, "fuzz", signature, {});
    grid.locate(std::vector<std::uint32_t>{0, 1, 2}, std::vector<std::uint32_t>{0, 8, 16});
    return grid.evaluate(reinterpret_cast<const std::byte*>(values));
  });
  const auto in_plan = unless_refused([&] {
    const std::vector<std::pair<std::size_t, Argument>> fixed{{0, values[0]}, {1, values[1]}, {2, values[2]}};
    const auto constant = internal::PlanGrid(*rule, "fuzz", signature, fixed).constant();
    if (!constant) std::abort();
    return *constant;
  });
  if (in_call.has_value() != in_plan.has_value()) std::abort();
  if (in_call && (in_call->x != in_plan->x || in_call->y != in_plan->y || in_call->z != in_plan->z)) std::abort();
  return 0;
}
