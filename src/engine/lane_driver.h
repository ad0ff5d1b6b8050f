// What drivers whose streams are lanes have in common. Each gives its executor, and says what its kernels and its
// memory are where these are not the process's own.
#pragma once

#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "device/driver.h"
#include "engine/engine.h"
#include "engine/lane_event.h"
#include "engine/walker.h"

namespace slipway::internal {

template <class Executor>
class LaneDriver : public Driver {
 public:
  const DeviceInfo& info() const override { return info_; }
  const AbiDescriptor& abi() const override { return kCpuAbi; }
  bool reads_values_late() const override { return true; }

  Result<std::shared_ptr<DriverStream>> create_stream(const StreamOptions& options) override {
    return std::shared_ptr<DriverStream>(
        std::make_shared<LaneStream>(engine_, new_lane(options), environment_.wait_rules));
  }
  Result<std::shared_ptr<DriverStream>> adopt_stream(void*) override {
    return Status(ErrorCode::kUnsupported,
                  "the " + info_.driver + " device has no native streams to adopt; use create_stream()");
  }
  Result<std::unique_ptr<DriverEvent>> create_event(const EventOptions& options) override {
    return std::unique_ptr<DriverEvent>(std::make_unique<LaneEvent>(options, environment_.wait_rules));
  }
  Result<std::unique_ptr<DriverHold>> create_hold() override {
    return std::unique_ptr<DriverHold>(std::make_unique<LaneHold>());
  }

  Result<DevicePtr> allocate(std::uint64_t bytes) override {
    auto memory = LaneDriver::allocate_host(bytes);
    if (!memory.ok()) return memory.status();
    return host_address(memory.value());
  }
  void free(DevicePtr address) override { std::free(reinterpret_cast<void*>(static_cast<std::uint64_t>(address))); }
  Result<void*> allocate_host(std::uint64_t bytes) override {
    constexpr std::uint64_t kMost = std::numeric_limits<std::size_t>::max() / 2;
    const std::size_t alignment = info_.memory_alignment;
    void* memory =
        bytes > kMost ? nullptr : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) return memory;
    return Status(ErrorCode::kOutOfMemory, "the " + info_.driver + " device has no " + std::to_string(bytes) +
                                               " bytes of memory in one piece; free some, or allocate less");
  }
  void free_host(void* memory) override { std::free(memory); }
  Status adopt_memory(DevicePtr, std::uint64_t) override { return {}; }
  void forget_memory(DevicePtr) override {}

  Status check_launch(const KernelCode&, const LaunchExtent&) override { return {}; }
  Status reset() override { return {}; }
  bool shut_down(std::int64_t deadline_ns) override {
    if (!engine_.shut_down(deadline_ns)) return false;
    engine_.for_each_lane([&](Lane& lane) { discard_lane(lane, environment_); });
    return true;
  }
  void* native_handle() override { return nullptr; }

 protected:
  template <class... Options>
  LaneDriver(DeviceInfo info, const EngineOptions& engine, DriverEnvironment& environment, const Options&... options)
      : info_(std::move(info)),
        environment_(environment),
        executor_(environment, options...),
        engine_(engine, &walk<Executor>, &executor_) {}

  Lane* new_lane(const StreamOptions& options) {
    return engine_.acquire_lane(options.ring_bytes, options.priority, environment_.wait_rules);
  }

  const DeviceInfo info_;
  DriverEnvironment& environment_;
  Executor executor_;  // before the engine, whose threads use it
  Engine engine_;
};

}  // namespace slipway::internal
