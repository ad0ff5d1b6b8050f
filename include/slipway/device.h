// The front door: everything begins with Device::open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/export.h"
#include "slipway/hooks.h"
#include "slipway/memory.h"
#include "slipway/module.h"
#include "slipway/stream.h"
#include "slipway/trace.h"

namespace slipway {

namespace internal {
class DeviceImpl;
}

struct DeviceInfo {
  std::string uri;                       // what it was opened with
  std::string driver;                    // "cpu", "null", "opencl"
  std::string name;                      // of the hardware
  Dim3 max_grid;                         // blocks in each dimension
  Dim3 max_block;                        // work items in each dimension
  std::uint64_t max_block_items = 0;     // work items in one block
  std::uint64_t max_shared_bytes = 0;    // scratch of one block
  std::uint32_t max_argument_bytes = 0;  // packed arguments of one launch
  std::uint64_t total_memory_bytes = 0;  // 0: not known
  std::uint32_t memory_alignment = 1;    // of every allocation, bytes
  std::uint32_t tensor_alignment = 1;    // that an address inside an allocation needs as an argument, bytes
  unsigned workers = 0;                  // threads that execute streams; 0: in-line, or not the host's business
  bool host_addressable = false;         // DevicePtr values are host pointers
  bool runs_kernels = true;              // false: the null device
  // Blocks of a whole grid.
  std::uint64_t max_grid_blocks = ~0ULL;
};

// How long callers may be made to wait, and other rules, are options of the URI:
//   cpu[:workers=N|inline][,spin_us=N][,affinity=0-3][,blocking][,wait_limit_ms=N]
//   null[:store][,busy_us=T][,fault_at=N]...      opencl[:platform=N][,device=N][,memory=svm|buffer]...
// `slipway devices` prints them all. An unknown option is refused, naming the known ones.
class SLIPWAY_API Device {
 public:
  Device() noexcept = default;
  explicit Device(std::shared_ptr<internal::DeviceImpl> impl) noexcept : impl_(std::move(impl)) {}

  // Throws InvalidArgument for a bad URI and Unavailable when the driver's library or device is not there.
  // Any thread.
  static Device open(std::string_view uri = "cpu");

  const DeviceInfo& info() const;

  Stream create_stream(const StreamOptions& options = {}) const;
  Event create_event(const EventOptions& options = {}) const;

  // Contents are undefined. Zero bytes give a valid handle with the null address.
  Memory allocate(std::uint64_t bytes) const;
  HostMemory allocate_host(std::uint64_t bytes) const;
  // Makes memory that another library owns known here. Nothing is freed.
  Memory adopt_memory(DevicePtr address, std::uint64_t bytes) const;
  // A stream over the driver's own queue object that another library owns. Unsupported on cpu and null.
  Stream adopt_stream(void* native) const;

  // Kernels compiled into the program (see kernel<>() in signature.h). The names are copied.
  Module load_table(std::span<const KernelDef> kernels) const;
  Module load_table(std::initializer_list<KernelDef> kernels) const {
    return load_table(std::span<const KernelDef>(kernels.begin(), kernels.size()));
  }
  // A shared library of plain C functions returning void (cpu).
  Module load_library(const std::string& path) const;
  // Source text in the device's own language (opencl: OpenCL C), with build options.
  Module load_source(std::string_view source, std::string_view options = {}) const;

  // Waits for every stream, and until memory that was dropped before is free again. Throws the first failure found that
  // was not thrown before.
  void synchronize(WaitLimit limit = kDefaultWaitLimit) const;

  // Brackets every entry that can block: `leave` is called before the wait, `enter` after it. For callers
  // that hold a lock (an interpreter's, say) which work in flight may need. Both or neither.
  void set_blocking_hooks(std::function<void()> leave, std::function<void()> enter) const;

  // Has them called around each launch from now on, until the handle is destroyed; see hooks.h.
  [[nodiscard]] LaunchHookHandle add_launch_hooks(LaunchHooks hooks) const;

  // What happened so far; see trace.h.
  Counters counters() const;
  // Keeps the first `capacity` entries. While it is on, each submission is logged under a lock.
  void start_timeline(std::size_t capacity = 1 << 16) const;
  // What was kept, in no promised order; `dropped`: how many entries found no room.
  std::vector<TimelineEntry> stop_timeline(std::uint64_t* dropped = nullptr) const;

  // Ends the lost state: streams, modules and memory made before are stale (StaleContext) from now on.
  void reset() const;
  // Drains (bounded by `limit`), joins the workers; every later use throws StaleContext. Also done, within
  // the default limit, when the last handle to the device or anything made from it is dropped.
  void close(WaitLimit limit = kDefaultWaitLimit) const;

  // The driver's own context object (OpenCL: cl_context); null where it has none.
  void* native_handle() const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::DeviceImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::DeviceImpl> impl_;
};

// One line per driver: is it there, and what does its URI take?
struct DriverStatus {
  std::string name;
  bool available = false;
  std::string detail;   // the hardware, or why it is not available
  std::string options;  // the URI's options, one per line
};
SLIPWAY_API std::vector<DriverStatus> list_drivers();

}  // namespace slipway
