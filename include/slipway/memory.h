// Memory of a device, and host memory that devices copy from and to without staging.
//
// A Memory or HostMemory is a shared handle: copies refer to the same block, and dropping the last one frees
// it once all work submitted so far has passed. Dropping never waits. Handles may be copied and dropped from
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "slipway/export.h"
#include "slipway/types.h"

namespace slipway {

namespace internal {
struct MemoryImpl;
struct HostMemoryImpl;
}  // namespace internal

class SLIPWAY_API Memory {
 public:
  Memory() noexcept = default;
  explicit Memory(std::shared_ptr<internal::MemoryImpl> impl) noexcept : impl_(std::move(impl)) {}

  DevicePtr address() const noexcept;
  std::uint64_t size_bytes() const noexcept;
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  // The block as a typed tensor argument, beginning at element `first`. Throws OutOfRange past the end.
  template <class T>
  Tensor<T> tensor(std::uint64_t first = 0) const {
    return Tensor<T>{checked_address(first, sizeof(T))};
  }

  const std::shared_ptr<internal::MemoryImpl>& impl() const noexcept { return impl_; }

 private:
  DevicePtr checked_address(std::uint64_t first, std::size_t element_bytes) const;
  std::shared_ptr<internal::MemoryImpl> impl_;
};

class SLIPWAY_API HostMemory {
 public:
  HostMemory() noexcept = default;
  explicit HostMemory(std::shared_ptr<internal::HostMemoryImpl> impl) noexcept : impl_(std::move(impl)) {}

  void* data() const noexcept;
  std::uint64_t size_bytes() const noexcept;
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  const std::shared_ptr<internal::HostMemoryImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::HostMemoryImpl> impl_;
};

}  // namespace slipway
