// What random programs compute with: values, a generator, and the functions of kernels and operations.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace slipway::property {

// A value of any kind: an i32 in the first word, an i64 in two, three words by value in three.
using Cell = std::array<std::int32_t, 4>;
enum class ValueKind : std::uint8_t { kI32, kI64, kTriple, kGrid, kScratch };
struct Triple {
  std::int32_t x, y, z;
};
inline std::int64_t wide(const Cell& cell) noexcept {
  std::int64_t value = 0;
  std::memcpy(&value, cell.data(), sizeof value);
  return value;
}

// What nodes read and write: buffers of the device, a buffer of the host, sums that host functions keep.
constexpr int kBuffers = 4, kHostBuffer = kBuffers, kFirstSum = kHostBuffer + 1, kSums = 2;
constexpr int kResources = kFirstSum + kSums;
constexpr std::array<std::uint32_t, kBuffers + 1> kElements{1100, 32, 32, 32, 32};  // the first: copies that are staged
constexpr std::uint32_t kMostBlocks = 24;                                           // one block works on one element
constexpr int kStreams = 3;
constexpr unsigned kWords = 256;  // of conditional nodes

// --- Random choices ---

// A generator of few instructions, since most programs are small.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0x1234567) {}
  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::size_t n) noexcept { return static_cast<std::uint32_t>(next() % n); }
  bool coin(unsigned one_in = 2) noexcept { return below(one_in) == 0; }
  int pick(int first, int count) noexcept { return first + static_cast<int>(below(static_cast<std::size_t>(count))); }
  Cell cell(ValueKind kind) noexcept {
    Cell c{};
    const std::size_t words = kind == ValueKind::kI32 ? 1 : kind == ValueKind::kI64 ? 2 : 3;
    for (std::size_t i = 0; i < words; ++i) c[i] = static_cast<std::int32_t>(next());
    return c;
  }

 private:
  std::uint64_t state_;
};

// --- What programs compute ---

// The kernels, element by element; unsigned, so that nothing overflows.
inline std::int32_t affine_of(std::int32_t in, std::int32_t a, std::int64_t b) noexcept {
  const auto u = static_cast<std::uint64_t>(b);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(in) * static_cast<std::uint32_t>(a) +
                                   static_cast<std::uint32_t>(u ^ (u >> 32)));
}
inline std::int32_t combine_of(std::int32_t x, std::int32_t y, const Triple& t) noexcept {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(x) ^ static_cast<std::uint32_t>(t.x)) +
                                   static_cast<std::uint32_t>(y) * static_cast<std::uint32_t>(t.y) +
                                   static_cast<std::uint32_t>(t.z));
}
inline std::int32_t bump_of(std::int32_t x, std::int32_t a) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x) * 3 + static_cast<std::uint32_t>(a));
}
inline std::uint32_t decided_by(std::int32_t word, std::uint32_t modulus) noexcept {
  return static_cast<std::uint32_t>(word) % modulus;
}
inline void add_to_sum(std::uint32_t& sum, std::span<const std::int32_t> words) noexcept {
  for (const std::int32_t w : words) sum = sum * 31 + static_cast<std::uint32_t>(w);
}
// How many words of a cell an external operation adds to its sum.
inline std::size_t words_of(ValueKind kind) noexcept {
  return kind == ValueKind::kI32 ? 1 : kind == ValueKind::kI64 ? 2 : 3;
}

inline void add_cell(std::uint32_t& sum, const Cell& cell, ValueKind kind) noexcept {
  add_to_sum(sum, std::span(cell).first(words_of(kind)));
}

// An operation's function: a hash of what it is given, cut to what is wanted.
inline std::vector<Cell> outputs_of(std::uint64_t seed, std::span<const ValueKind> outputs,
                                    std::span<const Cell> inputs) {
  std::uint64_t h = seed;
  for (const Cell& in : inputs)
    for (const std::int32_t word : in) h = Dice(h ^ static_cast<std::uint32_t>(word)).next();
  std::vector<Cell> cells;
  Cell grid{1, 1};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Dice dice(h + i);
    Cell c = dice.cell(outputs[i]);
    if (outputs[i] == ValueKind::kGrid) {
      c = grid = {static_cast<std::int32_t>(dice.below(kMostBlocks / 3 + 1)), dice.pick(1, 3)};
    }
    if (outputs[i] == ValueKind::kScratch) c = {grid[0] * grid[1] * 4};  // the grid stands before it
    cells.push_back(c);
  }
  return cells;
}

}  // namespace slipway::property
