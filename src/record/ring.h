// The sink of a stream: a bounded ring of records.
//
// Records never cross the end of the buffer: a kPad record fills what is left there. Invariants beside the
// sink's own:
//   R1  consumed_ <= published_ <= consumed_ + capacity; positions only grow, an index is position % capacity.
//   R2  the consumer stores consumed_ (release) after it has read the bytes; the submitter's load (acquire)
//       gives it the right to write over them.
#pragma once

#include <cstddef>
#include <memory>

#include "base/parker.h"
#include "base/wait.h"
#include "record/sink.h"

namespace slipway::internal {

class Ring : public Sink {
 public:
  // `capacity_bytes` is rounded up to a power of two.
  Ring(std::uint32_t capacity_bytes, const WaitRules& rules);

  std::uint32_t capacity_bytes() const noexcept { return mask_ + 1; }

  bool must_wait(std::uint32_t bytes) override {
    return !has_room(bytes) && consumed_.load(std::memory_order_acquire) < consumed_needed(bytes);
  }

  // --- The consumer's side ---
  // The record at `position`, which must be below published().
  const RecordHeader& at(std::uint64_t position) const noexcept {
    return *reinterpret_cast<const RecordHeader*>(buffer_.get() + (position & mask_));
  }
  std::uint64_t published() const noexcept { return published_.load(std::memory_order_acquire); }

  // Gives everything below `position` back to the submitter, and wakes it when it waits for room.
  void consume_to(std::uint64_t position) noexcept {
    if (consumed_.load(std::memory_order_relaxed) == position) return;
    // Pairs with the waiting submitter, which stores waiting_ and then reads consumed_.
    if (store_then_load(consumed_, position, waiting_, asymmetric_)) waiter_.unpark();
  }

 protected:
  std::byte* reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) override;
  bool wait_for_room(std::uint64_t needed_consumed, Status& why, std::int64_t deadline_ns);
  // The position that the consumer must have reached for a record of `bytes` to find room.
  std::uint64_t consumed_needed(std::uint32_t bytes) const noexcept;

  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> buffer_;
  std::uint32_t mask_;
  const WaitRules& rules_;
  std::uint64_t known_consumed_ = 0;  // the submitter's copy of consumed_
  alignas(64) std::atomic<std::uint64_t> consumed_{0};
  std::atomic<bool> waiting_{false};
  Parker waiter_;
};

}  // namespace slipway::internal
