// For tests of programs that use Slipway: ways to bring about what otherwise happens by chance.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "slipway/call_site.h"
#include "slipway/device.h"
#include "slipway/error.h"
#include "slipway/export.h"

namespace slipway::testing {

namespace internal {
struct HoldImpl;
}

// Holds streams still: what is submitted after hold(stream) does not run until release(). No worker is
// blocked by it. The destructor releases. Any thread.
class SLIPWAY_API Hold {
 public:
  explicit Hold(const Device& device);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void hold(const Stream& stream);
  void release();  // once; later calls do nothing

 private:
  std::unique_ptr<internal::HoldImpl> impl_;
};

// What the null device was given, in the order in which it was executed (option `store`).
struct StoredWork {
  enum class Kind : std::uint8_t { kLaunch, kCopy, kFill, kHostFunction, kEventMark, kEventWait, kOther };
  Kind kind = Kind::kOther;
  std::string name{};  // of the kernel or host function
  std::uint64_t stream_id = 0;
  std::uint64_t sequence = 0;
  Dim3 grid{0, 0, 0};
  Dim3 block{0, 0, 0};
  std::uint64_t total_blocks = 0;     // of the grid
  std::uint64_t launched_blocks = 0;  // that the device would be told to start (option `block_cap`)
  std::uint32_t shared_bytes = 0;
  std::vector<std::byte> arguments{};  // packed, as the device would read them
};
SLIPWAY_API std::vector<StoredWork> take_stored(const Device& device);

// The next launch of the site through its plan, or else the next plan that it makes, fails with this instead, before
// anything is submitted unless `submitted` says that the device may have it.
SLIPWAY_API void fail_next_planned_launch(const CallSite& site, ErrorCode code, bool submitted, bool stable);

}  // namespace slipway::testing
