// Rules of ordering that a test build can switch off, one by one, to see that a test notices; and the places where a
// simulation lets other threads run. In every other build a rule is `true` and a place is nothing.
//
// Used in .cpp files, and in templates that only the simulator's driver instantiates: a header that two builds compile
// differently would be two definitions of one thing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/simulated.h"

namespace slipway::internal {

enum class Rule : std::uint8_t {
  kWaitForSlot,       // values are written only once the step that used their slot has passed
  kValuesBeforeGate,  // a gate opens behind the values
  kContiguousGates,   // gates move over contiguous steps only
  kSerialSteps,       // a step begins when the one before has passed
  kSubmitInOrder,     // steps are begun and submitted under one lock
  kRefuseOwnWait,     // a thread does not wait for an update that it owes itself
  kUpdateFirst,       // values come first where launches block, or the device records first
  kCancelOpensGates,  // whoever cancels opens the gates
  kCauseBeforeGates,  // and says why before
  kOnePublisher,      // one thread publishes a step
  kBranchesJoin,      // a branch waits for the other at their gate
  kGateInFront,       // resettable gates: a wait stands in front of each group
  kResetBehindWait,   // and a reset behind the wait
  kTrailingWait,      // the update stream waits for the replay
  kWaitBehindUpdate,  // and does so behind the update
  kOneUpdateAtATime,  // replay and update are submitted together, under the device's lock
  kOtherStream,       // the update stream is not the replay's
  kFallibleFirst,     // everything that may fail comes before the replay
  kRescue,            // an update that fails opens what is left of the gates
  kSetUnchanged,      // gates are set although nothing changed
  kRezero,            // recovering resets the gates
  kBodyGatesInFront,  // gates of a body, which runs many times or never, are passed in front of its node
  kCount,
};

#if defined(SLIPWAY_TEST_RULES)
inline bool g_rules_off[static_cast<std::size_t>(Rule::kCount)] = {};
#define SLIPWAY_RULE(name) (!slipway::internal::g_rules_off[static_cast<std::size_t>(slipway::internal::Rule::name)])
#define SLIPWAY_POINT(what, object, step, gate)                                                          \
  do {                                                                                                   \
    if (slipway::internal::t_simulated) slipway::internal::t_simulated->point(what, object, step, gate); \
  } while (false)
#else
#define SLIPWAY_RULE(name) (true)
#define SLIPWAY_POINT(what, object, step, gate) \
  do {                                          \
  } while (false)
#endif

}  // namespace slipway::internal
