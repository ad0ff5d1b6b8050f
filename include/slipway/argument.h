// An argument of one launch on the general path: a value with its category, to be checked against the kernel's
// signature. Integers arrive exactly or are refused, floats round to nearest even and are refused when they
// overflow, bool is only bool.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "slipway/export.h"
#include "slipway/signature.h"
#include "slipway/types.h"

namespace slipway {

class Memory;

class Argument {
 public:
  // clang-format off
  enum class Category : std::uint8_t {
    kTensor, kSigned, kUnsigned, kFloat, kHalf, kBFloat16, kBool, kBytes, kParameter
  };
  // clang-format on

  Argument(DevicePtr address) noexcept : category_(Category::kTensor) {
    value_.u = static_cast<std::uint64_t>(address);
  }
  Argument(TensorArg tensor) noexcept : category_(Category::kTensor), dtype_(tensor.dtype) {
    value_.u = static_cast<std::uint64_t>(tensor.address);
  }
  template <class T>
  Argument(Tensor<T> tensor) noexcept : category_(Category::kTensor), dtype_(Tensor<T>::dtype) {
    value_.u = static_cast<std::uint64_t>(tensor.address);
  }
  SLIPWAY_API Argument(const Memory& memory) noexcept;  // its first byte; remembers the device
  // clang-format off
  template <class T>
    requires std::is_object_v<T>
  Argument(T* host_pointer) noexcept : Argument(TensorArg{host_address(host_pointer), detail::dtype_of<T>()}) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Argument(T value) noexcept : category_(std::is_signed_v<T> ? Category::kSigned : Category::kUnsigned) {
    if constexpr (std::is_signed_v<T>) value_.i = value;
    else value_.u = value;
  }
  // clang-format on
  template <std::same_as<bool> T>  // only a bool, not what converts to one
  Argument(T value) noexcept : category_(Category::kBool) {
    value_.u = value ? 1 : 0;
  }
  Argument(float value) noexcept : category_(Category::kFloat) { value_.d = static_cast<double>(value); }
  Argument(double value) noexcept : category_(Category::kFloat) { value_.d = value; }
  Argument(Half value) noexcept : category_(Category::kHalf) { value_.u = value.bits; }
  Argument(BFloat16 value) noexcept : category_(Category::kBFloat16) { value_.u = value.bits; }
  // A struct by value. The bytes are read when the launch is submitted, and not later.
  static Argument bytes(const void* data, std::uint32_t size_bytes, std::uint32_t align_bytes) noexcept {
    Argument a{DevicePtr{0}};
    a.category_ = Category::kBytes;
    a.value_.bytes = data;
    a.size_bytes_ = size_bytes;
    a.align_bytes_ = align_bytes;
    return a;
  }
  // clang-format off
  template <class T>
    requires(std::is_class_v<T> && std::is_trivially_copyable_v<T>)
  static Argument bytes_of(const T& value) noexcept { return bytes(&value, sizeof(T), alignof(T)); }
  // clang-format on

  // The value of a graph's parameter (graph.h): `capture` tells which capture's, `kind` what it holds.
  static Argument parameter(std::uint32_t number, std::uint32_t capture, ArgKind kind) noexcept {
    Argument a{DevicePtr{0}};
    a.category_ = Category::kParameter;
    a.value_.u = number;
    a.size_bytes_ = capture;
    a.align_bytes_ = static_cast<std::uint32_t>(kind);
    return a;
  }

  Category category() const noexcept { return category_; }
  DType dtype() const noexcept { return dtype_; }
  std::uint64_t as_unsigned() const noexcept { return value_.u; }
  std::int64_t as_signed() const noexcept { return value_.i; }
  double as_double() const noexcept { return value_.d; }
  const void* data() const noexcept { return value_.bytes; }
  std::uint32_t size_bytes() const noexcept { return size_bytes_; }
  std::uint32_t align_bytes() const noexcept { return align_bytes_; }
  std::uint32_t device_id() const noexcept { return device_id_; }  // 0: not known

 private:
  union {
    std::uint64_t u;
    std::int64_t i;
    double d;
    const void* bytes;
  } value_{};
  Category category_;
  DType dtype_ = DType::kUnknown;
  std::uint32_t size_bytes_ = 0;
  std::uint32_t align_bytes_ = 1;
  std::uint32_t device_id_ = 0;
};

}  // namespace slipway
