// Host memory whose start is aligned well enough for any tensor of a step.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace slipway::llama {

// Every tensor starts at a multiple of this many bytes from its buffer's start: what the strictest devices ask
// of the start of a sub-buffer (256 bytes = 2048 bits, CL_DEVICE_MEM_BASE_ADDR_ALIGN on common GPUs).
constexpr std::size_t kTensorAlignmentBytes = 256;

// Zeroed bytes that it owns. Throws std::bad_alloc.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(std::size_t size_bytes)
      : data_(static_cast<std::byte*>(::operator new(size_bytes, kAlignment))), size_bytes_(size_bytes) {
    std::memset(data_.get(), 0, size_bytes);
  }

  std::byte* data() { return data_.get(); }
  std::span<std::byte> bytes() { return {data_.get(), size_bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{kTensorAlignmentBytes};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_bytes_ = 0;
};

}  // namespace slipway::llama
