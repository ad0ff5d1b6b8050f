// A mutex for what one thread does again and again, and others seldom: it is biased to the first thread that locks it,
// which then locks and unlocks it with plain stores. The first other thread takes the bias away for good, at the cost
// of a process-wide barrier; from then on it is a Mutex. Invariants:
//   B1  it is held by the owner between entered_ = kYes or kBriefly and entered_ = kNo while owner_ is its number, or
//       by whoever holds mutex_ once drained_ is set.
//   B2  the owner stores entered_ and then reads owner_; who takes the bias away stores owner_ = kShared and then reads
//       entered_ (base/fence.h): so either waits for the owner to leave, or the owner sees that the bias is gone and
//       takes mutex_. drained_ is set, under mutex_, once entered_ was seen as kNo behind that store.
//   B3  owner_ goes kNobody -> a thread's number -> kShared, and never back; only the owner writes entered_.
// The owner's leaving store (release) pairs with the load (acquire) of who takes the bias away: what the owner wrote is
// seen. Nothing has to come back to the owner but through mutex_.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fence.h"
#include "base/simulated.h"
#include "base/thread_id.h"

namespace slipway::internal {

class BiasedMutex {
 public:
  // Is the owner inside, and may it be waiting there?
  enum class Inside : std::uint8_t { kNo, kBriefly, kYes };

  explicit BiasedMutex(bool asymmetric = asymmetric_fences()) : asymmetric_(asymmetric) {}

  void lock() {
    if (enter(t_own_thread_id, Inside::kYes)) hold_as_owner();
    else lock_slow();
  }
  bool try_lock() {
    if (!enter(t_own_thread_id, Inside::kYes)) return try_lock_slow();
    hold_as_owner();
    return true;
  }
  void unlock() {
    if (!held_by_owner_) return mutex_.unlock();
    held_by_owner_ = false;
    if (t_simulated) [[unlikely]]
      t_simulated->locked(this, false);
    leave();
  }

  // The fast way alone, for who remembers that it took it: true when the thread of this number, the caller's, owns it.
  // Asymmetric fences make this a plain store, a compiler barrier and a load.
  bool enter(std::uint64_t me, Inside how) noexcept {
    if (owner_.load(std::memory_order_relaxed) != me) return false;
    if (store_then_load(entered_, how, owner_, asymmetric_) == me) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept { entered_.store(Inside::kNo, std::memory_order_release); }
  // Behind store_rare() of base/fence.h, by who took something away that owners read while they are inside briefly.
  bool is_inside_briefly() const noexcept { return entered_.load(std::memory_order_seq_cst) == Inside::kBriefly; }
  bool is_shared() const noexcept { return owner_.load(std::memory_order_relaxed) == kShared; }

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  static constexpr std::uint64_t kShared = ~std::uint64_t{0} - 1;

  void hold_as_owner() {
    held_by_owner_ = true;
    if (t_simulated) [[unlikely]]
      t_simulated->locked(this, true);
  }
  bool become_owner();
  bool drain() noexcept;  // under mutex_: takes the bias away. False: its owner is inside
  void lock_slow();
  bool try_lock_slow();

  std::atomic<std::uint64_t> owner_{kNobody};
  std::atomic<Inside> entered_{Inside::kNo};
  const bool asymmetric_;
  bool held_by_owner_ = false;  // the holder's
  bool drained_ = false;        // under mutex_
  Mutex mutex_;
};

}  // namespace slipway::internal
