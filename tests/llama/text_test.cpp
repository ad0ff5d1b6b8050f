// Text to tokens to text, and the draw of the next token.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "random.h"
#include "sampler.h"
#include "synthetic.h"
#include "tokenizer.h"

namespace slipway::llama {
namespace {

std::string decode_all(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (std::size_t i = 1; i < tokens.size(); ++i) text += tokenizer.decode(tokens[i - 1], tokens[i]);
  return text;
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::vector<std::string> texts;
  for (const std::int32_t token : tokens) texts.emplace_back(tokenizer.text_of(token));
  return texts;
}

// The rule as it is written down: look at every pair, merge the best, start again. Quadratic. Scores of the
// synthetic vocabulary fall with the id, so the best pair is the one that joins to the smallest id.
std::vector<std::int32_t> encode_slowly(const Tokenizer& tokenizer, const std::string& text) {
  const auto find = [&](const std::string& wanted) {
    for (std::int32_t id = kFirstTextToken; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.text_of(id) == wanted) return id;
    }
    return tokenizer.vocab_size();
  };
  std::vector<std::int32_t> tokens;
  for (const char c : " " + text) {
    const std::int32_t token = find(std::string(1, c));
    tokens.push_back(token < tokenizer.vocab_size() ? token : static_cast<unsigned char>(c) + kFirstByteToken);
  }
  for (;;) {
    std::int32_t best = tokenizer.vocab_size();
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] < kFirstTextToken || tokens[i + 1] < kFirstTextToken) continue;
      const std::int32_t joined =
          find(std::string(tokenizer.text_of(tokens[i])) + std::string(tokenizer.text_of(tokens[i + 1])));
      if (joined < best) {
        best = joined;
        where = i;
      }
    }
    if (best == tokenizer.vocab_size()) break;
    tokens[where] = best;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
  tokens.insert(tokens.begin(), kBeginToken);
  return tokens;
}

TEST(Tokenizer, StartsWithBeginTokenAndOneSpace) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(512);
  EXPECT_EQ(tokenizer.encode(""), std::vector<std::int32_t>{kBeginToken});
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(tokenizer, tokenizer.encode("A")), (Texts{"\n<s>\n", " ", "A"}));
  EXPECT_EQ(texts_of(tokenizer, tokenizer.encode(" A")), (Texts{"\n<s>\n", " ", " ", "A"}));
  EXPECT_EQ(texts_of(tokenizer, tokenizer.encode("ba")), (Texts{"\n<s>\n", " ba"}));
}

TEST(Tokenizer, FallsBackToBytes) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(512);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(tokenizer, tokenizer.encode("\xC3\xA9")), (Texts{"\n<s>\n", " ", "<0xC3>", "<0xA9>"}));
  // A vocabulary without even a space.
  const Tokenizer bare = make_synthetic_tokenizer(259);
  EXPECT_EQ(texts_of(bare, bare.encode("a")), (Texts{"\n<s>\n", "<0x20>", "<0x61>"}));
}

TEST(Tokenizer, NeverMakesControlOrByteTokensFromTextThatSpellsThem) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(512);
  const std::string text = "<unk>\n<s>\n\n</s>\n<0x41>";
  const std::vector<std::int32_t> tokens = tokenizer.encode(text);
  for (std::size_t i = 1; i < tokens.size(); ++i) EXPECT_GE(tokens[i], kFirstTextToken);
  EXPECT_EQ(decode_all(tokenizer, tokens), text);
}

TEST(Tokenizer, RoundTripsAnyBytes) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(512);
  SplitMix64 random(5);
  std::vector<std::string> texts = {"a",
                                    " a",
                                    "  ",
                                    "Lily and Tom",
                                    "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80",
                                    "\x80\xBF\xFF\xC0",
                                    std::string("a\0b", 3)};
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (std::uint64_t left = 1 + random.next() % 40; left > 0; --left) {
      text += static_cast<char>(static_cast<unsigned char>(random.next() & 0xFF));
    }
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    // The space that encoding adds is the one that decoding drops.
    EXPECT_EQ(decode_all(tokenizer, tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, MergesInTheOrderThatTheRuleGives) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(700);
  SplitMix64 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::uint64_t left = 1 + random.next() % 30; left > 0; --left) text += "abdeioc A"[random.next() % 9];
    EXPECT_EQ(tokenizer.encode(text), encode_slowly(tokenizer, text)) << text;
  }
}

TEST(Tokenizer, EncodesLongTextsInReasonableTime) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(2000);
  std::string text;
  while (text.size() < 1'000'000) text += "babade cidofu ";
  EXPECT_EQ(decode_all(tokenizer, tokenizer.encode(text)), text);  // quadratic would take hours, not a second
}

TEST(Tokenizer, SurvivesBeingMovedAndRefusesForeignTokens) {
  Tokenizer first = make_synthetic_tokenizer(512);
  const std::vector<std::int32_t> tokens = first.encode("bade");
  const Tokenizer second = std::move(first);
  EXPECT_EQ(second.encode("bade"), tokens);
  EXPECT_THROW(second.decode(1, 512), std::out_of_range);
  EXPECT_THROW(second.decode(1, -1), std::out_of_range);
}

TEST(Tokenizer, DropsOneLeadingSpaceAfterTheBeginTokenOnly) {
  const Tokenizer tokenizer = make_synthetic_tokenizer(512);
  const std::int32_t space_ba = tokenizer.encode("ba")[1];
  EXPECT_EQ(tokenizer.decode(kBeginToken, space_ba), "ba");
  EXPECT_EQ(tokenizer.decode(space_ba, space_ba), " ba");
  EXPECT_EQ(tokenizer.decode(space_ba, kFirstByteToken), std::string_view("\0", 1));
}

TEST(Sampler, GreedyTakesTheFirstLargest) {
  Sampler sampler(SamplerOptions{});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{nan, -5, nan}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{nan, nan}), 0);
}

TEST(Sampler, DrawsTheSameSequenceForTheSameSeed) {
  std::vector<float> logits;
  SplitMix64 random(3);
  for (int i = 0; i < 50; ++i) logits.push_back(4.0f * random.next_float());
  const auto draw = [&](std::uint64_t seed) {
    Sampler sampler({1.0f, 0.9f, seed});
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 12; ++i) tokens.push_back(sampler.sample(logits));
    return tokens;
  };
  EXPECT_EQ(draw(42), draw(42));
  EXPECT_NE(draw(42), draw(43));
  // The same with every compiler.
  EXPECT_EQ(draw(42), (std::vector<std::int32_t>{10, 46, 7, 9, 21, 5, 25, 22, 9, 14, 25, 20}));
}

TEST(Sampler, TopPKeepsToTheNucleus) {
  // Probabilities 0.5, 0.3, 0.15, 0.05: 0.9 is exceeded with the third.
  const std::vector<float> logits{std::log(0.05f), std::log(0.3f), std::log(0.5f), std::log(0.15f)};
  Sampler sampler({1.0f, 0.9f, 9});
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(sampler.sample(logits))];
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[2], kDraws * 0.5 / 0.95, kDraws * 0.02);
  EXPECT_NEAR(counts[1], kDraws * 0.3 / 0.95, kDraws * 0.02);

  Sampler all({1.0f, 1.0f, 9});
  counts.assign(4, 0);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(all.sample(logits))];
  EXPECT_NEAR(counts[0], kDraws * 0.05, kDraws * 0.01);

  Sampler narrow({1.0f, 0.01f, 9});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(narrow.sample(logits), 2);
}

TEST(Sampler, CopesWithBrokenLogitsAndRefusesBadOptions) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  Sampler sampler({1.0f, 0.9f, 1});
  EXPECT_EQ(sampler.sample(std::vector<float>{0, nan, 1}), 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{0, infinity, 1}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-infinity, -infinity}), 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{5}), 0);
  for (const SamplerOptions bad :
       {SamplerOptions{-1, 0.9f, 1}, {nan, 0.9f, 1}, {infinity, 0.9f, 1}, {1, 0, 1}, {1, 1.5f, 1}, {1, nan, 1}}) {
    EXPECT_THROW(Sampler{bad}, std::invalid_argument);
  }
}

}  // namespace
}  // namespace slipway::llama
