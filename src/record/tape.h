// A kept sequence of records: the sink of a capture. It grows, never waits, and has no consumer while it is
// written.
#pragma once

#include <cstddef>
#include <memory>

#include "record/sink.h"

namespace slipway::internal {

class Tape final : public Sink {
 public:
  explicit Tape(std::uint32_t first_bytes = 4096);

  std::uint64_t size_bytes() const noexcept { return position_; }
  const std::byte* data() const noexcept { return buffer_.get(); }
  std::byte* data() noexcept { return buffer_.get(); }

  // Calls visit(record, its index) for each record in order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    std::uint64_t index = 0;
    for (std::uint64_t at = 0; at < position_;) {
      const auto& header = *reinterpret_cast<const RecordHeader*>(buffer_.get() + at);
      visit(header, index++);
      at += header.size_bytes;
    }
  }

 private:
  std::byte* reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) override;

  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> buffer_;
  std::size_t capacity_ = 0;
};

}  // namespace slipway::internal
