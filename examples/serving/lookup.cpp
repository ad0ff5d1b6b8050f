#include "lookup.h"

#include <algorithm>

namespace slipway::serving {

std::span<const std::int32_t> find_draft(std::span<const std::int32_t> text, std::size_t count) {
  if (count == 0) return {};
  for (std::size_t length = kLongestMatch; length > 0; --length) {
    if (text.size() <= length) continue;
    const auto last = text.last(length);
    // Texts are short here; one that is not wants an index.
    for (std::size_t at = text.size() - length; at-- > 0;) {
      if (!std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) continue;
      const auto following = text.subspan(at + length);
      return following.first(std::min(count, following.size()));
    }
  }
  return {};
}

std::size_t count_accepted(std::span<const std::int32_t> drafts, std::span<const std::int32_t> likeliest) {
  std::size_t accepted = 0;
  while (accepted < drafts.size() && drafts[accepted] == likeliest[accepted]) ++accepted;
  return accepted;
}

}  // namespace slipway::serving
