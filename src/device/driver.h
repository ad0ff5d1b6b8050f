// The driver interface: what a kind of device has to provide. Everything here trusts its caller, the front
// door, which has checked all arguments; nothing here throws (std::bad_alloc apart). docs/drivers.md tells how
// to write one.
//
// Threads: unless a line says otherwise, any function may be called from any thread at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/uri.h"
#include "base/wait.h"
#include "record/kernel_code.h"
#include "record/record.h"
#include "record/sink.h"
#include "slipway/device.h"
#include "slipway/testing.h"
#include "trace/counters.h"
#include "trace/timeline_log.h"

namespace slipway::internal {

// The timeline knows a stream by the address of its sink, and a record by its number in it.

// What the front door lends to a driver for as long as the driver lives.
struct DriverEnvironment {
  WaitRules wait_rules;   // the driver sets the defaults from its URI while it opens
  bool blocking = false;  // likewise: each submission waits (the front door does it)
  DeviceCounters counters;
  std::atomic<bool> lost{false};  // the device has faulted: set by the driver with lose(), ended by reset()
  std::atomic<TimelineLog*> timeline{nullptr};  // null while it is off; whoever reads it holds no lock, and
                                                // the log outlives the driver's use of it

  // The first cause stays.
  void lose(Status cause) {
    const std::lock_guard lock(lost_mutex_);
    if (lost.load(std::memory_order_relaxed)) return;
    lost_cause_ = std::move(cause);
    lost.store(true, std::memory_order_release);
  }
  Status lost_cause() {
    const std::lock_guard lock(lost_mutex_);
    return lost_cause_;
  }

 private:
  std::mutex lost_mutex_;
  Status lost_cause_;
};

// The front door's side of a native queue: what others put there.
class NativeWork {
 public:
  virtual ~NativeWork() = default;
  // Behind everything submitted so far; in a capture, a node. A refusal leaves `work` where it is. Any thread.
  virtual Status take(std::unique_ptr<HostFunction>& work) = 0;
};

class DriverStream {
 public:
  virtual ~DriverStream() = default;

  // Where the front door writes records, one submitter at a time.
  virtual Sink& sink() = 0;
  // A commit said that nobody looks: have what is published executed. In-line drivers do it here.
  virtual void kick() = 0;

  // The records up to which all work is done (or discarded). May lag.
  virtual std::uint64_t completed() = 0;
  // Waits until the record `sequence` is done. Only called for event marks that this stream was given. Timeout
  // when the deadline (now_ns() time) passes. Success says nothing about failures.
  virtual Status wait(std::uint64_t sequence, std::int64_t deadline_ns) = 0;

  // The count of the sink that is this stream's zero: sinks may be used again by a later stream.
  virtual std::uint64_t base() { return 0; }

  // The failure that this stream is in; success when it is healthy. kSlowFailed in the sink says when to ask.
  virtual Status failure() = 0;
  // Ends the failed state. Everything discarded has passed by then (the front door waited for it).
  virtual void recover() = 0;

  virtual void* native_handle() = 0;
  // Gives what others put on native_handle() to `work` from now on; null: refuses it. False where it does not pass
  // through Slipway, so that it would run beside a capture: the handle is then not given out while there is one. (A
  // device that can capture its own queues would do so from here.)
  virtual bool set_native_work(NativeWork* work) {
    (void)work;
    return false;
  }
};

enum class EventState : std::uint8_t { kPending, kPassed, kFailed };

// An event, or a hold (below). The front door serialises marked() and prepare_wait() of one event.
class DriverEvent {
 public:
  virtual ~DriverEvent() = default;

  // A mark was submitted as record `sequence` of this stream, and kick() was called if it had to be.
  virtual void marked(DriverStream& stream, std::uint64_t sequence) = 0;
  // Fills mark_source and mark for a wait on the last mark. False: there is none, nothing to wait for.
  virtual bool prepare_wait(EventRecord& record) = 0;

  // About the last mark. `cause` is set for kFailed.
  virtual EventState state(Status& cause) = 0;
  virtual Status wait(std::int64_t deadline_ns) = 0;
  // When the last mark was passed, in ns of the device's own clock. Only asked of events made with timing.
  virtual Result<std::int64_t> time_ns() = 0;
};

// An event that the host fires: streams that wait for it (prepare_wait is always true) stand still until then.
class DriverHold : public DriverEvent {
 public:
  virtual void release() = 0;
};

class DriverModule {
 public:
  virtual ~DriverModule() = default;
  // `signature` null: the module's own. The code must be that of the name; kinds are checked here where the
  // module knows them, since only it does. The returned code may outlive nothing but its module.
  virtual Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* signature) = 0;
};

// How the gates of replays work on a device, and what that asks of whoever updates.
struct GateTraits {
  bool resettable = false;    // events that replays wait for and reset, set by work on a stream; else they count steps
  bool record_first = false;  // resettable: the event must be set before anybody waits for it, so updates come first
  bool wait_before = false;   // resettable: where the update stream waits for a replay: before the next is submitted,
                              // else behind the update
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const AbiDescriptor& abi() const = 0;

  virtual Result<std::shared_ptr<DriverStream>> create_stream(const StreamOptions& options) = 0;
  virtual Result<std::shared_ptr<DriverStream>> adopt_stream(void* native) = 0;
  virtual Result<std::unique_ptr<DriverEvent>> create_event(const EventOptions& options) = 0;
  virtual Result<std::unique_ptr<DriverHold>> create_hold() = 0;

  // Memory of at least info().memory_alignment; never called with 0 bytes. free() is called once all work that
  // may use it has passed.
  virtual Result<DevicePtr> allocate(std::uint64_t bytes) = 0;
  virtual void free(DevicePtr address) = 0;
  virtual Result<void*> allocate_host(std::uint64_t bytes) = 0;
  virtual void free_host(void* memory) = 0;
  // Memory of another owner becomes known, or is forgotten. Unsupported where it cannot be expressed.
  virtual Status adopt_memory(DevicePtr address, std::uint64_t bytes) = 0;
  virtual void forget_memory(DevicePtr address) = 0;

  virtual Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef> kernels) = 0;
  virtual Result<std::unique_ptr<DriverModule>> load_library(const std::string& path) = 0;
  virtual Result<std::unique_ptr<DriverModule>> load_source(std::string_view source, std::string_view options) = 0;

  // May the device run work of this launch at all, beyond what info() says? Called once per plan or general
  // launch with a shape that info() allows.
  virtual Status check_launch(const KernelCode& code, const LaunchExtent& extent) = 0;

  // After DeviceLost: makes the device usable again for what is created from now on.
  virtual Status reset() = 0;
  // Stops all execution and joins threads; work that was not run is discarded and its payloads are destroyed.
  // Nothing but free functions and destructors is called after it. False: something still runs at the deadline (a
  // kernel that does not end, say), and the caller must leak the driver and what belongs to it.
  virtual bool shut_down(std::int64_t deadline_ns) = 0;

  // Whether the values of a replay are read when the work that needs them runs, or when it is handed over, so that
  // replays are cut at their gates (engine/replay_program.h).
  virtual bool reads_values_late() const { return false; }
  virtual GateTraits gates() const { return {}; }
  virtual std::vector<testing::StoredWork> take_stored() { return {}; }
  virtual void* native_handle() = 0;
};

// One row of the table of drivers (drivers/registry.cpp).
struct DriverEntry {
  const char* name;
  const char* options;  // of the URI, one per line
  Result<std::unique_ptr<Driver>> (*open)(const Uri& uri, DriverEnvironment& environment);
  // The hardware that a URI without options would open, or why there is none.
  Result<std::string> (*probe)();
};

std::span<const DriverEntry> driver_table() noexcept;

}  // namespace slipway::internal
