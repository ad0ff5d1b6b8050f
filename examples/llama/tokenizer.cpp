#include "tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <queue>

namespace slipway::llama {
namespace {

constexpr std::size_t kRecordHeadBytes = sizeof(float) + sizeof(std::int32_t);

constexpr std::array<char, 256> kAllBytes = [] {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(i));
  return bytes;
}();

[[noreturn]] void fail(std::string_view name, const std::string& sentence) {
  throw ModelFileError(std::string(name) + ": " + sentence);
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string byte_spelling(std::int32_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

// Bytes of the character that starts `text`: a byte and up to three continuation bytes after it. Malformed
// UTF-8 gives pieces that no vocabulary has, which then become byte tokens.
std::size_t character_bytes(std::string_view text) {
  std::size_t size = 1;
  while (size < 4 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

// One symbol of the text while it is being merged: a node of a doubly linked list whose order is that of the
// text. A merge keeps the left node and unlinks the right one.
struct Symbol {
  std::int32_t token = 0;
  std::int32_t previous = -1;
  std::int32_t next = -1;
};

struct Merge {
  float score = 0;
  std::int32_t left = 0;   // node
  std::int32_t right = 0;  // node
  std::int32_t left_token = 0;
  std::int32_t right_token = 0;
  std::int32_t joined = 0;  // token

  // The best score first; of equal scores the leftmost. Nodes are numbered in the order of the text.
  friend bool operator<(const Merge& a, const Merge& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }
};

constexpr std::int32_t kGone = -1;  // token of a node that was merged into its left neighbour

}  // namespace

Tokenizer Tokenizer::parse(std::span<const std::byte> bytes, std::int32_t vocab_size, std::string_view name) {
  if (vocab_size < kFirstTextToken) {
    fail(name, "the vocabulary has " + std::to_string(vocab_size) + " tokens, but needs at least " +
                   std::to_string(kFirstTextToken) + " (3 control tokens and 256 bytes); use another model.");
  }
  const std::size_t count = static_cast<std::size_t>(vocab_size);
  const std::size_t least = sizeof(std::int32_t) + count * (kRecordHeadBytes + 1);
  if (bytes.size() < least) {
    fail(name, "the file has " + std::to_string(bytes.size()) + " bytes, but a vocabulary of " +
                   std::to_string(vocab_size) + " tokens takes at least " + std::to_string(least) +
                   "; it was cut short, or belongs to a model with a smaller vocabulary.");
  }
  const auto announced = load<std::int32_t>(bytes, 0);
  if (announced < 1) {
    fail(name, "the longest token's length is " + std::to_string(announced) +
                   ", but must be at least 1; the file is damaged or of another format.");
  }

  Tokenizer tokenizer;
  tokenizer.entries_.reserve(count);
  tokenizer.texts_.reserve(bytes.size() - sizeof(std::int32_t) - count * kRecordHeadBytes);
  std::size_t at = sizeof(std::int32_t);
  for (std::int32_t id = 0; id < vocab_size; ++id) {
    const std::string where = "token " + std::to_string(id);
    if (bytes.size() - at < kRecordHeadBytes) {
      fail(name, "the file ends inside " + where + " of " + std::to_string(vocab_size) +
                     "; it was cut short, or belongs to a model with a smaller vocabulary.");
    }
    const auto score = load<float>(bytes, at);
    const auto length = load<std::int32_t>(bytes, at + sizeof(float));
    at += kRecordHeadBytes;
    if (!std::isfinite(score)) {
      fail(name, "the score of " + where + " is not a finite number, so merges have no order; the file is damaged.");
    }
    if (length < 1 || length > announced) {
      fail(name, "the length of " + where + " is " + std::to_string(length) + ", but must be from 1 to " +
                     std::to_string(announced) + ", the longest that the file announces; the file is damaged.");
    }
    const auto size = static_cast<std::size_t>(length);
    if (bytes.size() - at < size) {
      fail(name, "the text of " + where + " has " + std::to_string(length) + " bytes, but only " +
                     std::to_string(bytes.size() - at) + " are left in the file; it was cut short, fetch it again.");
    }
    const auto* text = reinterpret_cast<const char*>(bytes.data() + at);
    if (id >= kFirstByteToken && id < kFirstTextToken) {
      const std::string expected = byte_spelling(id - kFirstByteToken);
      if (std::string_view(text, size) != expected) {
        fail(name, where + " is not spelled " + expected +
                       ", but tokens 3 to 258 must be the raw bytes; use a tokenizer with byte fallback.");
      }
    }
    tokenizer.entries_.push_back({tokenizer.texts_.size(), static_cast<std::uint32_t>(length), score});
    tokenizer.texts_.insert(tokenizer.texts_.end(), text, text + size);
    at += size;
  }
  if (at != bytes.size()) {
    fail(name, std::to_string(bytes.size() - at) + " bytes follow the last of " + std::to_string(vocab_size) +
                   " tokens; the file belongs to a model with a larger vocabulary, or is damaged.");
  }

  tokenizer.ids_.reserve(count - static_cast<std::size_t>(kFirstTextToken));
  for (std::int32_t id = kFirstTextToken; id < vocab_size; ++id) {
    tokenizer.ids_.emplace(tokenizer.text_of(id), id);
    tokenizer.longest_ = std::max(tokenizer.longest_, tokenizer.text_of(id).size());
  }
  return tokenizer;
}

Tokenizer Tokenizer::read(const std::string& path, std::int32_t vocab_size) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(detail::file_size_bytes(path)));
  detail::read_file(path, 0, bytes);
  return parse(bytes, vocab_size, path);
}

std::int32_t Tokenizer::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens{kBeginToken};
  if (text.empty()) return tokens;
  constexpr std::size_t kMaxTextBytes = std::numeric_limits<std::int32_t>::max() - 1;  // a node per byte, and a space
  if (text.size() > kMaxTextBytes) {
    throw std::length_error("The text has " + std::to_string(text.size()) + " bytes, but at most " +
                            std::to_string(kMaxTextBytes) + " can be encoded at once; split it.");
  }

  std::vector<Symbol> symbols;
  symbols.reserve(text.size() + 1);
  const auto append = [&](std::string_view character) {
    const std::int32_t token = find(character);
    if (token >= 0) {
      symbols.push_back({token, -1, -1});
      return;
    }
    for (const char c : character) symbols.push_back({static_cast<unsigned char>(c) + kFirstByteToken, -1, -1});
  };
  append(" ");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_bytes(text.substr(at));
    append(text.substr(at, size));
    at += size;
  }
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }

  std::string joined_text;
  const auto symbol = [&](std::int32_t node) -> Symbol& { return symbols[static_cast<std::size_t>(node)]; };
  std::priority_queue<Merge> merges;
  const auto propose = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const std::int32_t left_token = symbol(left).token;
    const std::int32_t right_token = symbol(right).token;
    if (left_token < kFirstTextToken || right_token < kFirstTextToken) return;
    const std::string_view a = text_of(left_token);
    const std::string_view b = text_of(right_token);
    if (a.size() + b.size() > longest_) return;
    joined_text.assign(a).append(b);
    const std::int32_t joined = find(joined_text);
    if (joined < 0) return;
    merges.push({entries_[static_cast<std::size_t>(joined)].score, left, right, left_token, right_token, joined});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) propose(i, i + 1);

  while (!merges.empty()) {
    const Merge merge = merges.top();
    merges.pop();
    Symbol& left = symbol(merge.left);
    Symbol& right = symbol(merge.right);
    // A proposal is stale once either side was merged with something else: a side's text only ever grows, so
    // equal tokens mean an unchanged side.
    if (left.token != merge.left_token || right.token != merge.right_token || left.next != merge.right) continue;
    left.token = merge.joined;
    left.next = right.next;
    right.token = kGone;
    if (left.next >= 0) symbol(left.next).previous = merge.left;
    propose(left.previous, merge.left);
    propose(merge.left, left.next);
  }

  for (std::int32_t node = 0; node >= 0; node = symbol(node).next) tokens.push_back(symbol(node).token);
  return tokens;
}

std::string_view Tokenizer::text_of(std::int32_t token) const {
  if (token < 0 || token >= vocab_size()) {
    throw std::out_of_range("Token " + std::to_string(token) + " is outside the vocabulary, which has ids 0 to " +
                            std::to_string(vocab_size() - 1) + "; use the tokenizer that belongs to the model.");
  }
  const Entry& entry = entries_[static_cast<std::size_t>(token)];
  return {texts_.data() + entry.offset, entry.size};
}

std::string_view Tokenizer::decode(std::int32_t previous, std::int32_t token) const {
  std::string_view text = text_of(token);
  if (token >= kFirstByteToken && token < kFirstTextToken) {
    return {kAllBytes.data() + (token - kFirstByteToken), 1};
  }
  if (previous == kBeginToken && text.front() == ' ') text.remove_prefix(1);
  return text;
}

}  // namespace slipway::llama
