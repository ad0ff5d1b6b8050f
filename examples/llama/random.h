// Seeded numbers that are the same with every compiler and standard library, unlike the distributions of <random>.
#pragma once

#include <cstdint>

namespace slipway::llama {

// SplitMix64 (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators"; constants from there
// and from Vigna's public-domain version).
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, 1), a multiple of 2^-24: exact in a float.
  float next_float() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

 private:
  std::uint64_t state_;
};

}  // namespace slipway::llama
