// Random signatures and values of all kinds, and their C++ types.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include "slipway/slipway.h"

namespace slipway::property {

// One argument: its parameter, and the bytes of its value at its natural size.
struct Value {
  Parameter parameter;
  std::vector<std::byte> bytes;
};
using Values = std::vector<Value>;

template <std::size_t kBytes, std::size_t kAlign>
struct alignas(kAlign) Blob {
  unsigned char bytes[kBytes];
};
// The sizes and alignments that random structs by value have, as types that a graph's parameter may have.
template <class F>
auto with_blob(std::size_t which, F&& f) {
  switch (which % 6) {
    case 0: return f(std::type_identity<Blob<3, 1>>{});
    case 1: return f(std::type_identity<Blob<12, 4>>{});
    case 2: return f(std::type_identity<Blob<24, 8>>{});
    case 3: return f(std::type_identity<Blob<32, 16>>{});
    case 4: return f(std::type_identity<Blob<64, 64>>{});
    default: return f(std::type_identity<Blob<250, 2>>{});
  }
}

// Calls f with the C++ type of a parameter.
template <class F>
auto with_type(const Parameter& p, F&& f) {
  switch (p.kind) {
    case ArgKind::kTensor: return f(std::type_identity<float*>{});
    case ArgKind::kI8: return f(std::type_identity<std::int8_t>{});
    case ArgKind::kI16: return f(std::type_identity<std::int16_t>{});
    case ArgKind::kI32: return f(std::type_identity<std::int32_t>{});
    case ArgKind::kI64: return f(std::type_identity<std::int64_t>{});
    case ArgKind::kU8: return f(std::type_identity<std::uint8_t>{});
    case ArgKind::kU16: return f(std::type_identity<std::uint16_t>{});
    case ArgKind::kU32: return f(std::type_identity<std::uint32_t>{});
    case ArgKind::kU64: return f(std::type_identity<std::uint64_t>{});
    case ArgKind::kF16: return f(std::type_identity<Half>{});
    case ArgKind::kBF16: return f(std::type_identity<BFloat16>{});
    case ArgKind::kF32: return f(std::type_identity<float>{});
    case ArgKind::kF64: return f(std::type_identity<double>{});
    case ArgKind::kBool: return f(std::type_identity<bool>{});
    case ArgKind::kBytes: break;
  }
  for (std::size_t i = 0; i < 5; ++i) {
    if (with_blob(i, [](auto type) { return sizeof(typename decltype(type)::type); }) == p.size_bytes)
      return with_blob(i, f);
  }
  return with_blob(5, f);
}

template <class T>
T load(const Value& value) {
  T loaded;
  EXPECT_EQ(value.bytes.size(), sizeof loaded);
  std::memcpy(&loaded, value.bytes.data(), sizeof loaded);
  return loaded;
}

// Refers to the bytes of structs.
inline Argument argument_of(const Value& value) {
  return with_type(value.parameter, [&](auto type) -> Argument {
    using T = typename decltype(type)::type;
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>)
      return Argument::bytes(value.bytes.data(), sizeof(T), alignof(T));
    else return load<T>(value);
  });
}

inline std::vector<Argument> arguments_of(const Values& values, const std::set<std::size_t>& without = {}) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!without.contains(i)) arguments.push_back(argument_of(values[i]));
  }
  return arguments;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }

  Parameter parameter() {
    Parameter p;
    p.kind = static_cast<ArgKind>(below(16));
    if (p.kind > ArgKind::kBytes) p.kind = ArgKind::kBool;  // wider slots twice as often
    if (p.kind == ArgKind::kBytes) {
      with_blob(below(6), [&](auto type) {
        p.size_bytes = sizeof(typename decltype(type)::type);
        p.align_bytes = alignof(typename decltype(type)::type);
      });
    }
    return p;
  }
  Signature signature() {
    Signature signature(below(11));
    for (Parameter& p : signature) p = parameter();
    return signature;
  }
  Value value(const Parameter& p) {
    Value v{p, {}};
    with_type(p, [&](auto type) { v.bytes.resize(sizeof(typename decltype(type)::type)); });
    for (std::byte& b : v.bytes) b = static_cast<std::byte>(random_());
    if (p.kind == ArgKind::kTensor && !addresses.empty())
      std::memcpy(v.bytes.data(), &addresses[below(addresses.size())], v.bytes.size());
    if (p.kind == ArgKind::kBool) v.bytes[0] = static_cast<std::byte>(below(2));
    // No NaN, whose bits a conversion may change: a bit of the exponent is cleared.
    if (p.kind == ArgKind::kF32) v.bytes[3] &= std::byte{0xBF};
    if (p.kind == ArgKind::kF64) v.bytes[7] &= std::byte{0xBF};
    return v;
  }
  Values values(const Signature& signature) {
    Values values;
    for (const Parameter& p : signature) values.push_back(value(p));
    return values;
  }
  // Within the limits of all devices: at most 65535 blocks.
  Dim3 grid() {
    return {1 + static_cast<std::uint32_t>(below(40)), 1 + static_cast<std::uint32_t>(below(40)),
            1 + static_cast<std::uint32_t>(below(40))};
  }
  std::set<std::size_t> some(const Signature& signature, bool tensors) {
    std::set<std::size_t> chosen;
    for (std::size_t i = 0; i < signature.size(); ++i) {
      if ((tensors || signature[i].kind != ArgKind::kTensor) && coin()) chosen.insert(i);
    }
    return chosen;
  }

  std::vector<std::uint64_t> addresses;  // of tensors; any where there are none

 private:
  std::mt19937_64 random_;
};

inline Extent extent(const Dim3& grid) { return {grid.x, grid.y, grid.z}; }
inline LaunchShape shape_of(const Dim3& grid) { return {.grid = extent(grid)}; }

}  // namespace slipway::property
