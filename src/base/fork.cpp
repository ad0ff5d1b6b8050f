#include "base/fork.h"

#include <pthread.h>

#include "base/fence.h"
#include "base/thread_id.h"

namespace slipway::internal {

std::atomic<std::uint32_t> g_forks{0};

namespace {

// Only what may be done in the child of a process with threads: no locks, no allocation.
void in_child() noexcept {
  g_forks.fetch_add(1, std::memory_order_relaxed);
  forget_thread_id();
  register_fences_again();
}

}  // namespace

void watch_forks() {
  static const bool watching = [] {
    (void)asymmetric_fences();  // decided here, as the child cannot wait for a thread that is deciding it
    return ::pthread_atfork(nullptr, nullptr, &in_child) == 0;
  }();
  (void)watching;  // it fails only for want of memory, and children are then as unwatched as before
}

}  // namespace slipway::internal
