// Where a stream writes its records: its ring, or the tape of a capture.
//
// One submitter at a time (the stream sees to that); one consumer. Invariants:
//   S1  [cursor_, limit_) is room that the submitter may write and the consumer does not read.
//   S2  published_ is the position up to which records are complete; only the submitter stores it, release,
//       and the consumer's load acquires.
//   S3  consumer_ is kDetached when nobody would notice a publication; whoever publishes and then reads
//       kDetached must call the consumer's kick(). The consumer stores kDetached and then reads published_.
//       Both use base/fence.h, so at least one sees the other.
//   S4  a bit in slow_flags_ sends every submission to the slow path, which finds out why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fence.h"
#include "base/single_writer.h"
#include "base/status.h"
#include "record/record.h"

namespace slipway::internal {

// The states of the consuming side. Only kDetached concerns the submitter.
enum class ConsumerState : std::uint32_t {
  kDetached,  // nobody looks at this sink: kick() after publishing
  kAttached,  // somebody does; a lane says how in a word of its own, which changes more often than submitters look
  // Those of a launching thread (engine/launching_thread.h):
  kReady,    // queued
  kPolled,   // empty a moment ago; the thread keeps looking at it
  kBlocked,  // waits for an event or host function, which will make it kReady
};

constexpr std::uint32_t kSlowFailed = 1;     // set by the driver: submissions are refused
constexpr std::uint32_t kSlowBlocking = 2;   // each submission waits
constexpr std::uint32_t kSlowTimeline = 4;   // submissions are logged
constexpr std::uint32_t kSlowClosed = 8;     // the device is closed, lost or was reset
constexpr std::uint32_t kSlowCaptured = 16;  // submissions go to a capture's tape
constexpr std::uint32_t kSlowHooks = 32;     // launches call hooks
constexpr std::uint32_t kSlowLost = 64;      // the device is lost, and somebody was told

class Sink {
 public:
  Sink() = default;
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Room for one record of `bytes` (a multiple of kRecordAlignment), or null with `why` set. May wait for
  // the consumer (a ring with no room), until `deadline_ns`; 0 means the device's limit.
  std::byte* reserve(std::uint32_t bytes, Status& why, std::int64_t deadline_ns = 0) {
    std::byte* place = try_reserve(bytes);
    return place ? place : reserve_slow(bytes, why, deadline_ns);
  }

  // Would reserve() wait? By the submitter.
  virtual bool must_wait(std::uint32_t) { return false; }

  // The same without waiting or looking further: null when there is no room at hand.
  std::byte* try_reserve(std::uint32_t bytes) noexcept { return has_room(bytes) ? cursor_ : nullptr; }
  bool has_room(std::uint32_t bytes) const noexcept { return static_cast<std::size_t>(limit_ - cursor_) >= bytes; }
  std::byte* place() noexcept { return cursor_; }  // once has_room()

  // Publishes the record written at the place that reserve() gave. True: the caller must kick() (after it
  // gave up the right to submit).
  bool commit(std::uint32_t bytes) noexcept {
    cursor_ += bytes;
    position_ += bytes;
    // Only the submitter writes it; others read it for the retire list, where an older value is safe.
    add_single_writer(submitted_, 1);
    return store_then_load(published_, position_, consumer_, asymmetric_) == ConsumerState::kDetached;
  }

  std::uint32_t slow_flags() const noexcept { return slow_flags_.load(std::memory_order_relaxed); }
  void set_slow_flags(std::uint32_t bits) noexcept { slow_flags_.fetch_or(bits, std::memory_order_relaxed); }
  void clear_slow_flags(std::uint32_t bits) noexcept { slow_flags_.fetch_and(~bits, std::memory_order_relaxed); }

  // Records committed so far: the sequence number of the last one.
  std::uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_relaxed); }

 protected:
  virtual std::byte* reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) = 0;

  // The submitter's own: a line that the consumer reads would have to be fetched back for the next record.
  std::byte* cursor_ = nullptr;
  std::byte* limit_ = nullptr;
  std::uint64_t position_ = 0;
  std::atomic<std::uint64_t> submitted_{0};
  // Written by the submitter, polled by the consumer.
  alignas(64) std::atomic<std::uint64_t> published_{0};
  // Read by both, written rarely.
  alignas(64) std::atomic<ConsumerState> consumer_{ConsumerState::kDetached};
  std::atomic<std::uint32_t> slow_flags_{0};
  bool asymmetric_ = asymmetric_fences();
};

}  // namespace slipway::internal
