// Conditional nodes, as whoever walks a tape needs them: how a condition is read, and what it is called.
//
// A condition is read by the copy that the device has anyway, so nothing else has to know how its memory is reached. A
// tape goes on at the body that was chosen; behind a body it jumps to the end of the node, or back to the condition of
// a loop. A body that is not taken is not looked at.
#pragma once

#include <cstdint>

#include "record/record.h"

namespace slipway::internal {

// "if", "while", "switch". The string lives as long as the program.
const char* name_of(const ConditionRecord& condition) noexcept;

// The copy of its value to the host; `value` is zero before.
CopyRecord read_of(const ConditionRecord& condition, std::uint64_t& value) noexcept;

}  // namespace slipway::internal
