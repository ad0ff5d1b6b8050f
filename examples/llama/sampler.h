// From logits to the next token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "random.h"

namespace slipway::llama {

// The index of the largest logit, the first of equal ones. A NaN never wins; 0 when there is nothing else.
std::int32_t argmax(std::span<const float> logits);

struct SamplerOptions {
  float temperature = 0.0f;  // 0 means greedy; otherwise finite and positive
  float top_p = 0.9f;        // in (0, 1]: draw from the fewest likeliest tokens whose probability exceeds it
  std::uint64_t seed = 1;
};

// Draws tokens. The sequence depends on the options and the logits only. For one thread at a time.
class Sampler {
 public:
  // Throws std::invalid_argument for options outside their ranges.
  explicit Sampler(const SamplerOptions& options);

  // `logits` must not be empty. When they are so broken that no distribution comes of them (NaN, infinities),
  // the answer is argmax's.
  std::int32_t sample(std::span<const float> logits);

 private:
  struct Candidate {
    float weight;  // probability times a common factor
    std::int32_t token;
  };

  SamplerOptions options_;
  SplitMix64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace slipway::llama
