#include "device/open_captures.h"

#include <utility>

#include "base/thread_id.h"
#include "device/capture_target.h"

namespace slipway {
namespace {

thread_local constinit CaptureMode t_mode = CaptureMode::kGlobal;

}  // namespace

const char* name_of(CaptureMode mode) noexcept {
  switch (mode) {
    case CaptureMode::kGlobal: return "Global";
    case CaptureMode::kThreadLocal: return "ThreadLocal";
    case CaptureMode::kRelaxed: return "Relaxed";
  }
  return "unknown";
}

CaptureMode CaptureModeScope::current() noexcept { return t_mode; }
CaptureMode CaptureModeScope::exchange(CaptureMode mode) noexcept { return std::exchange(t_mode, mode); }

namespace internal {

void OpenCaptures::begin(const std::shared_ptr<CaptureTarget>& capture, std::string name, CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  open_.push_back({thread_id(), capture.get(), capture, std::move(name), mode});
  count_.store(open_.size(), std::memory_order_relaxed);
}

void OpenCaptures::end(const CaptureTarget* capture) {
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [&](const Open& o) { return o.capture == capture; });
  count_.store(open_.size(), std::memory_order_relaxed);
}

std::shared_ptr<CaptureTarget> OpenCaptures::of_this_thread() const {
  if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
    if (it->thread == thread_id()) return it->handle.lock();
  }
  return nullptr;
}

Status OpenCaptures::check_wait(const char* what) const {
  if (count_.load(std::memory_order_relaxed) == 0 || t_mode == CaptureMode::kRelaxed) return {};
  const std::lock_guard lock(mutex_);
  for (const Open& o : open_) {
    const bool own = o.thread == thread_id();
    const bool forbids =
        own ? o.mode != CaptureMode::kRelaxed : o.mode == CaptureMode::kGlobal && t_mode == CaptureMode::kGlobal;
    if (!forbids) continue;
    return {ErrorCode::kFailedPrecondition,
            std::string(what) + " waits for work, which is not possible while " + (own ? "this" : "another") +
                " thread captures '" + o.name + "' in the mode " + name_of(o.mode) +
                ", since what is read afterwards would be frozen into the graph; end the capture first, or, where "
                "nothing of it goes into the graph, put a CaptureModeScope of CaptureMode::" +
                (own ? "kRelaxed" : "kThreadLocal") + " around the call"};
  }
  return {};
}

}  // namespace internal
}  // namespace slipway
