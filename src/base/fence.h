// The store-then-load order that both sides of a sleep or hand-over check need, with the cost on the rare side.
//
// Pattern: one side stores A and then reads B, the other stores B and then reads A; at least one of them must
// see the other's store. Two ways to get it:
//   asymmetric  the frequent side issues only a compiler barrier, the rare side membarrier(2), which makes
//               every running thread of the process execute a full barrier (measured here: 0.6-2 us);
//   symmetric   all four accesses are seq_cst (the frequent side pays a locked instruction, about 5 ns). The
//               stores are exchanges: the same instruction on x86, and right under qemu-user too, which lets a
//               64-bit Arm stlr pass a later ldar when it runs on x86 (seen with 7.2: 3 % of the rounds of a test).
// Which one holds is decided once per process, so that both sides always agree.
#pragma once

#include <atomic>

namespace slipway::internal {

// Is the asymmetric way available? Constant after the first call. Any thread.
bool asymmetric_fences() noexcept;

// In the child of a fork, where asymmetric_fences() was decided before it: the kernel is asked for them again.
void register_fences_again() noexcept;

// The rare side's barrier; only where asymmetric_fences().
void process_wide_barrier() noexcept;

// The frequent side: publishes `value` and then reads `other`.
template <class T, class U>
inline U store_then_load(std::atomic<T>& mine, T value, const std::atomic<U>& other, bool asymmetric) noexcept {
  if (asymmetric) [[likely]] {
    mine.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return other.load(std::memory_order_relaxed);
  }
  mine.exchange(value, std::memory_order_seq_cst);
  return other.load(std::memory_order_seq_cst);
}

// The rare side's store, where it then reads several others, seq_cst.
template <class T>
inline void store_rare(std::atomic<T>& mine, T value, bool asymmetric) noexcept {
  mine.exchange(value, std::memory_order_seq_cst);
  if (asymmetric) process_wide_barrier();
}

// The rare side: the same, with the barrier here. The load acquires.
template <class T, class U>
inline U store_then_load_rare(std::atomic<T>& mine, T value, const std::atomic<U>& other, bool asymmetric) noexcept {
  store_rare(mine, value, asymmetric);
  return other.load(std::memory_order_seq_cst);
}

}  // namespace slipway::internal
