// Executes records on the CPU: calls kernels block by block, copies and fills host memory.
#pragma once

#include "device/driver.h"
#include "engine/engine.h"

namespace slipway::internal {

class CpuExecutor {
 public:
  explicit CpuExecutor(DriverEnvironment& environment) : environment_(environment) {}

  void set_engine(Engine& engine) noexcept { engine_ = &engine; }
  DriverEnvironment& environment() noexcept { return environment_; }

  void launch(const LaunchRecord& launch, Lane&) {
    const KernelCode& code = *launch.code;
    const std::byte* arguments = arguments_of(launch);
    if (const LaunchExtent* extent = extent_of(launch)) return run_blocks(launch, *extent, code, arguments);
    static constexpr Block kOnlyBlock{};
    code.entry(arguments, kOnlyBlock, code.context);
  }
  void copy(const CopyRecord& record, const void* source);
  void fill(const FillRecord& record);
  void event(const EventRecord&, RecordKind) noexcept {}
  void host_function(const HostFunctionRecord&) noexcept {}

 private:
  void run_blocks(const LaunchRecord& launch, const LaunchExtent& extent, const KernelCode& code,
                  const std::byte* arguments);

  DriverEnvironment& environment_;
  Engine* engine_ = nullptr;
};

}  // namespace slipway::internal
