// "Executes" records by counting, storing, idling or failing.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "device/driver.h"
#include "engine/engine.h"

namespace slipway::internal {

struct NullOptions {
  bool store = false;
  std::int64_t busy_ns = 0;    // per kernel
  std::uint64_t fault_at = 0;  // the device is lost at this launch, counted from 1; 0: never
};

class NullExecutor {
 public:
  NullExecutor(DriverEnvironment& environment, const NullOptions& options)
      : options_(options), environment_(environment) {}

  DriverEnvironment& environment() noexcept { return environment_; }

  void launch(const LaunchRecord& launch, Lane& lane);
  void copy(const CopyRecord& record, const void* source);
  void fill(const FillRecord& record);
  void event(const EventRecord& record, RecordKind kind);
  void host_function(const HostFunctionRecord& record);

  std::vector<testing::StoredWork> take_stored();
  void reset() noexcept { launches_.store(0, std::memory_order_relaxed); }

 private:
  void store(testing::StoredWork work);
  [[noreturn]] void fault(const KernelCode& code, std::uint64_t launch_number);

  const NullOptions options_;
  DriverEnvironment& environment_;
  std::atomic<std::uint64_t> launches_{0};
  std::mutex mutex_;
  std::vector<testing::StoredWork> stored_;
};

}  // namespace slipway::internal
