// What the demo's model loads from: model and tokenizer files, malformed ones of every kind, and the synthetic pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model_file.h"
#include "random.h"
#include "synthetic.h"
#include "tokenizer.h"

namespace slipway::llama {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, T value) {
  std::byte raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
}

template <class T>
void overwrite(Bytes& bytes, std::size_t at, T value) {
  ASSERT_LE(at + sizeof(T), bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Whatever compiler and standard library: found with g++ 12, and the same with clang++ 14.
constexpr std::uint64_t kModelDigest = 14933468711336699060u;
constexpr std::uint64_t kTokenizerDigest = 384819042640501044u;

constexpr Config kSmall{8, 12, 2, 4, 2, 300, 16, false};

Bytes header_of(const Config& config) {
  Bytes bytes;
  for (const std::int32_t field :
       {config.dim, config.hidden_dim, config.n_layers, config.n_heads, config.n_kv_heads,
        config.separate_classifier ? -config.vocab_size : config.vocab_size, config.seq_len}) {
    append(bytes, field);
  }
  return bytes;
}

Bytes file_of(const Model& model) {
  Bytes bytes = header_of(model.config);
  for (const float weight : model.blob) append(bytes, weight);
  return bytes;
}

template <class Function>
void expect_refused(Function load, const std::vector<std::string>& said) {
  try {
    load();
    ADD_FAILURE() << "accepted, though it should say: " << said.front();
  } catch (const ModelFileError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("the file: ", 0), 0u) << message;
    EXPECT_EQ(message.back(), '.') << message;
    for (const std::string& part : said) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

void expect_model_refused(const Bytes& bytes, const std::vector<std::string>& said) {
  expect_refused([&] { parse_model(bytes, "the file"); }, said);
}

void expect_tokenizer_refused(const Bytes& bytes, std::int32_t vocab_size, const std::vector<std::string>& said) {
  expect_refused([&] { Tokenizer::parse(bytes, vocab_size, "the file"); }, said);
}

TEST(ModelFile, RoundTripsSharedAndSeparateClassifier) {
  for (const bool separate : {false, true}) {
    Config config = kSmall;
    config.separate_classifier = separate;
    const Model model = make_synthetic_model(config, 7);
    const Model loaded = parse_model(file_of(model), "the file");
    EXPECT_EQ(loaded.config, config);
    EXPECT_EQ(loaded.blob, model.blob);
    EXPECT_EQ(loaded.parts.classifier.offset == loaded.parts.embedding.offset, !separate);
    EXPECT_EQ(loaded.layer(loaded.parts.w2, 1).data(), loaded.part(loaded.parts.w2).data() + 8 * 12);
  }
}

TEST(ModelFile, RefusesEveryTruncationAndTrailingBytes) {
  Bytes bytes = file_of(make_synthetic_model(kSmall, 7));
  const std::string whole = std::to_string(bytes.size());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{27}}) {
    expect_model_refused(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                         {std::to_string(size) + " bytes", "28"});
  }
  for (const std::size_t size : {std::size_t{28}, std::size_t{29}, bytes.size() - 1}) {
    expect_model_refused(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                         {std::to_string(size) + " bytes", whole, "cut short"});
  }
  bytes.push_back(std::byte{0});
  expect_model_refused(bytes, {"1 bytes at its end"});
}

TEST(ModelFile, RefusesAbsurdExtents) {
  const Bytes good = file_of(make_synthetic_model(kSmall, 7));
  const char* const fields[] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < 7; ++i) {
    for (const std::int32_t value : {0, -1, std::numeric_limits<std::int32_t>::min()}) {
      Bytes bytes = good;
      overwrite(bytes, i * 4, value);
      if (i == 5 && value == -1) continue;  // one token with a separate classifier: a size error, not an extent
      expect_model_refused(bytes, {fields[i], " is " + std::to_string(value), "at least 1"});
    }
  }
  const auto with = [&](std::size_t field, std::int32_t value) {
    Bytes bytes = good;
    overwrite(bytes, field * 4, value);
    return bytes;
  };
  expect_model_refused(with(0, 9), {"dim is 9", "not a multiple of n_heads (4)"});
  expect_model_refused(with(4, 3), {"n_heads is 4", "not a multiple of n_kv_heads (3)"});
  expect_model_refused(with(0, 12), {"head size", "is 3", "even"});
  expect_model_refused(with(6, std::numeric_limits<std::int32_t>::max()), {"seq_len * kv_dim", "2147483647"});
  expect_model_refused(with(1, std::numeric_limits<std::int32_t>::max()), {"announces"});
}

TEST(ModelFile, RefusesProductsThatOverflow) {
  constexpr std::int32_t kHuge = 1 << 30;
  expect_model_refused(header_of({kHuge, kHuge, kHuge, 1 << 29, 1, kHuge, 1, false}), {"no machine can hold"});
  expect_model_refused(header_of({1 << 20, 1 << 20, 1, 1 << 19, 1, kHuge, 1, true}), {"announces", "cut short"});
}

TEST(ModelFile, ReadsFromDiskAndNamesThePathInErrors) {
  const std::string path = testing::TempDir() + "slipway_llama_model.bin";
  const Model model = make_synthetic_model(kSmall, 3);
  const Bytes bytes = file_of(model);
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  EXPECT_EQ(read_model(path).blob, model.blob);
  for (const std::string& bad : {testing::TempDir(), path + ".absent"}) {
    try {
      read_model(bad);
      ADD_FAILURE() << bad;
    } catch (const ModelFileError& error) {
      EXPECT_EQ(std::string(error.what()).rfind(bad + ": ", 0), 0u) << error.what();
    }
  }
  std::remove(path.c_str());
}

TEST(TokenizerFile, RefusesEveryTruncationAndTrailingBytes) {
  constexpr std::int32_t kVocab = 300;
  Bytes bytes = make_synthetic_tokenizer_file(kVocab);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(Tokenizer::parse(cut, kVocab, "the file"), ModelFileError) << size;
  }
  expect_tokenizer_refused(bytes, kVocab - 1, {"bytes follow the last of 299 tokens"});
  expect_tokenizer_refused(bytes, kVocab + 1, {"ends inside token 300 of 301"});
  expect_tokenizer_refused(bytes, std::numeric_limits<std::int32_t>::max(), {"takes at least"});
  expect_tokenizer_refused(bytes, 258, {"258 tokens", "at least 259"});
  expect_tokenizer_refused(bytes, -1, {"-1 tokens", "at least 259"});
  bytes.push_back(std::byte{0});
  expect_tokenizer_refused(bytes, kVocab, {"1 bytes follow"});
}

TEST(TokenizerFile, RefusesDamagedRecords) {
  constexpr std::int32_t kVocab = 300;
  const Bytes good = make_synthetic_tokenizer_file(kVocab);
  const auto with = [&](std::size_t at, auto value) {
    Bytes bytes = good;
    overwrite(bytes, at, value);
    return bytes;
  };
  expect_tokenizer_refused(with(0, 0), kVocab, {"longest token's length is 0"});
  expect_tokenizer_refused(with(0, 4), kVocab, {"the length of token 0 is 5", "from 1 to 4"});
  expect_tokenizer_refused(with(4, std::numeric_limits<float>::quiet_NaN()), kVocab, {"score of token 0"});
  expect_tokenizer_refused(with(4, std::numeric_limits<float>::infinity()), kVocab, {"score of token 0"});
  expect_tokenizer_refused(with(8, 0), kVocab, {"length of token 0 is 0", "from 1 to"});
  expect_tokenizer_refused(with(8, -5), kVocab, {"length of token 0 is -5"});
  expect_tokenizer_refused(with(8, 1 << 30), kVocab, {"length of token 0 is 1073741824"});
  Bytes greedy = with(0, std::numeric_limits<std::int32_t>::max());
  overwrite(greedy, 8, 1 << 30);
  expect_tokenizer_refused(greedy, kVocab, {"text of token 0 has 1073741824 bytes", "left in the file"});
  // Records of <unk>, \n<s>\n and \n</s>\n come before that of <0x00>.
  expect_tokenizer_refused(with(4 + 13 + 13 + 14 + 8, 'x'), kVocab, {"token 3 is not spelled <0x00>"});
}

TEST(Synthetic, IsTheSameWithEveryCompiler) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);

  const auto digest = [](const auto& values) {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const std::byte byte : std::as_bytes(std::span(values))) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
    }
    return hash;
  };
  EXPECT_EQ(digest(make_synthetic_model(kSmall, 1).blob), kModelDigest);
  EXPECT_EQ(digest(make_synthetic_tokenizer_file(1000)), kTokenizerDigest);
  EXPECT_NE(make_synthetic_model(kSmall, 1).blob, make_synthetic_model(kSmall, 2).blob);
}

TEST(Synthetic, TokenizerFillsAnyVocabularyWithoutRepeats) {
  for (const std::int32_t vocab : {259, 260, 400, 512, 32000}) {
    const Tokenizer tokenizer = make_synthetic_tokenizer(vocab);
    EXPECT_EQ(tokenizer.vocab_size(), vocab);
    std::vector<std::string_view> texts;
    for (std::int32_t id = 0; id < vocab; ++id) texts.push_back(tokenizer.text_of(id));
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  }
  EXPECT_THROW(make_synthetic_tokenizer(258), ModelFileError);
}

}  // namespace
}  // namespace slipway::llama
