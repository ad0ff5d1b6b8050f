// Streams and events: in-order queues of work, and marks in them.
//
// Both are shared handles. A stream may be used from several threads: submissions of one thread keep their
// order, and a stream that only one thread submits to takes no lock. Dropping the last handle of a stream
// waits for nothing; what was submitted still runs.
//
// No function here may be called from inside a kernel or a host function: it is refused (FailedPrecondition).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "slipway/argument.h"
#include "slipway/export.h"
#include "slipway/memory.h"
#include "slipway/module.h"

namespace slipway {

namespace internal {
class StreamImpl;
class EventImpl;
}  // namespace internal

// A limit on waiting; negative means the device's default (Device option wait_limit_ms, 60 s unless given).
using WaitLimit = std::chrono::milliseconds;
constexpr WaitLimit kDefaultWaitLimit{-1};

// Signed, so that a negative value is seen as such and refused instead of becoming a huge one.
struct Extent {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

struct GridParameter {  // a grid that an operation of a graph computes for each step (graph.h)
  std::uint32_t number = ~std::uint32_t{0};
  std::uint32_t capture = 0;
};

// How a kernel is launched. A zero in any dimension of grid or block: nothing runs, and the launch succeeds.
struct LaunchShape {
  Extent grid{};                  // number of blocks
  Extent block{0, 0, 0};          // work items in a block; all zero means the kernel's own (1 on cpu)
  std::int64_t shared_bytes = 0;  // scratch for each block
  bool spread = false;            // let several workers run the blocks of this launch (cpu; a hint elsewhere)
  GridParameter grid_from{};      // only while capturing: `grid` is then the first value, and this gives each step's
};

struct EventOptions {
  bool timing = false;  // keep the time of the mark, for elapsed()
};

class SLIPWAY_API Event {
 public:
  Event() noexcept = default;
  explicit Event(std::shared_ptr<internal::EventImpl> impl) noexcept : impl_(std::move(impl)) {}

  // Has the last mark been passed? An event that was never marked counts as passed. Throws the stream's
  // failure when the mark fired as failed.
  bool query() const;

  // Waits for the last mark. Throws the failure with which it fired, or Timeout.
  void synchronize(WaitLimit limit = kDefaultWaitLimit) const;

  // Time from this event's mark to `later`'s. Both must have been created with timing and have passed;
  // FailedPrecondition otherwise.
  std::chrono::nanoseconds elapsed(const Event& later) const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::EventImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::EventImpl> impl_;
};

struct StreamOptions {
  int priority = 0;                      // lower runs first, as everywhere; -1, 0 or 1
  std::uint32_t ring_bytes = 256 << 10;  // room for records that are submitted and not yet run; 16 KiB to 1 GiB
  std::string name{};                    // shown in errors and traces
};

class SLIPWAY_API Stream {
 public:
  Stream() noexcept = default;
  explicit Stream(std::shared_ptr<internal::StreamImpl> impl) noexcept : impl_(std::move(impl)) {}

  // Launches through the general path: every argument is checked and packed. LaunchPlan (plan.h) does the
  // same once, and is what a repeated launch should use.
  template <class... Args>
  void launch(const Kernel& kernel, const LaunchShape& shape, const Args&... args) const {
    if constexpr (sizeof...(Args) == 0) {
      launch_arguments(kernel, shape, {});
    } else {
      const Argument arguments[] = {Argument(args)...};
      launch_arguments(kernel, shape, arguments);
    }
  }
  void launch_arguments(const Kernel& kernel, const LaunchShape& shape, std::span<const Argument> arguments) const;

  // Copies. Ranges inside memory that Slipway knows are checked against its end (OutOfRange).
  void copy_to_device(DevicePtr to, const void* from, std::uint64_t bytes) const;  // `from` is free on return
  void copy_to_host(void* to, DevicePtr from, std::uint64_t bytes) const;          // `to` is valid after synchronize
  void copy(DevicePtr to, DevicePtr from, std::uint64_t bytes) const;              // within the device; may not overlap
  // Without staging: the host side is Slipway's own, must not be written (read) until the copy has passed.
  void copy_to_device_async(DevicePtr to, const HostMemory& from, std::uint64_t from_offset, std::uint64_t bytes) const;
  void copy_to_host_async(const HostMemory& to, std::uint64_t to_offset, DevicePtr from, std::uint64_t bytes) const;

  // Writes `count` copies of a pattern of 1, 2, 4 or 8 bytes.
  void fill(DevicePtr to, std::uint64_t pattern, std::uint32_t pattern_bytes, std::uint64_t count) const;

  // Runs `function` on a thread of its own (in-line devices: on the calling thread) when all before it has
  // run; what follows waits for it. It fails the stream by throwing. It may not call Slipway.
  void host_function(std::function<void()> function, std::string name = {}) const;

  // Marks the event here: waits submitted after this call refer to this place.
  void mark(const Event& event) const;
  // What follows waits for the event's last mark. No mark yet: no wait. A mark that fired as failed fails
  // this stream with the same cause.
  void wait(const Event& event) const;

  // Waits until all that was submitted has run. Throws the failure of this stream once, in full; Timeout
  // leaves the work as it is.
  void synchronize(WaitLimit limit = kDefaultWaitLimit) const;
  // Has all that was submitted run (or been discarded)? Never throws a failure.
  bool idle() const;
  // Ends the failed state, once what was discarded has passed. No effect on a healthy stream.
  void recover() const;

  // How many units of work were submitted to this stream, and how many have passed. Error::sequence() counts
  // the same way.
  std::uint64_t submitted() const;
  std::uint64_t completed() const;

  // The driver's own object (OpenCL: cl_command_queue; cpu and null: NativeQueue, native.h), after everything submitted
  // so far was handed to it; null where the driver has none. Stays ours.
  void* native_handle() const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::StreamImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::StreamImpl> impl_;
};

}  // namespace slipway
