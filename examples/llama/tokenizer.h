// Text to token ids and back, as SentencePiece's byte-pair models do it, from llama2.c's tokenizer file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model_file.h"

namespace slipway::llama {

constexpr std::int32_t kUnknownToken = 0;
constexpr std::int32_t kBeginToken = 1;
constexpr std::int32_t kEndToken = 2;
constexpr std::int32_t kFirstByteToken = 3;  // byte b is token b + 3, spelled <0xNN>
constexpr std::int32_t kFirstTextToken = kFirstByteToken + 256;

// Immutable once built: any number of threads may use it. It can be moved, not copied, because its table of
// texts points into its own memory.
class Tokenizer {
 public:
  // Reads a tokenizer from a file's bytes, all of them. The file does not say how many tokens it has: the model
  // does. Allocates in proportion to `bytes`, whatever `vocab_size` is. Throws ModelFileError.
  static Tokenizer parse(std::span<const std::byte> bytes, std::int32_t vocab_size, std::string_view name);
  static Tokenizer read(const std::string& path, std::int32_t vocab_size);

  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  std::int32_t vocab_size() const { return static_cast<std::int32_t>(entries_.size()); }

  // The begin token; then, when the text is not empty, the token of one space; then the text's tokens. Any bytes
  // are text: what is not a character of the vocabulary becomes byte tokens. Control and byte tokens are never
  // made from text that merely spells them. n log n in the length of the text. Throws std::length_error from 2 GiB.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // What `token` prints after `previous`: after the begin token, one leading space is dropped. The text lives as
  // long as the tokenizer. Throws std::out_of_range for an id outside the vocabulary.
  std::string_view decode(std::int32_t previous, std::int32_t token) const;

  // The text of a token as the file has it. Throws std::out_of_range.
  std::string_view text_of(std::int32_t token) const;

 private:
  struct Entry {
    std::size_t offset = 0;  // into texts_
    std::uint32_t size = 0;
    float score = 0;
  };

  Tokenizer() = default;
  std::int32_t find(std::string_view text) const;  // -1 when there is none

  // A vector, and not a string, because moving a short string would move its bytes.
  std::vector<char> texts_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // text tokens only; the lowest id of equal texts
  std::size_t longest_ = 0;                                 // bytes of the longest text token
};

}  // namespace slipway::llama
