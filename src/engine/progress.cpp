#include "engine/progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace slipway::internal {

void Progress::wake(std::uint64_t sequence, Freed& freed) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiters_, [&](const Waiter& w) {
    if (w.sequence > sequence) return false;
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (w.resumable) freed.push_back(w.resumable);
    else w.parker->unpark();  // under the lock, so that the parker is still there
    return true;
  });
}

void Progress::open_failure(std::uint64_t sequence, Status cause) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({sequence, std::numeric_limits<std::uint64_t>::max(), std::move(cause)});
  ever_failed_.store(true, std::memory_order_release);
}

void Progress::close_failure(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (failures_.empty()) return;
  failures_.back().to = sequence + 1;
  // Marks far in the past may still be asked about; a bounded memory of failures is enough for them.
  constexpr std::size_t kKeptFailures = 64;
  if (failures_.size() > kKeptFailures) failures_.erase(failures_.begin());
}

Status Progress::failure_of(std::uint64_t sequence) const {
  if (!ever_failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  for (const FailedRange& range : failures_) {
    if (sequence >= range.from && sequence < range.to) return range.cause;
  }
  return {};
}

bool Progress::wait(std::uint64_t sequence, std::int64_t spin_ns, std::int64_t deadline_ns) {
  if (completed() >= sequence) return true;
  const std::int64_t start = now_ns();
  SpinTurn spin;
  while (now_ns() - start < spin_ns) {
    if (completed() >= sequence) return true;
    spin();
  }
  Parker parker;
  {
    const std::lock_guard lock(mutex_);
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    if (completed_.load(std::memory_order_seq_cst) >= sequence) {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    }
    waiters_.push_back({sequence, nullptr, &parker});
  }
  if (parker.park(deadline_ns, this, sequence)) {
    // announce() may still hold the lock in which it woke us: pass through it, so that the parker may die.
    const std::lock_guard lock(mutex_);
    return true;
  }
  const std::lock_guard lock(mutex_);
  const auto is_mine = [&](const Waiter& w) { return w.parker == &parker; };
  if (std::erase_if(waiters_, is_mine) != 0) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return completed() >= sequence;
  }
  return true;  // woken between the deadline and the lock
}

}  // namespace slipway::internal
