// What a Device handle refers to, and what everything made from it keeps alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "base/thread_id.h"
#include "device/address_map.h"
#include "device/driver.h"
#include "device/hooks.h"
#include "device/open_captures.h"
#include "device/owed.h"
#include "device/retire.h"
#include "device/update_stream.h"

namespace slipway::internal {

class CaptureTarget;
class StreamImpl;

class DeviceImpl {
 public:
  DeviceImpl(std::unique_ptr<DriverEnvironment> environment, std::unique_ptr<Driver> driver);
  ~DeviceImpl();

  // Was it opened before a fork, and is this the child? Then nothing of it may be touched that another thread might
  // have been using, and what is dropped is left behind.
  bool forked() const noexcept { return forks_ != fork_count(); }
  // Refuses use in such a child.
  void check_process(const char* what) const {
    if (forked()) [[unlikely]]
      throw_forked(what);
  }
  // The same, and refuses use from inside a callback, of a closed device, and of things made before a reset
  // (generation != 0 and not the current one).
  void check_usable(const char* what, std::uint32_t generation = 0) const {
    if (forked() || t_in_callback || closed_.load(std::memory_order_acquire) ||
        (generation != 0 && generation != generation_.load(std::memory_order_acquire))) [[unlikely]]
      throw_unusable(what, generation);
  }

  Driver& driver() noexcept { return *driver_; }
  DriverEnvironment& environment() noexcept { return *environment_; }
  DeviceCounters& counters() noexcept { return environment_->counters; }
  WaitRules& rules() noexcept { return environment_->wait_rules; }
  const DeviceInfo& info() const { return info_; }
  std::uint32_t id() const noexcept { return id_; }  // unique among all devices of the process, from 1
  std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  AddressMap& addresses() noexcept { return addresses_; }
  RetireList& retired() noexcept { return retired_; }
  OwedUpdates& owed() noexcept { return owed_; }
  UpdateStream& updates() noexcept { return updates_; }
  HookChain& hooks() noexcept { return *hooks_; }
  const std::shared_ptr<HookChain>& shared_hooks() const noexcept { return hooks_; }

  std::int64_t deadline(std::int64_t limit_ms) const noexcept;

  void add_stream(const std::shared_ptr<StreamImpl>& stream);
  void refuse_work_of_all() { set_slow_flags(kSlowLost, true); }  // it is lost: each submission asks first
  void remove_stream(StreamImpl* stream);                         // keeps its counters
  OpenCaptures& captures() noexcept { return captures_; }
  // Those that have a handle. Nothing may wait under the lock of the list, as a host function may drop a stream.
  std::vector<std::shared_ptr<StreamImpl>> streams();
  // StreamImpl::await_fast_paths() of all streams of all devices of this process, also of one that is being dropped: it
  // was launched on before. Under the locks of the lists, since a fast path takes no lock and runs nothing of
  // anybody's.
  static void await_fast_paths() noexcept;
  Counters count();

  void synchronize(std::int64_t deadline_ns);
  void start_timeline(std::size_t capacity);
  std::vector<TimelineEntry> stop_timeline(std::uint64_t* dropped);
  void reset();
  // Drains and joins. Throws Timeout, leaving the device closed and what cannot stop leaked.
  void close(std::int64_t deadline_ns);

 private:
  // The devices of this process; the child of a fork begins with none.
  struct OpenDevices {
    const std::uint32_t forks = fork_count();
    std::mutex mutex;
    std::vector<DeviceImpl*> devices;
  };
  static OpenDevices& open_devices();

  bool drain(std::int64_t deadline_ns);
  void set_slow_flags(std::uint32_t bits, bool on);  // of all streams
  [[noreturn]] void throw_forked(const char* what) const;
  void throw_unusable(const char* what, std::uint32_t generation) const;

  std::unique_ptr<DriverEnvironment> environment_;
  std::unique_ptr<Driver> driver_;
  DeviceInfo info_;  // the driver's, kept beyond its end
  const std::uint32_t id_;
  const std::uint32_t forks_;  // when it was opened
  const std::int64_t process_;
  std::atomic<std::uint32_t> generation_{1};
  std::atomic<bool> closed_{false};
  bool leaked_ = false;  // something runs on for good: what it may touch is not destroyed
  std::mutex close_mutex_;
  AddressMap addresses_;
  OwedUpdates owed_;
  RetireList retired_;
  UpdateStream updates_;
  std::shared_ptr<HookChain> hooks_;
  std::mutex streams_mutex_;
  struct Entry {
    StreamImpl* stream;
    std::weak_ptr<StreamImpl> handle;
  };
  std::vector<Entry> streams_;
  Counters gone_;  // of streams that were dropped; under streams_mutex_
  OpenCaptures captures_;
  std::mutex timeline_mutex_;
  std::vector<std::unique_ptr<TimelineLog>> logs_;  // the last is the current one; kept, as workers may hold it
};

}  // namespace slipway::internal
