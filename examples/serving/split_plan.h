// The host's part of attention: which keys of which row are one piece of work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "tables.h"

namespace slipway::serving {

// Cuts each row's keys, lengths[row] of them, at multiples of `split`: each key is in exactly one part, and a row's
// parts depend on its own length only. So the order in which its sums are taken, and with it each bit of the result,
// is the same whoever else is in the batch. Throws std::length_error when the parts are more than kMaxParts, and
// std::invalid_argument for rows, lengths or a split that a table cannot hold.
SplitTable make_split(std::span<const std::int32_t> lengths, std::int32_t split);

// Called once per layer and step: the tables of a step's attention. It knows the rows, and nothing of what the
// device does meanwhile.
using Planner = std::function<SplitTable(const RowTable& rows, std::int32_t layer)>;

// How a planner's cost is spent. Real ones compute. Where no second processor is free for the one who plans, a device
// that runs on processors too is not idle meanwhile, and overlapping gains nothing: sleeping shows what it would gain.
enum class PlanCost : std::uint8_t { kComputes, kSleeps };

// make_split for rows that see themselves and all before them. It takes `cost` at least: planners of real attention
// kernels look up tilings and balance them, and take as long as tens of microseconds.
Planner make_planner(std::int32_t split, std::chrono::microseconds cost = {}, PlanCost spent = PlanCost::kComputes);

}  // namespace slipway::serving
