// Time as this project counts it: nanoseconds of the steady clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace slipway::internal {

// The simulation that this thread runs (base/simulated.h), whose clock it has; null outside the simulator's tests.
class SimulatedThreads;
extern thread_local constinit SimulatedThreads* t_simulated __attribute__((tls_model("initial-exec")));
std::int64_t simulated_now_ns() noexcept;

inline std::int64_t now_ns() noexcept {
  if (t_simulated) [[unlikely]]
    return simulated_now_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

}  // namespace slipway::internal
