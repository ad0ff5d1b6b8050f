// A thread's place to sleep until another wakes it, with a limit. One sleeper, any number of wakers.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace slipway::internal {

// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

// One turn of a spin loop that may last: pauses at first, then offers the processor to others after each look. On a
// machine with more runnable threads than processors, what is waited for may need this very processor, and would
// otherwise get it only when the scheduler takes it away.
class SpinTurn {
 public:
  void operator()() noexcept {
    if (++turns_ < kPauses) cpu_relax();
    else yield();
  }
  void reset() noexcept { turns_ = 0; }

 private:
  static constexpr unsigned kPauses = 256;  // about 5 us here: a near answer comes without a system call
  static void yield() noexcept;
  unsigned turns_ = 0;
};

// Processors that this thread, or others bound to `more`, may run on; at least 1.
unsigned available_processors(std::span<const unsigned> more = {}) noexcept;

class Parker {
 public:
  // Sleeps until unpark() or the deadline (now_ns() time). An unpark() that came before counts, once.
  // Returns false when the deadline passed first.
  // `progress` and `number` are what it sleeps for, for a simulation (base/simulated.h).
  bool park(std::int64_t deadline_ns, const void* progress = nullptr, std::uint64_t number = 0) noexcept;

  // Everything written before it is visible to the thread that it wakes.
  void unpark() noexcept;

 private:
  // 0 nothing, 1 woken, 2 asleep. unpark's exchange (release) pairs with park's (acquire).
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace slipway::internal
