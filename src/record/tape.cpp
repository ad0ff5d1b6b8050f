#include "record/tape.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace slipway::internal {
namespace {

std::byte* allocate_lines(std::size_t bytes) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

void Tape::Free::operator()(std::byte* p) const noexcept { std::free(p); }

Tape::Tape(std::uint32_t first_bytes) {
  consumer_.store(ConsumerState::kAttached, std::memory_order_relaxed);  // nobody is to be kicked
  capacity_ = (std::max<std::size_t>(first_bytes, 64) + 63) / 64 * 64;
  buffer_.reset(allocate_lines(capacity_));
  cursor_ = buffer_.get();
  limit_ = cursor_ + capacity_;
}

std::byte* Tape::reserve_slow(std::uint32_t bytes, Status&, std::int64_t) {
  const std::size_t wanted = (std::max<std::size_t>(capacity_ * 2, position_ + bytes) + 63) / 64 * 64;
  std::byte* grown = allocate_lines(wanted);
  std::memcpy(grown, buffer_.get(), position_);
  buffer_.reset(grown);
  capacity_ = wanted;
  cursor_ = grown + position_;
  limit_ = grown + capacity_;
  return cursor_;
}

}  // namespace slipway::internal
