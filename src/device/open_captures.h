// The captures that are open on a device: whose they are, and what they forbid.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "slipway/capture_mode.h"

namespace slipway::internal {

class CaptureTarget;

class OpenCaptures {
 public:
  void begin(const std::shared_ptr<CaptureTarget>& capture, std::string name, CaptureMode mode);
  void end(const CaptureTarget* capture);

  // The one that this thread began last and has not ended, if any. Its own thread begins and ends it, or the entry ends
  // with it.
  std::shared_ptr<CaptureTarget> of_this_thread() const;

  // FailedPrecondition when this thread must not wait for work of the device now. `what` would wait.
  Status check_wait(const char* what) const;

 private:
  struct Open {
    std::uint64_t thread;
    const CaptureTarget* capture;
    std::weak_ptr<CaptureTarget> handle;
    std::string name;
    CaptureMode mode;
  };
  mutable std::mutex mutex_;
  std::vector<Open> open_;
  // Its size, stored under the mutex. Relaxed: a thread's own captures come before its calls in program order, and
  // whether it sees those of another thread a moment sooner or later is a race of the program's.
  std::atomic<std::size_t> count_{0};
};

}  // namespace slipway::internal
