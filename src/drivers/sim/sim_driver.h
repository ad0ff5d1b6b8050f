// A simulated device: its streams are interleaved on one thread, one record or graph node at a time, by a seed or by
// whoever drives it. It executes kernels as cpu does, through the same walker, and has either kind of gate.
//
// By itself it runs what is ready whenever something has become ready, in the order of its seed. A test takes it over
// with a SimObserver: then nothing runs by itself. For one thread of the system at a time; simulated threads
// (base/simulated.h) may be many.
//
// Resettable gates: the one device that has them so far, and how an NPU's task updates look to the graph layer.
#pragma once

#include <cstdint>
#include <vector>

#include "device/driver.h"
#include "engine/engine.h"
#include "engine/walk_event.h"

namespace slipway::internal {

extern const DriverEntry kSimDriver;

class SimObserver {
 public:
  virtual void tell(const WalkEvent& event) = 0;

 protected:
  ~SimObserver() = default;
};

// What a test may do with a simulated device.
class SimControl {
 public:
  virtual Engine& engine() = 0;
  // Null: the device runs by itself again, and at once what is ready.
  virtual void observe(SimObserver* observer) = 0;
  // The rewrite of a group after `after` others is refused by the device. 0: the next one.
  virtual void refuse_rewrite(std::uint64_t after) = 0;

 protected:
  ~SimControl() = default;
};

// Null when the driver is another.
SimControl* sim_control(Driver& driver);

}  // namespace slipway::internal
