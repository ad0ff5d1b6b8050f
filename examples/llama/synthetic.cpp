#include "synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "random.h"

namespace slipway::llama {
namespace {

void fill_uniform(SplitMix64& random, std::span<float> weights, std::int32_t inputs) {
  // Uniform in [-a, a) has the variance a^2 / 3.
  const float a = std::sqrt(3.0f / static_cast<float>(inputs));
  for (float& weight : weights) weight = (2.0f * random.next_float() - 1.0f) * a;
}

class TokenizerFile {
 public:
  explicit TokenizerFile(std::int32_t vocab_size) : wanted_(vocab_size) { put<std::int32_t>(0); }

  bool full() const { return count_ >= wanted_; }

  // Adds a token, unless there are enough. Earlier tokens merge first.
  void add(std::string_view text) {
    if (full()) return;
    put(count_ < kFirstTextToken ? 0.0f : static_cast<float>(kFirstTextToken - count_));
    put(static_cast<std::int32_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    longest_ = std::max(longest_, static_cast<std::int32_t>(text.size()));
    ++count_;
  }

  std::vector<std::byte> take() {
    std::memcpy(bytes_.data(), &longest_, sizeof(longest_));
    return std::move(bytes_);
  }

 private:
  template <class T>
  void put(T value) {
    std::byte raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
  }

  std::vector<std::byte> bytes_;
  std::int32_t wanted_;
  std::int32_t count_ = 0;
  std::int32_t longest_ = 0;
};

constexpr std::string_view kConsonants = "bcdfghjklmnprstvwyzx";
constexpr std::string_view kVowels = "aeiou";
constexpr std::size_t kSyllables = kConsonants.size() * kVowels.size();

// The number'th word of `syllables` syllables.
std::string word(std::size_t number, std::size_t syllables) {
  std::string text;
  for (std::size_t i = 0; i < syllables; ++i, number /= kSyllables) {
    text += kConsonants[number % kSyllables / kVowels.size()];
    text += kVowels[number % kVowels.size()];
  }
  return text;
}

}  // namespace

Model make_synthetic_model(const Config& config, std::uint64_t seed) {
  Model model;
  model.config = config;
  model.parts = lay_out(config, "the synthetic model");
  model.blob.resize(model.parts.total);  // zeros, which the rotary tables keep
  SplitMix64 random(seed);
  const auto part = [&](Part which) { return std::span(model.blob).subspan(which.offset, which.size); };
  const auto fill_ones = [&](Part which) {
    for (float& weight : part(which)) weight = 1.0f;
  };
  const WeightParts& parts = model.parts;
  fill_uniform(random, part(parts.embedding), config.dim);
  fill_ones(parts.attention_norm);
  fill_uniform(random, part(parts.wq), config.dim);
  fill_uniform(random, part(parts.wk), config.dim);
  fill_uniform(random, part(parts.wv), config.dim);
  fill_uniform(random, part(parts.wo), config.dim);
  fill_ones(parts.ffn_norm);
  fill_uniform(random, part(parts.w1), config.dim);
  fill_uniform(random, part(parts.w2), config.hidden_dim);
  fill_uniform(random, part(parts.w3), config.dim);
  fill_ones(parts.final_norm);
  if (config.separate_classifier) fill_uniform(random, part(parts.classifier), config.dim);
  return model;
}

std::vector<std::byte> make_synthetic_tokenizer_file(std::int32_t vocab_size) {
  TokenizerFile file(vocab_size);
  file.add("<unk>");
  file.add("\n<s>\n");
  file.add("\n</s>\n");
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    file.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
  }
  file.add("\n");
  for (char c = ' '; c <= '~'; ++c) file.add(std::string(1, c));
  std::size_t words = kSyllables;
  for (std::size_t syllables = 1; !file.full(); ++syllables, words *= kSyllables) {
    for (std::size_t i = 0; i < words && !file.full(); ++i) file.add(word(i, syllables));
    for (std::size_t i = 0; i < words && !file.full(); ++i) file.add(std::string(1, ' ').append(word(i, syllables)));
  }
  return file.take();
}

Tokenizer make_synthetic_tokenizer(std::int32_t vocab_size) {
  return Tokenizer::parse(make_synthetic_tokenizer_file(vocab_size), vocab_size, "the synthetic tokenizer");
}

}  // namespace slipway::llama
