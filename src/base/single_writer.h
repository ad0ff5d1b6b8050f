// Adding to a count that one thread at a time writes and any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipway::internal {

// A relaxed load, an addition and a relaxed store. Compilers keep the three apart, as they do all operations on
// atomics; on x86 one instruction does the same, and what any reader sees is the same too: an aligned store of 8 bytes.
inline void add_single_writer(std::atomic<std::uint64_t>& count, std::uint64_t n) noexcept {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  static_assert(sizeof count == sizeof(std::uint64_t));
  asm("addq %1, %0" : "+m"(count) : "re"(n) : "cc");
#else
  count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
#endif
}

}  // namespace slipway::internal
