// Executes records on this thread, and tells an observer of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "drivers/sim/sim_driver.h"
#include "engine/gate_event.h"
#include "engine/walker_simulated.h"

namespace slipway::internal {

class SimExecutor {
 public:
  using Steps = SimulatedWalk;

  SimExecutor(DriverEnvironment& environment, bool record_first)
      : environment_(environment), record_first_(record_first) {}

  void set_engine(Engine& engine) noexcept { engine_ = &engine; }
  DriverEnvironment& environment() noexcept { return environment_; }
  void launch(const LaunchRecord& launch, Lane&);
  void copy(const CopyRecord& record, const void* source) {
    std::memcpy(reinterpret_cast<void*>(record.to), source, record.bytes);
  }
  void fill(const FillRecord& record);
  void event(const EventRecord&, RecordKind) noexcept {}
  void host_function(const HostFunctionRecord&) noexcept {}

  // --- For SimulatedWalk ---
  void tell(const WalkEvent& event) {
    if (observer) observer->tell(event);
  }
  // A device may hang when it comes to wait for an event that nobody has recorded, or is going to.
  bool waits_for_nothing(ReplayProgram& program, std::uint64_t step, std::uint32_t gate);
  Status unrecorded(const ReplayProgram& program, std::uint64_t step, std::uint32_t gate) const;
  Status rewrites(const ReplayProgram& program, std::uint64_t step, std::uint32_t gate);

  SimObserver* observer = nullptr;
  std::int64_t refuse_after = -1;  // rewrites until one is refused; -1: none is

 private:
  DriverEnvironment& environment_;
  const bool record_first_;
  Engine* engine_ = nullptr;
};

}  // namespace slipway::internal
