#include "record/ring.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <string>

namespace slipway::internal {

void Ring::Free::operator()(std::byte* p) const noexcept { std::free(p); }

Ring::Ring(std::uint32_t capacity_bytes, const WaitRules& rules)
    : mask_(std::bit_ceil(capacity_bytes) - 1), rules_(rules) {
  buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(64, std::size_t{mask_} + 1)));
  if (!buffer_) throw std::bad_alloc();
  cursor_ = buffer_.get();
  limit_ = cursor_ + mask_ + 1;
}

bool Ring::wait_for_room(std::uint64_t needed_consumed, Status& why, std::int64_t deadline_ns) {
  const auto enough = [&] {
    known_consumed_ = consumed_.load(std::memory_order_acquire);
    return known_consumed_ >= needed_consumed;
  };
  if (enough()) return true;
  const BlockingScope scope(rules_);
  const std::int64_t start = now_ns();
  const std::int64_t deadline = deadline_ns != 0 ? deadline_ns : start + rules_.default_limit_ns;
  SpinTurn spin;
  for (std::int64_t now = start; now - start < rules_.spin_ns && now < deadline; now = now_ns()) {
    if (enough()) return true;
    spin();
  }
  for (;;) {
    // Pairs with consume_to(): at least one of us sees the other's store.
    known_consumed_ = store_then_load_rare(waiting_, true, consumed_, asymmetric_);
    bool in_time = true;
    if (known_consumed_ < needed_consumed) in_time = waiter_.park(deadline, this, needed_consumed);
    waiting_.store(false, std::memory_order_relaxed);
    if (enough()) return true;
    if (!in_time) {
      why = Status(ErrorCode::kTimeout,
                   "there was no room for another record within " + std::to_string((deadline - start) / 1'000'000) +
                       " ms: the stream's ring of " + std::to_string(capacity_bytes()) +
                       " bytes is full of work that does not finish; nothing was submitted. Look for an event or "
                       "gate that nobody opens, or give the stream a larger ring_bytes");
      return false;
    }
  }
}

std::uint64_t Ring::consumed_needed(std::uint32_t bytes) const noexcept {
  const std::uint64_t capacity = std::uint64_t{mask_} + 1;
  const std::uint64_t to_end = capacity - (position_ & mask_);
  const std::uint64_t end = position_ + bytes + (to_end < bytes ? to_end : 0);  // with the pad at the buffer's end
  return end - std::min(end, capacity);
}

std::byte* Ring::reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) {
  const std::uint64_t capacity = std::uint64_t{mask_} + 1;
  if (bytes > capacity / 2) {
    why = Status(ErrorCode::kInvalidArgument, "a record of " + std::to_string(bytes) +
                                                  " bytes does not fit a ring of " + std::to_string(capacity) +
                                                  " bytes, which takes records of up to half its size; give the "
                                                  "stream a larger ring_bytes");
    return nullptr;
  }
  if (!wait_for_room(consumed_needed(bytes), why, deadline_ns)) return nullptr;
  if (const std::uint64_t to_end = capacity - (position_ & mask_); to_end < bytes) {
    // Fill the end with a pad and begin anew at the start of the buffer.
    auto* pad = reinterpret_cast<RecordHeader*>(buffer_.get() + (position_ & mask_));
    *pad = RecordHeader{static_cast<std::uint32_t>(to_end), RecordKind::kPad, 0, 0};
    position_ += to_end;  // becomes visible with the record behind it
  }
  const std::uint64_t index = position_ & mask_;
  cursor_ = buffer_.get() + index;
  const std::uint64_t free_bytes = known_consumed_ + capacity - position_;
  limit_ = cursor_ + std::min(free_bytes, capacity - index);
  return cursor_;
}

}  // namespace slipway::internal
