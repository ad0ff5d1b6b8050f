// Conditional nodes, as whoever walks a tape needs them: how a condition is read, and what it is called.
//
// A condition is read by the copy that the device has anyway, so nothing else has to know how its memory is reached. A
// tape goes on at the body that was chosen; behind a body it jumps to the end of the node, or back to the condition of
// a loop. A body that is not taken is not looked at.
#pragma once

#include <cstdint>

#include "engine/replay_program.h"
#include "record/record.h"

namespace slipway::internal {

// "if", "while", "switch". The string lives as long as the program.
const char* name_of(const ConditionRecord& condition) noexcept;

// The copy of its value to the host; `value` is zero before.
CopyRecord read_of(const ConditionRecord& condition, std::uint64_t& value) noexcept;

// For devices whose copies are done when the executor's function returns: how far on the walk goes on. A cause where a
// loop has had all its turns.
template <class Executor>
std::int64_t pass_condition(Executor& executor, const ConditionRecord& condition, const ReplayRecord& replay,
                            Status& cause) {
  std::uint64_t value = 0;
  executor.copy(read_of(condition, value), reinterpret_cast<const void*>(condition.address));
  auto chosen = replay.program->choose(replay.branch, condition, value, replay.step);
  if (chosen.ok()) return chosen.value();
  cause = chosen.status();
  return condition.header.size_bytes;
}

}  // namespace slipway::internal
