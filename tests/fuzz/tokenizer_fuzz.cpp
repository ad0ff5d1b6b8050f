// Any bytes as a tokenizer file, and any bytes as text: a file is accepted or refused with ModelFileError; text
// always encodes, and its tokens print the text again.
//
// Input: two bytes that give the vocabulary above its least size, two that give the length of the text (each
// little-endian), the text, then the records behind those that every tokenizer starts with. A high bit in the
// second byte makes the rest the whole file instead.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "synthetic.h"
#include "tokenizer.h"

namespace {

using namespace slipway::llama;

void require_round_trip(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::int32_t> tokens = tokenizer.encode(text);
  if (tokens.front() != kBeginToken) std::abort();
  std::string printed;
  for (std::size_t i = 1; i < tokens.size(); ++i) printed += tokenizer.decode(tokens[i - 1], tokens[i]);
  // A byte token for the added space is not dropped: the space is then no token of its own.
  if (printed != text && printed != ' ' + std::string(text)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const bool whole_file = (data[1] & 0x80) != 0;
  const std::int32_t vocab_size = kFirstTextToken + data[0] + 256 * (data[1] & 0x7F);
  const std::size_t text_size = std::min<std::size_t>(data[2] + 256u * data[3], size - 4);
  const auto* const text = reinterpret_cast<const char*>(data + 4);
  const std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(4 + text_size);

  std::vector<std::byte> file;
  if (!whole_file) {
    file = make_synthetic_tokenizer_file(kFirstTextToken);
    file[0] = std::byte{255};  // the longest length that the file announces
  }
  file.insert(file.end(), rest.begin(), rest.end());
  try {
    const Tokenizer tokenizer = Tokenizer::parse(file, vocab_size, "fuzz");
    require_round_trip(tokenizer, {text, text_size});
  } catch (const ModelFileError&) {
  }
  return 0;
}
