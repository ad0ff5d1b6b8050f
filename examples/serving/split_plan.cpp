#include "split_plan.h"

#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

namespace slipway::serving {

SplitTable make_split(std::span<const std::int32_t> lengths, std::int32_t split) {
  constexpr std::int32_t kLongest = std::numeric_limits<std::uint16_t>::max();
  if (split < 1) throw std::invalid_argument("The split is " + std::to_string(split) + ", but must be at least 1.");
  if (lengths.size() > kMaxRows) {
    throw std::invalid_argument("The step has " + std::to_string(lengths.size()) +
                                " rows, but the table has room for " + std::to_string(kMaxRows) +
                                "; use a smaller batch or fewer drafts.");
  }
  SplitTable table;
  std::size_t used = 0;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const std::int32_t length = lengths[row];
    if (length < 0 || length > kLongest) {
      throw std::invalid_argument("A row has " + std::to_string(length) + " keys, but must have 0 to " +
                                  std::to_string(kLongest) + ".");
    }
    for (std::int32_t begin = 0; begin < length; begin += split) {
      if (used == kMaxParts) {
        throw std::length_error("The attention of a step has more than " + std::to_string(kMaxParts) +
                                " parts; use a larger split, a smaller batch or fewer drafts.");
      }
      const std::int32_t end = split < length - begin ? begin + split : length;
      table.parts[used++] = {static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(begin),
                             static_cast<std::uint16_t>(end)};
      if (end == length) break;  // also keeps `begin` from running over for the largest split
    }
    table.first[row + 1] = static_cast<std::uint16_t>(used);
  }
  table.count = static_cast<std::int32_t>(used);
  return table;
}

Planner make_planner(std::int32_t split, std::chrono::microseconds cost, PlanCost spent) {
  return [split, cost, spent](const RowTable& rows, std::int32_t) {
    const auto begin = std::chrono::steady_clock::now();
    std::int32_t lengths[kMaxRows];
    const auto count = static_cast<std::size_t>(rows.count);
    for (std::size_t row = 0; row < count; ++row) lengths[row] = rows.rows[row].position + 1;
    const SplitTable table = make_split({lengths, count}, split);
    if (spent == PlanCost::kSleeps && cost.count() > 0) std::this_thread::sleep_for(cost);
    while (std::chrono::steady_clock::now() - begin < cost) {
    }
    return table;
  };
}

}  // namespace slipway::serving
