// Where the updates of a device with resettable gates go: one stream, and one update at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/simulated.h"
#include "device/driver.h"

namespace slipway::internal {

struct UpdateStream {
  // Held from before a replay is submitted until its update is, so that pairs of them never interleave.
  Mutex mutex;
  std::shared_ptr<DriverStream> stream{};  // under the mutex, like the rest
  std::uint32_t ring_bytes = 0;
  std::uint64_t replays = 0;    // submitted, and as many
  std::uint64_t updates = 0;    // of these; whoever gives up the mutex owes none
  std::uint64_t recreated = 0;  // streams that turned out to be a replay's own
  // A graph is gone that may have failed the stream, and could not be recovered any more. Relaxed: the next launch that
  // comes behind it makes another stream.
  std::atomic<bool> abandoned{false};
};

// Do two of them put their work into one queue? Pools of streams hand out the same one again.
inline bool same_queue(DriverStream& a, DriverStream& b) {
  return &a.sink() == &b.sink() || (a.native_handle() && a.native_handle() == b.native_handle());
}

}  // namespace slipway::internal
