// Counts that streams keep. One writer at a time (whoever has the right to submit), any reader: so adding is a
// relaxed load and store, not a locked instruction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/single_writer.h"
#include "slipway/trace.h"

namespace slipway::internal {

class Counter {
 public:
  // By the one writer of the moment.
  void add(std::uint64_t n = 1) noexcept { add_single_writer(value_, n); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct StreamCounters {
  Counter general_launches, planned_launches, copies, fills, host_functions, event_marks, event_waits;

  void add_to(Counters& total) const noexcept {
    total.general_launches += general_launches.get();
    total.planned_launches += planned_launches.get();
    total.copies += copies.get();
    total.fills += fills.get();
    total.host_functions += host_functions.get();
    total.event_marks += event_marks.get();
    total.event_waits += event_waits.get();
  }
};

// Rare events of a device, counted from any thread.
struct DeviceCounters {
  std::atomic<std::uint64_t> empty_launches{0}, modules_loaded{0}, modules_unloaded{0}, live_memory_bytes{0},
      staged_bytes{0};
  std::array<std::atomic<std::uint64_t>, kReasonCount> reasons{};

  void note(Reason reason) noexcept {
    reasons[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace slipway::internal
