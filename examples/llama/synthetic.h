// A made-up model and tokenizer, so that the demo runs without a download and at any size. What it writes is
// nonsense; what it costs is what a real model of these extents costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model_file.h"
#include "tokenizer.h"

namespace slipway::llama {

// Weights drawn uniformly with the variance 1 / inputs, norms of one: activations keep their size through any
// number of layers. The same for equal arguments with every compiler. Throws ModelFileError when the extents
// are not a model's.
Model make_synthetic_model(const Config& config, std::uint64_t seed);

// A tokenizer file of `vocab_size` tokens, at least kFirstTextToken: control tokens, bytes, the printable
// characters, then syllables and words of them, in which every word can be reached by merging.
std::vector<std::byte> make_synthetic_tokenizer_file(std::int32_t vocab_size);

// The same, loaded. Throws ModelFileError for a vocabulary that is too small.
Tokenizer make_synthetic_tokenizer(std::int32_t vocab_size);

}  // namespace slipway::llama
