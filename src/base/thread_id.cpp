#include "base/thread_id.h"

#include <atomic>

namespace slipway::internal {

thread_local constinit std::uint64_t t_fast_thread_id = 0;
thread_local constinit bool t_in_callback = false;
thread_local constinit std::uint64_t t_own_thread_id = 0;

std::uint64_t give_thread_id() noexcept {
  static std::atomic<std::uint64_t> next{1};
  if (t_own_thread_id == 0)
    t_own_thread_id = next.fetch_add(1, std::memory_order_relaxed);  // only its uniqueness matters
  if (!t_in_callback) t_fast_thread_id = t_own_thread_id;
  return t_own_thread_id;
}

void forget_thread_id() noexcept {
  t_own_thread_id = 0;
  t_fast_thread_id = 0;
}

}  // namespace slipway::internal
