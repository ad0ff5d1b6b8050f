#include "generate.h"

#include <vector>

namespace slipway::llama {

std::int32_t generate(const Tokenizer& tokenizer, Sampler& sampler, std::string_view prompt, std::int32_t max_steps,
                      const Forward& forward, const OnText& on_text) {
  const std::vector<std::int32_t> prompt_tokens = tokenizer.encode(prompt);
  std::int32_t token = prompt_tokens.front();
  for (std::int32_t position = 0; position < max_steps; ++position) {
    const std::span<const float> logits = forward(token, position);
    const std::size_t following = static_cast<std::size_t>(position) + 1;
    const bool in_prompt = following < prompt_tokens.size();
    const std::int32_t next = in_prompt ? prompt_tokens[following] : sampler.sample(logits);
    if (next == kBeginToken) return position + 1;
    on_text(tokenizer.decode(token, next));
    token = next;
  }
  return max_steps < 0 ? 0 : max_steps;
}

}  // namespace slipway::llama
