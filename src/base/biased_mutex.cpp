#include "base/biased_mutex.h"

#include <chrono>
#include <thread>

namespace slipway::internal {

bool BiasedMutex::become_owner() {
  std::uint64_t expected = kNobody;
  if (owner_.load(std::memory_order_relaxed) != expected) return false;
  const std::uint64_t me = thread_id();
  return owner_.compare_exchange_strong(expected, me, std::memory_order_acq_rel) && enter(me, Inside::kYes);
}

bool BiasedMutex::drain() noexcept {
  if (drained_) return true;
  const Inside seen = is_shared() ? entered_.load(std::memory_order_acquire)
                                  : store_then_load_rare(owner_, kShared, entered_, asymmetric_);
  drained_ = seen == Inside::kNo;
  return drained_;
}

void BiasedMutex::lock_slow() {
  if (become_owner()) return hold_as_owner();
  mutex_.lock();
  // Then it sleeps between looks: once in a mutex's life, for as long as its owner is inside.
  constexpr int kYields = 256;
  for (int looks = 0; !drain(); ++looks) {
    if (!t_simulated) {
      if (looks < kYields) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(50));
      continue;
    }
    const auto left = [](const void* mutex) {
      return static_cast<const BiasedMutex*>(mutex)->entered_.load(std::memory_order_acquire) == Inside::kNo;
    };
    t_simulated->sleep({"lock", this, 0}, left, this, kNoDeadline);
  }
}

bool BiasedMutex::try_lock_slow() {
  if (become_owner()) {
    hold_as_owner();
    return true;
  }
  if (!mutex_.try_lock()) return false;
  if (drain()) return true;
  mutex_.unlock();
  return false;
}

}  // namespace slipway::internal
