// Time as this project counts it: nanoseconds of the steady clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace slipway::internal {

// The clock of a simulation (base/simulated.h), where this thread runs one.
bool time_is_simulated() noexcept;
std::int64_t simulated_now_ns() noexcept;

inline std::int64_t now_ns() noexcept {
  if (time_is_simulated()) [[unlikely]]
    return simulated_now_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

}  // namespace slipway::internal
