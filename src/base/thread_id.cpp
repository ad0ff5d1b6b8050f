#include "base/thread_id.h"

#include <atomic>

namespace slipway::internal {

thread_local constinit std::uint64_t t_fast_thread_id = 0;
thread_local constinit bool t_in_callback = false;

std::uint64_t thread_id() noexcept {
  static std::atomic<std::uint64_t> next{1};
  static thread_local std::uint64_t own = 0;
  if (own == 0) own = next.fetch_add(1, std::memory_order_relaxed);  // only its uniqueness matters
  if (!t_in_callback) t_fast_thread_id = own;
  return own;
}

}  // namespace slipway::internal
