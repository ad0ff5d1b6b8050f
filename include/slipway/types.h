// Plain values that the rest of the interface is made of: extents, addresses, element types, 16-bit floats.
// All of them are trivially copyable and may be used from any thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "slipway/export.h"

namespace slipway {

// An extent in blocks or in work items. Unsigned here, because a checked value is never negative; the front
// door takes Extent (signed 64-bit) and checks it.
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

// What a kernel of the CPU device is told about the block that it is to run.
struct Block {
  Dim3 index{0, 0, 0};             // this block's position in the grid
  Dim3 grid;                       // number of blocks
  Dim3 size;                       // work items in one block: a loop extent for the kernel, 1 unless given
  std::uint32_t shared_bytes = 0;  // bytes of scratch that the launch asked for
  void* shared = nullptr;          // that scratch, 64-byte aligned, contents undefined; null when 0 bytes
};

// A 64-bit address in the memory of a device. On the CPU device it is a pointer's value. It owns nothing.
enum class DevicePtr : std::uint64_t {};

constexpr DevicePtr kNullDevicePtr{0};

// The address `bytes` bytes further on.
constexpr DevicePtr offset(DevicePtr base, std::uint64_t bytes) noexcept {
  return DevicePtr{static_cast<std::uint64_t>(base) + bytes};
}

// Host memory as a device address: valid on the CPU device, whose memory is the host's.
template <class T>
DevicePtr host_address(T* pointer) noexcept {
  return DevicePtr{reinterpret_cast<std::uint64_t>(pointer)};
}

// Element type of a tensor, where it is known.
// clang-format off
enum class DType : std::uint8_t {
  kUnknown, kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64
};
// clang-format on

// "f32", "unknown", ... The string lives as long as the program.
SLIPWAY_API const char* name_of(DType dtype) noexcept;

// IEEE 754 binary16, as bits. Conversions round to nearest even; a finite value that would become infinite
// does so here, and is refused where it is a kernel argument.
struct Half {
  std::uint16_t bits = 0;

  SLIPWAY_API static Half from(double value) noexcept;
  SLIPWAY_API double value() const noexcept;
  friend constexpr bool operator==(const Half&, const Half&) = default;
};

// bfloat16 (the upper half of a binary32), as bits. Same rules as Half.
struct BFloat16 {
  std::uint16_t bits = 0;

  SLIPWAY_API static BFloat16 from(double value) noexcept;
  SLIPWAY_API double value() const noexcept;
  friend constexpr bool operator==(const BFloat16&, const BFloat16&) = default;
};

namespace detail {

template <class T>
constexpr DType dtype_of() noexcept {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return DType::kBool;
  else if constexpr (std::is_same_v<U, Half>) return DType::kF16;
  else if constexpr (std::is_same_v<U, BFloat16>) return DType::kBF16;
  else if constexpr (std::is_same_v<U, float>) return DType::kF32;
  else if constexpr (std::is_same_v<U, double>) return DType::kF64;
  else if constexpr (std::is_integral_v<U> && std::is_signed_v<U>)
    return sizeof(U) == 1 ? DType::kI8 : sizeof(U) == 2 ? DType::kI16 : sizeof(U) == 4 ? DType::kI32 : DType::kI64;
  else if constexpr (std::is_integral_v<U>)
    return sizeof(U) == 1 ? DType::kU8 : sizeof(U) == 2 ? DType::kU16 : sizeof(U) == 4 ? DType::kU32 : DType::kU64;
  else return DType::kUnknown;
}

}  // namespace detail

// A tensor argument whose element type is known when the program is compiled. Shape and strides are the
// kernel's business. Owns nothing.
template <class T>
struct Tensor {
  DevicePtr address = kNullDevicePtr;

  constexpr Tensor() = default;
  constexpr explicit Tensor(DevicePtr at) noexcept : address(at) {}
  // A tensor that may be written may be read.
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
  constexpr Tensor(const Tensor<U>& other) noexcept : address(other.address) {}

  static constexpr DType dtype = detail::dtype_of<T>();
};

// A tensor argument whose element type is known at run time, or not at all.
struct TensorArg {
  DevicePtr address = kNullDevicePtr;
  DType dtype = DType::kUnknown;
};

}  // namespace slipway
