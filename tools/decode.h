// `slipway decode`: a model decodes in one mode or in all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipway::tool {

struct DecodeOptions {
  std::string model;  // empty: a synthetic one of the extents below
  std::string tokenizer;
  std::string prompt;
  std::int32_t steps = 200;
  float temperature = 0.0f;
  float top_p = 0.9f;
  std::uint64_t seed = 1;
  std::string device = "cpu";
  std::string mode = "all";
  int rounds = 0;  // 0: as many as a few seconds allow, up to 15
  bool json = false;
  std::string trace;  // a file for the timeline of one run more; empty: none
  // Of the synthetic model: dim, hidden, layers, heads, kv heads, vocabulary, context.
  std::vector<std::int32_t> synthetic{64, 172, 5, 8, 4, 512, 512};
};

// Returns the exit status: 1 when a mode's text differs from direct's. Throws slipway::Error, or what the model
// and tokenizer files throw.
int decode(const DecodeOptions& options);

}  // namespace slipway::tool
