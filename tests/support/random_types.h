// Types chosen at compile time by numbers: the same in every run.
#pragma once

#include <cstdint>
#include <tuple>

namespace slipway::test {

constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// One of the types of a tuple.
template <class Types, std::uint64_t kSeed, std::uint64_t kPlace>
using RandomTypeOf = std::tuple_element_t<mix(kSeed * 8 + kPlace) % std::tuple_size_v<Types>, Types>;

}  // namespace slipway::test
