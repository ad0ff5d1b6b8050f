// Launch hooks: functions that are called around each launch of a device.
//
// They see launches that are submitted to a stream by themselves, planned and general ones alike: not those of a
// capture or a replay, nor empty ones. An empty chain costs a launch nothing. With hooks, a planned launch keeps its
// plan and takes the stream's slow turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "slipway/export.h"
#include "slipway/types.h"

namespace slipway {

namespace internal {
class HookChain;
}

struct LaunchInfo {
  const std::string& kernel;
  const std::string& stream;
  Dim3 grid;   // blocks
  Dim3 block;  // work items in a block
  std::uint32_t shared_bytes = 0;
  bool planned = false;        // by a plan; else by the general path
  std::uint64_t sequence = 0;  // in the stream, from 1, as Error::sequence(); 0 in `enter`, which comes before
};

// Called on the submitting thread, `enter` before the launch is submitted and `exit` after it (not when the launch is
// refused); either may be empty. They may not call Slipway (FailedPrecondition). What they throw reaches the caller of
// the launch as it is: out of `enter`, the launch is not submitted; out of `exit`, it has been.
struct LaunchHooks {
  std::function<void(const LaunchInfo&)> enter{};
  std::function<void(const LaunchInfo&)> exit{};
  bool needs_general = false;  // planned launches take the general path while these are registered; plans are kept
};

// Takes its hooks off the chain when it is destroyed. A launch that has begun still calls them; wait for it before
// destroying what they use. Any thread. Several `enter` run in the order of registration, `exit` in reverse.
class SLIPWAY_API LaunchHookHandle {
 public:
  LaunchHookHandle() noexcept = default;
  LaunchHookHandle(std::weak_ptr<internal::HookChain> chain, std::uint64_t id) noexcept
      : chain_(std::move(chain)), id_(id) {}
  ~LaunchHookHandle() { remove(); }
  LaunchHookHandle(LaunchHookHandle&& other) noexcept { swap(other); }
  LaunchHookHandle& operator=(LaunchHookHandle&& other) noexcept {
    swap(other);
    return *this;
  }

  void remove() noexcept;

 private:
  void swap(LaunchHookHandle& other) noexcept {
    chain_.swap(other.chain_);
    std::swap(id_, other.id_);
  }
  std::weak_ptr<internal::HookChain> chain_;
  std::uint64_t id_ = 0;
};

}  // namespace slipway
