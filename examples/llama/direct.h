// The decode step without Slipway: a plain function that calls the kernels over their grids. It is the floor
// that the other modes are measured against.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aligned_memory.h"
#include "model_file.h"
#include "step.h"

namespace slipway::llama {

// Owns a packed copy of the weights, the caches and the activations. For one thread at a time.
class Direct {
 public:
  explicit Direct(const Model& model);

  // Runs one step and returns the logits, which the next call overwrites. Positions go up from 0; a step may be
  // repeated, and what follows it is then computed anew. Throws std::out_of_range for a token outside the
  // vocabulary or a position outside the context.
  std::span<const float> forward(std::int32_t token, std::int32_t position);

 private:
  struct Layer {
    const float *attention_norm, *wq, *wk, *wv, *wo, *ffn_norm, *w1, *w2, *w3;
    float *key_cache, *value_cache;
  };

  Config config_;
  AlignedMemory weights_;
  AlignedMemory cache_;
  AlignedMemory activations_;
  const float *embedding_, *cosines_, *sines_, *final_norm_, *classifier_;
  std::vector<Layer> layers_;
  float *x_, *normed_, *q_, *k_, *v_, *scores_, *mixed_, *delta_, *gate_, *up_, *logits_;
};

}  // namespace slipway::llama
