// What a simulation is told of the walking of lanes, in the order in which it happens.
#pragma once

#include <cstdint>

namespace slipway::internal {

class Lane;
class ReplayProgram;

struct WalkEvent {
  enum class What : std::uint8_t {
    kStepBegins,
    kGroup,       // passed a counting gate and took over its values
    kGateWait,    // passed a resettable gate
    kReset,       // and reset it
    kTaskBegins,  // begins to read its arguments
    kTask,        // has read them
    kStepEnds,
    kValues,   // of an update: the step's values are there
    kRewrite,  // a group's places are rewritten
    kSet,      // its gate is set
    kLostSet,  // it was set already
    kBlocks,   // the lane waits
  };
  What what;
  const Lane* lane = nullptr;
  const ReplayProgram* program = nullptr;
  std::uint64_t step = 0;  // kBlocks: the count that is waited for
  std::uint32_t gate = 0;
  const void* object = nullptr;  // tasks: the record; kBlocks: the progress
};

}  // namespace slipway::internal
