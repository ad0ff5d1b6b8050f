#include "base/parker.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/simulated.h"

namespace slipway::internal {
namespace {

constexpr std::uint32_t kNothing = 0, kWoken = 1, kAsleep = 2;

// The address of the word for the kernel; std::atomic<uint32_t> has the layout of its value.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace

unsigned available_processors(std::span<const unsigned> more) noexcept {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  for (const unsigned processor : more) CPU_SET(processor, &set);
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1U : static_cast<unsigned>(count);
}

void SpinTurn::yield() noexcept { ::sched_yield(); }

bool Parker::park(std::int64_t deadline_ns, const void* progress, std::uint64_t number) noexcept {
  std::uint32_t expected = kNothing;
  if (!word_.compare_exchange_strong(expected, kAsleep, std::memory_order_acquire)) {
    word_.store(kNothing, std::memory_order_relaxed);  // it was kWoken: the wake-up is used up
    return true;
  }
  if (SimulatedThreads* const simulation = t_simulated) {
    const auto woken = [](const void* word) {
      return static_cast<const std::atomic<std::uint32_t>*>(word)->load(std::memory_order_acquire) == kWoken;
    };
    simulation->sleep({"progress", progress, number}, woken, &word_, deadline_ns);
    return word_.exchange(kNothing, std::memory_order_acquire) == kWoken;
  }
  for (;;) {
    timespec at{};
    timespec* limit = nullptr;
    if (deadline_ns != kNoDeadline) {
      at.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
      at.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
      limit = &at;
    }
    // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what now_ns() reads.
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, kAsleep, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (word_.load(std::memory_order_acquire) == kWoken) {
      word_.store(kNothing, std::memory_order_relaxed);
      return true;
    }
    if (deadline_ns != kNoDeadline && now_ns() >= deadline_ns) {
      return word_.exchange(kNothing, std::memory_order_acquire) == kWoken;
    }
  }
}

void Parker::unpark() noexcept {
  if (word_.exchange(kWoken, std::memory_order_release) == kAsleep) {
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace slipway::internal
