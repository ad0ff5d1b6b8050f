// The loop around the decode step, the same for every mode.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "sampler.h"
#include "tokenizer.h"

namespace slipway::llama {

// Runs a step for a token at a position, and returns the logits; they are read before the next call.
using Forward = std::function<std::span<const float>(std::int32_t token, std::int32_t position)>;

// Receives the text as it appears, prompt included, piece by piece; a piece may end inside a UTF-8 character.
using OnText = std::function<void(std::string_view text)>;

// Runs at most `max_steps` steps: first the prompt's tokens, then those that the sampler draws. Ends early when
// the begin token is drawn. Returns the number of steps run. `max_steps` is at most the model's context.
std::int32_t generate(const Tokenizer& tokenizer, Sampler& sampler, std::string_view prompt, std::int32_t max_steps,
                      const Forward& forward, const OnText& on_text);

}  // namespace slipway::llama
