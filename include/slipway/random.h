// Random numbers: a counter-based generator, Philox4x32-10, whose numbers are a function of a seed and a position. What
// is launched gets both as arguments, draws what it needs by itself, and draws the same again from the same ones.
//
//   Generator generator(42);
//   const RandomDraw draw = generator.take(stream, n);          // n positions of the sequence
//   stream.launch(noise, shape, out, n, draw.seed, draw.offset);
//   ...
//   static void noise(const Block& block, float* out, std::int32_t n, std::uint64_t seed, std::uint64_t offset) {
//     for (...) out[i] = uniform_float(random_words(seed, offset + i)[0]);
//   }
//
// While the stream is captured, the two are values of the graph: each replay takes positions from the generator when it
// is launched, as many as were taken while capturing, and so draws what the same calls would without a graph.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "slipway/argument.h"
#include "slipway/export.h"
#include "slipway/stream.h"

namespace slipway {

namespace internal {
class GeneratorImpl;
}

using RandomWords = std::array<std::uint32_t, 4>;

// Philox4x32-10: ten rounds of two multiplications; no state, so any thread and any kernel of the host may call it.
constexpr RandomWords philox4x32(RandomWords counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The four words at a position of a seed's sequence.
constexpr RandomWords random_words(std::uint64_t seed, std::uint64_t position) noexcept {
  return philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

// From a word, evenly in [0, 1): its upper 24 bits, exactly.
constexpr float uniform_float(std::uint32_t word) noexcept { return static_cast<float>(word >> 8) * 0x1p-24F; }

// The same two functions as OpenCL C, to be put in front of the source of kernels: uint4 slipway_random_words(ulong
// seed, ulong position) and float slipway_uniform_float(uint word).
constexpr const char* kRandomOpenClSource = R"(
uint4 slipway_random_words(ulong seed, ulong position) {
  uint4 c = (uint4)((uint)position, (uint)(position >> 32), 0u, 0u);
  uint2 k = (uint2)((uint)seed, (uint)(seed >> 32));
  for (int round = 0; round < 10; ++round) {
    const uint a = mul_hi(0xD2511F53u, c.x), b = mul_hi(0xCD9E8D57u, c.z);
    c = (uint4)(b ^ c.y ^ k.x, 0xCD9E8D57u * c.z, a ^ c.w ^ k.y, 0xD2511F53u * c.x);
    k += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}
float slipway_uniform_float(uint word) { return (float)(word >> 8) * 5.9604644775390625e-8f; }
)";

// Where a launch begins to draw: two u64 arguments, values outside a capture and values of the graph inside.
struct RandomDraw {
  Argument seed;
  Argument offset;
};

// A shared handle to a seed and a position. Any thread; several threads, graphs and devices may share one, and each
// take is one after another: no position is given out twice.
class SLIPWAY_API Generator {
 public:
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t offset = 0;  // the next position
    bool operator==(const State&) const noexcept = default;
  };

  explicit Generator(std::uint64_t seed = 0);

  // The next `count` positions, for work on this stream. In a capture nothing is taken from the generator, then or when
  // the capture fails: each launch of the graph takes what its step needs, in the order of the launches. Unsupported in
  // a body of a conditional node.
  RandomDraw take(const Stream& stream, std::uint64_t count) const;
  // The same for the host: the state before.
  State take(std::uint64_t count) const;

  // Begins the sequence of another seed; work that was launched before keeps what it took.
  void seed(std::uint64_t seed) const;
  State state() const;
  void set_state(const State& state) const;

  const std::shared_ptr<internal::GeneratorImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::GeneratorImpl> impl_;
};

}  // namespace slipway
