// Speculative decoding without a second model: what followed the last words before is likely to follow them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slipway::serving {

constexpr std::size_t kLongestMatch = 3;

// The tokens that followed the most recent earlier place where the text's last tokens stand: the last kLongestMatch
// of them if they are found, else fewer, down to one. At most `count` tokens, a part of `text`; empty when even the
// last token is new.
std::span<const std::int32_t> find_draft(std::span<const std::int32_t> text, std::size_t count);

// Greedy acceptance: likeliest[i] is the model's choice where drafts[i] was put in its place. Returns how many drafts
// from the first on are those choices; likeliest[that many] is then the model's own next token, valid too. There is one
// more of `likeliest` than of `drafts`.
std::size_t count_accepted(std::span<const std::int32_t> drafts, std::span<const std::int32_t> likeliest);

}  // namespace slipway::serving
