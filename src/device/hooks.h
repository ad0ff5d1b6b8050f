// The chain of launch hooks of a device. Launches read a snapshot of it: registering never waits for one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "record/record.h"
#include "slipway/hooks.h"

namespace slipway::internal {

class StreamImpl;

class HookChain {
 public:
  struct Entry {
    std::uint64_t id;
    LaunchHooks hooks;
  };
  using Entries = std::vector<Entry>;

  // `changed` is called under the chain's mutex with whether there are any: it tells the streams.
  explicit HookChain(std::function<void(bool)> changed) : changed_(std::move(changed)) {}

  std::uint64_t add(LaunchHooks hooks);
  void remove(std::uint64_t id) noexcept;
  // The device is gone: nobody is to be told any more.
  void close();

  bool needs_general() const {
    const auto entries = this->entries();
    return entries && std::any_of(entries->begin(), entries->end(), [](auto& e) { return e.hooks.needs_general; });
  }
  // Null when there are none: one load. Relaxed, as registration is ordered with launches of other threads by
  // nothing but what the program does itself; the entries are read under the mutex.
  std::shared_ptr<const Entries> entries() const {
    if (!any_.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;  // guards the rest; a stream list's is taken inside, by changed_
  std::function<void(bool)> changed_;
  std::shared_ptr<const Entries> entries_;
  std::uint64_t last_id_ = 0;
  const std::uint32_t forks_ = fork_count();  // in a child, the mutex may be held for ever
  std::atomic<bool> any_{false};
};

// Around one launch of a stream with kSlowHooks: runs `enter`, submits, and runs `exit` (not when the launch throws).
// `submit` returns the sequence number, as the sink counts.
void launch_hooked(StreamImpl& stream, const std::string& kernel, const LaunchExtent& extent, bool planned,
                   const std::function<std::uint64_t()>& submit);

// Did a hook of this thread throw in the launch that has just failed? Asking clears it.
bool take_hook_threw() noexcept;

}  // namespace slipway::internal
