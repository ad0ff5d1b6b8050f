#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace slipway::llama {

std::int32_t argmax(std::span<const float> logits) {
  std::size_t best = 0;
  float best_logit = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best_logit) {
      best_logit = logits[i];
      best = i;
    }
  }
  return static_cast<std::int32_t>(best);
}

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
  if (!(options.temperature >= 0.0f) || !std::isfinite(options.temperature)) {
    throw std::invalid_argument("The temperature is " + std::to_string(options.temperature) +
                                ", but must be a finite number of at least 0; give 0 for greedy decoding.");
  }
  if (!(options.top_p > 0.0f && options.top_p <= 1.0f)) {
    throw std::invalid_argument("top_p is " + std::to_string(options.top_p) +
                                ", but must be above 0 and at most 1; give 1 to draw from all tokens.");
  }
}

std::int32_t Sampler::sample(std::span<const float> logits) {
  if (options_.temperature == 0.0f) return argmax(logits);

  const float largest = logits[static_cast<std::size_t>(argmax(logits))];
  candidates_.clear();
  float total = 0.0f;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float weight = std::exp((logits[i] - largest) / options_.temperature);
    total += weight;
    candidates_.push_back({weight, static_cast<std::int32_t>(i)});
  }
  if (!std::isfinite(total)) return argmax(logits);  // otherwise at least 1, the weight of the largest

  float limit = total;
  if (options_.top_p < 1.0f && candidates_.size() > 1) {
    // A token below the average of what lies outside the nucleus cannot be in it: leaving those out first saves
    // most of the sort.
    const float least = (1.0f - options_.top_p) / static_cast<float>(candidates_.size() - 1) * total;
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
    });
    limit = 0.0f;
    std::size_t kept = 0;
    while (kept < candidates_.size() && limit <= options_.top_p * total) limit += candidates_[kept++].weight;
    candidates_.resize(kept);
  }

  const float drawn = random_.next_float() * limit;
  float sum = 0.0f;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (drawn < sum) return candidate.token;
  }
  return candidates_.back().token;  // rounding only
}

}  // namespace slipway::llama
