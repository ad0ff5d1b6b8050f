// A gate on devices that have no counting ones: an event that is set, waited for, and reset to be used again.
//
// It keeps one bit, so a set of an event that is set already is lost, and with it a step, which then waits for ever.
// What keeps that from happening is the order of replay and update (graph/executable_resettable.cpp).
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/progress.h"

namespace slipway::internal {

class GateEvent {
 public:
  // Counts what was set, so that waiting for the bit is waiting for a count.
  Progress& progress() noexcept { return progress_; }
  // The count at which a wait that comes now passes.
  std::uint64_t awaited() const {
    const std::lock_guard lock(mutex_);
    return reset_ + 1;
  }
  bool is_set() const {
    const std::lock_guard lock(mutex_);
    return progress_.completed() > reset_;
  }
  // False: it was set already, and this one is lost.
  bool set(Freed& freed) {
    const std::lock_guard lock(mutex_);
    if (progress_.completed() > reset_) return false;
    progress_.announce(reset_ + 1, freed);
    return true;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    reset_ = progress_.completed();
  }

 private:
  mutable std::mutex mutex_;  // makes its holder progress_'s one writer
  Progress progress_;
  std::uint64_t reset_ = 0;  // what progress_ was when it was reset
};

}  // namespace slipway::internal
