// What the handles of the public interface refer to, where it is little more than a driver's object.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "device/capture_target.h"
#include "device/device_impl.h"
#include "device/stream_impl.h"
#include "slipway/device.h"
#include "slipway/testing.h"

namespace slipway::internal {

struct MemoryImpl {
  std::shared_ptr<DeviceImpl> device;
  DevicePtr address = kNullDevicePtr;
  std::uint64_t bytes = 0;
  std::uint32_t generation = 0;
  bool adopted = false;

  ~MemoryImpl();
};

struct HostMemoryImpl {
  std::shared_ptr<DeviceImpl> device;
  void* data = nullptr;
  std::uint64_t bytes = 0;

  ~HostMemoryImpl();
};

struct ModuleImpl {
  ~ModuleImpl();

  std::shared_ptr<DeviceImpl> device;
  std::shared_ptr<DriverModule> module;
  std::uint32_t generation = 0;
};

struct KernelImpl {
  std::shared_ptr<DeviceImpl> device;
  std::shared_ptr<KernelCode> code;  // keeps its module
  std::uint32_t generation = 0;

  ~KernelImpl();
};

class EventImpl {
 public:
  EventImpl(std::shared_ptr<DeviceImpl> owner, std::shared_ptr<DriverEvent> event, bool with_timing)
      : device(std::move(owner)),
        driver_event(std::move(event)),
        timing(with_timing),
        generation(device->generation()) {}
  ~EventImpl();

  // Refuses what an event must not be asked while its last mark is a node of a capture that is open.
  void refuse_captured(const char* what);

  const std::shared_ptr<DeviceImpl> device;
  const std::shared_ptr<DriverEvent> driver_event;
  const bool timing;
  const std::uint32_t generation;
  std::mutex mutex;                          // of marks and of waits being prepared, and of what follows
  std::weak_ptr<CaptureTarget> captured_by;  // where the last mark is a node of a graph
  std::uint64_t marks = 0;
};

// Submits a wait of the stream for whatever the driver's event says; both of one device. True: settle() is to follow.
bool submit_wait(StreamImpl& stream, DriverEvent& event);

// The handle's object, or InvalidArgument naming what was not given.
template <class Handle>
auto& deref(const Handle& handle, const char* what) {
  if (!handle.impl()) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string(what) + " is an empty handle; use one that a Device or Module made");
  }
  return *handle.impl();
}

// Refuses a handle of another device.
void check_same_device(const DeviceImpl& mine, const DeviceImpl& theirs, const char* what);
// For calls that copy and wait: on a captured stream they would become nodes. `what`: "graph 'x' was to be saved".
void refuse_captured_stream(const StreamImpl& stream, const std::string& what);

// A launch shape, checked: each dimension against zero and the device's limits, in this order, everywhere.
struct CheckedShape {
  LaunchExtent extent;
  std::uint8_t flags = 0;  // of the launch record
  bool empty = false;      // a zero somewhere: nothing runs
  GridParameter grid_from;
};
CheckedShape check_shape(const DeviceInfo& info, const std::string& kernel, const LaunchShape& shape);
// Only the grid, into a shape that was checked before.
void check_grid(const DeviceInfo& info, const std::string& kernel, const Extent& grid, CheckedShape& shape);

// The general path: everything is checked and packed now. Used by Stream::launch and as the fallback of plans.
void launch_general(StreamImpl& stream, KernelImpl& kernel, const CheckedShape& shape,
                    std::span<const Argument> arguments);

}  // namespace slipway::internal
