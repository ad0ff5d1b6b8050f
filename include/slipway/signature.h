// What a kernel expects: the kinds of its arguments, and what it was specialised for.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "slipway/export.h"
#include "slipway/types.h"

namespace slipway {

// clang-format off
enum class ArgKind : std::uint8_t {
  kTensor, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64, kBool, kBytes
};
// clang-format on

// "tensor", "i32", ... The string lives as long as the program.
SLIPWAY_API const char* name_of(ArgKind kind) noexcept;

enum class Access : std::uint8_t { kIn, kOut, kInOut };

// One parameter of a kernel. The last three groups are what the kernel was specialised for; they are checked
// on each call that they can fail on.
struct Parameter {
  ArgKind kind = ArgKind::kTensor;
  Access access = Access::kInOut;       // tensors only
  DType dtype = DType::kUnknown;        // tensors only; unknown accepts every element type
  std::uint32_t pointer_alignment = 1;  // tensors only: bytes, a power of two; the null address passes
  std::uint32_t size_bytes = 0;         // bytes(n, align) only
  std::uint32_t align_bytes = 1;        // bytes(n, align) only, a power of two, at most 64
  std::int64_t min_value = std::numeric_limits<std::int64_t>::min();  // integers of at most 64 signed bits
  std::int64_t max_value = std::numeric_limits<std::int64_t>::max();

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

using Signature = std::vector<Parameter>;

// Reads a signature from text: parameters separated by commas, each
//   [in|out|inout] tensor[<dtype>] [align=N] | i8..u64 [range=A..B] | f16|bf16|f32|f64 | bool | bytes(N[,ALIGN])
// as in "in tensor<f32> align=16, out tensor, i32 range=0..4096, bytes(12,4)". An empty text has no parameters.
// Throws InvalidArgument with the position of what could not be read.
SLIPWAY_API Signature parse_signature(std::string_view text);

// The text that parse_signature reads back.
SLIPWAY_API std::string to_string(const Signature& signature);

// Called by the CPU device: runs one block of a kernel on its packed arguments. `context` is what the module
// keeps for this kernel (for a C function of a shared library, how to call it); null for kernel tables.
using KernelEntry = void (*)(const std::byte* packed_arguments, const Block& block, const void* context);

// One row of a kernel table: a C++ function, made into a kernel when the program is compiled.
struct KernelDef {
  const char* name = nullptr;
  KernelEntry entry = nullptr;
  const Parameter* parameters = nullptr;
  std::size_t parameter_count = 0;
};

namespace detail {

template <class T>
constexpr ArgKind kind_of() noexcept {
  if constexpr (std::is_pointer_v<T>) return ArgKind::kTensor;
  else if constexpr (std::is_same_v<T, bool>) return ArgKind::kBool;
  else if constexpr (std::is_same_v<T, Half>) return ArgKind::kF16;
  else if constexpr (std::is_same_v<T, BFloat16>) return ArgKind::kBF16;
  else if constexpr (std::is_same_v<T, float>) return ArgKind::kF32;
  else if constexpr (std::is_same_v<T, double>) return ArgKind::kF64;
  else if constexpr (std::is_integral_v<T>) {
    constexpr ArgKind kSigned[] = {ArgKind::kI8, ArgKind::kI16, ArgKind::kI32, ArgKind::kI64};
    constexpr ArgKind kUnsigned[] = {ArgKind::kU8, ArgKind::kU16, ArgKind::kU32, ArgKind::kU64};
    return (std::is_signed_v<T> ? kSigned : kUnsigned)[std::bit_width(sizeof(T)) - 1];
  } else {
    static_assert(std::is_class_v<T> && std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                  "a kernel parameter is a pointer, an integer, a float, a bool or a trivially copyable struct");
    return ArgKind::kBytes;
  }
}

template <class T>
constexpr Parameter parameter_of() noexcept {
  Parameter p;
  p.kind = kind_of<T>();
  if constexpr (std::is_pointer_v<T>) {
    using Element = std::remove_pointer_t<T>;
    p.access = std::is_const_v<Element> ? Access::kIn : Access::kInOut;
    if constexpr (!std::is_void_v<Element>) p.dtype = dtype_of<Element>();
  } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>) {
    p.size_bytes = sizeof(T);
    p.align_bytes = alignof(T);
  }
  return p;
}

constexpr std::size_t align_up(std::size_t value, std::size_t alignment) noexcept {
  return (value + alignment - 1) / alignment * alignment;
}

// Offsets of Ts laid out one after another at their natural alignment: the layout of the CPU device.
template <class... Ts>
constexpr std::array<std::size_t, sizeof...(Ts) + 1> natural_offsets() noexcept {
  std::array<std::size_t, sizeof...(Ts) + 1> offsets{};
  std::size_t at = 0, i = 0;
  ((at = align_up(at, alignof(Ts)), offsets[i++] = at, at += sizeof(Ts)), ...);
  offsets[i] = at;
  return offsets;
}

template <class F>
struct KernelTraits;  // only functions returning void, with or without `const Block&` in front

template <class T>
T load_argument(const std::byte* from) noexcept {
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}

template <bool kTakesBlock, auto Function, class... Args>
struct Trampoline {
  static constexpr auto kOffsets = natural_offsets<Args...>();
  static constexpr std::array<Parameter, sizeof...(Args)> kParameters{parameter_of<Args>()...};

  template <std::size_t... I>
  static void call(const std::byte* packed, const Block& block, std::index_sequence<I...>) {
    if constexpr (kTakesBlock) Function(block, load_argument<Args>(packed + kOffsets[I])...);
    else Function(load_argument<Args>(packed + kOffsets[I])...);
  }
  static void entry([[maybe_unused]] const std::byte* packed, [[maybe_unused]] const Block& block, const void*) {
    call(packed, block, std::index_sequence_for<Args...>{});
  }
};

template <class... Args>
struct KernelTraits<void (*)(Args...)> {
  template <auto Function>
  using Make = Trampoline<false, Function, Args...>;
};
template <class... Args>
struct KernelTraits<void (*)(const Block&, Args...)> {
  template <auto Function>
  using Make = Trampoline<true, Function, Args...>;
};

}  // namespace detail

// Makes a kernel of an ordinary function:
//   void add(const Block& block, const float* in, float* out, float c, std::int32_t n);
//   device.load_table({kernel<&add>("add"), ...});
// The leading `const Block&` may be left out by functions of a single block. Pointers to const become `in`
// tensors, other pointers `inout`; trivially copyable structs become bytes.
template <auto Function>
constexpr KernelDef kernel(const char* name) noexcept {
  using Trampoline = typename detail::KernelTraits<decltype(+Function)>::template Make<Function>;
  return {name, &Trampoline::entry, Trampoline::kParameters.data(), Trampoline::kParameters.size()};
}

}  // namespace slipway
