// The host's side of serving: lookup, acceptance, batches and the split of attention; and the kernels of the split.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

#include "batch.h"
#include "kernels.h"
#include "lookup.h"
#include "random.h"
#include "row_kernels.h"
#include "split_plan.h"
#include "synthetic.h"

namespace slipway::serving {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens draft(const Tokens& text, std::size_t count) {
  const auto found = find_draft(text, count);
  return {found.begin(), found.end()};
}

TEST(Lookup, FindsWhatFollowedTheLongestMatch) {
  EXPECT_EQ(draft({1, 2, 3, 4, 9, 3, 5, 1, 2, 3}, 2), (Tokens{4, 9}));  // three tokens match at 0; one would at 5
  EXPECT_EQ(draft({7, 3, 4, 8, 3}, 9), (Tokens{4, 8, 3}));              // one token, and no more than there are
  EXPECT_EQ(draft({5, 5}, 4), (Tokens{5}));
}

TEST(Lookup, TakesTheMostRecentPlace) { EXPECT_EQ(draft({3, 4, 3, 5, 3}, 1), (Tokens{5})); }

TEST(Lookup, FindsNothingInNewText) {
  EXPECT_EQ(draft({}, 4), Tokens{});
  EXPECT_EQ(draft({1}, 4), Tokens{});
  EXPECT_EQ(draft({1, 2, 3}, 4), Tokens{});
  EXPECT_EQ(draft({3, 4, 3}, 0), Tokens{});
}

TEST(Acceptance, EndsAtTheFirstDifference) {
  const auto accepted = [](const Tokens& drafts, const Tokens& likeliest) { return count_accepted(drafts, likeliest); };
  EXPECT_EQ(accepted({}, {4}), 0u);
  EXPECT_EQ(accepted({4, 5}, {4, 5, 6}), 2u);
  EXPECT_EQ(accepted({4, 5}, {4, 7, 5}), 1u);
  EXPECT_EQ(accepted({4, 5}, {5, 5, 6}), 0u);  // a later agreement is worth nothing
}

TEST(Split, CoversEachKeyOnceAndInOrder) {
  const Tokens lengths{0, 1, 2, 3, 0, 7, 8, 9, 64, 65, 200, 1, 0};
  for (const std::int32_t split : {1, 2, 3, 8, 63, 64, 200, 201, 65535, 2147483647}) {
    const SplitTable table = make_split(lengths, split);
    std::size_t part = 0;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      ASSERT_EQ(table.first[row], part) << "row " << row << " split " << split;
      std::int32_t next = 0;
      for (; part < table.first[row + 1]; ++part) {
        ASSERT_EQ(table.parts[part].row, row);
        ASSERT_EQ(table.parts[part].begin, next) << "row " << row << " split " << split;
        ASSERT_GT(table.parts[part].end, next);
        ASSERT_LE(table.parts[part].end - next, split);
        next = table.parts[part].end;
      }
      ASSERT_EQ(next, lengths[row]) << "row " << row << " split " << split;
    }
    ASSERT_EQ(table.count, static_cast<std::int32_t>(part));
  }
  EXPECT_EQ(make_split({}, 8).count, 0);
}

// What the order of sums depends on.
TEST(Split, OfARowDependsOnNothingButItsLength) {
  const SplitTable alone = make_split(Tokens{77}, 16);
  const SplitTable among = make_split(Tokens{130, 0, 77, 500}, 16);
  const std::size_t first = among.first[2];
  ASSERT_EQ(among.first[3] - first, static_cast<std::size_t>(alone.count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(alone.count); ++i) {
    EXPECT_EQ(among.parts[first + i].begin, alone.parts[i].begin);
    EXPECT_EQ(among.parts[first + i].end, alone.parts[i].end);
  }
}

TEST(Split, RefusesWhatItsTableCannotHold) {
  EXPECT_THROW((void)make_split(Tokens{5}, 0), std::invalid_argument);
  EXPECT_THROW((void)make_split(Tokens{-1}, 8), std::invalid_argument);
  EXPECT_THROW((void)make_split(Tokens{65536}, 65536), std::invalid_argument);
  EXPECT_THROW((void)make_split(Tokens(kMaxRows + 1, 1), 8), std::invalid_argument);
  EXPECT_NO_THROW((void)make_split(Tokens{static_cast<std::int32_t>(kMaxParts)}, 1));
  EXPECT_THROW((void)make_split(Tokens{static_cast<std::int32_t>(kMaxParts) + 1}, 1), std::length_error);
}

// The parts put together are examples/llama's attention in one piece, but for rounding.
TEST(SplitAttention, AgreesWithAttentionInOnePiece) {
  constexpr std::int32_t kHeads = 4, kKvHeads = 2, kSize = 6, kSeqLen = 50, kSlots = 3;
  constexpr std::int32_t kDim = kHeads * kSize, kKvDim = kKvHeads * kSize;
  constexpr float kScale = 0.4f;
  llama::SplitMix64 random(3);
  const auto draw = [&](std::size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = 4 * random.next_float() - 2;
    return values;
  };
  RowTable rows;
  Tokens lengths;
  for (const auto& [position, slot] : {std::pair{0, 0}, {49, 2}, {17, 1}, {18, 1}, {31, 0}}) {
    rows.rows[rows.count++] = {0, position, slot};
    lengths.push_back(position + 1);
  }
  const auto row_count = static_cast<std::size_t>(rows.count);
  const std::vector<float> q = draw(row_count * kDim);
  std::vector<float> plain_keys[kSlots], plain_values[kSlots];
  std::vector<float> keys(std::size_t{kSlots} * kSeqLen * kKvDim), values(keys.size());
  for (std::int32_t slot = 0; slot < kSlots; ++slot) {
    plain_keys[slot] = draw(kSeqLen * kKvDim), plain_values[slot] = draw(kSeqLen * kKvDim);
    for (std::int32_t position = 0; position < kSeqLen; ++position) {
      RowTable one;
      one.rows[0] = {0, position, slot};
      kernels::store_kv({}, keys.data(), values.data(), &plain_keys[slot][static_cast<std::size_t>(position) * kKvDim],
                        &plain_values[slot][static_cast<std::size_t>(position) * kKvDim], &one, kSeqLen, kKvDim, kSize);
    }
  }
  for (const std::int32_t split : {1, 7, 16, 50}) {
    const SplitTable table = make_split(lengths, split);
    std::vector<float> partial(static_cast<std::size_t>(table.count) * kHeads * (kSize + 2)), scratch(kSeqLen);
    std::vector<float> out(row_count * kDim), expected(kDim), scores(kHeads * kSeqLen);
    Block block;
    block.grid.x = kHeads;
    block.shared = scratch.data();
    for (std::uint32_t head = 0; head < kHeads; ++head) {
      for (std::int32_t part = 0; part < table.count; ++part) {
        block.index = {head, static_cast<std::uint32_t>(part), 0};
        kernels::attend_part(block, partial.data(), q.data(), keys.data(), values.data(), &table, &rows, kSeqLen,
                             kKvDim, kSize, kScale);
      }
      for (std::uint32_t row = 0; row < row_count; ++row) {
        block.index = {head, row, 0};
        kernels::combine_parts(block, out.data(), partial.data(), &table, kSize);
      }
    }
    for (std::size_t row = 0; row < row_count; ++row) {
      const auto slot = static_cast<std::size_t>(rows.rows[row].slot);
      for (std::uint32_t head = 0; head < kHeads; ++head) {
        block.index = {head, 0, 0};
        llama::kernels::attention(block, expected.data(), scores.data(), &q[row * kDim], plain_keys[slot].data(),
                                  plain_values[slot].data(), lengths[row], kSeqLen, kKvDim, kSize, kHeads / kKvHeads,
                                  kScale);
      }
      for (std::size_t i = 0; i < kDim; ++i)
        ASSERT_NEAR(out[row * kDim + i], expected[i], 1e-5f) << "row " << row << " element " << i << " split " << split;
    }
  }
}

TEST(SplitAttention, OfNoKeysIsZero) {
  const SplitTable table = make_split(Tokens{0}, 8);
  std::vector<float> out(4, 7.0f), partial(6, 7.0f);
  kernels::combine_parts({}, out.data(), partial.data(), &table, 4);
  EXPECT_EQ(out, std::vector<float>(4, 0.0f));
}

// Stands for the model: the token after a text is a function of its last two. There are three of them, so that texts
// repeat themselves, and now and then the token that ends one.
std::int32_t token_after(std::int32_t before, std::int32_t last) {
  const std::int32_t mixed = (before * 31 + last * 17) % 13;
  return mixed == 12 ? llama::kBeginToken : llama::kFirstTextToken + mixed % 3;
}

// Texts do not depend on how many tokens are drafted, nor on who else is there; and something is accepted.
TEST(Batches, GiveTheTextsOfPlainDecoding) {
  const auto tokenizer = llama::make_synthetic_tokenizer(400);
  std::vector<Request> requests;
  for (const char* prompt : {"", "a", "bade bade bade", "the dog the dog the", "zzz zzz", "qrs tuv wxy", "12121212"}) {
    for (const std::int32_t limit : {1, 2, 9, 40}) requests.push_back({prompt, limit});
  }
  std::vector<std::string> expected;
  std::size_t expected_tokens = 0;
  for (const Request& request : requests) {
    Tokens tokens = tokenizer.encode(request.prompt);
    std::string& text = expected.emplace_back();
    for (std::size_t i = 0; i < static_cast<std::size_t>(request.max_tokens); ++i) {
      ++expected_tokens;
      if (i + 1 == tokens.size()) tokens.push_back(token_after(i > 0 ? tokens[i - 1] : 0, tokens[i]));
      if (tokens[i + 1] == llama::kBeginToken) break;
      text += tokenizer.decode(tokens[i], tokens[i + 1]);
    }
  }
  for (const std::size_t draft : {0u, 1u, 2u, 3u}) {
    Batch batch(tokenizer, requests, draft);
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> cache;  // what a slot has at a position
    for (int steps = 0; !batch.done(); ++steps) {
      ASSERT_LT(steps, 200);
      const RowTable& rows = batch.next();
      ASSERT_LE(rows.count, static_cast<std::int32_t>(kMaxRows));
      Tokens likeliest;
      for (std::int32_t i = 0; i < rows.count; ++i) {
        const Row& row = rows.rows[i];
        cache[{row.slot, row.position}] = row.token;
        const auto before = row.position > 0 ? cache.at({row.slot, row.position - 1}) : 0;
        likeliest.push_back(token_after(before, row.token));
      }
      batch.take(likeliest);
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(batch.text(i), expected[i])
          << "draft " << draft << " prompt '" << requests[i].prompt << "' limit " << requests[i].max_tokens;
    }
    EXPECT_EQ(batch.tokens(), expected_tokens) << "draft " << draft;  // none is computed again
    EXPECT_EQ(batch.accepted() > 0, draft > 0);
    EXPECT_LE(batch.accepted(), batch.drafted());
  }
}

}  // namespace
}  // namespace slipway::serving
