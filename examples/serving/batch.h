// The requests of a batch: what goes into the next step, and what comes of its results. Knows no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tables.h"
#include "tokenizer.h"

namespace slipway::serving {

struct Request {
  std::string prompt;
  std::int32_t max_tokens = 0;  // computed at most, the prompt's included
};

// Decodes greedily. A step takes up to 1 + draft tokens of each request that goes on: those that are known and not
// computed yet (at first the prompt's), and behind the last known one the drafted ones.
class Batch {
 public:
  // (1 + draft) * requests must be at most kMaxRows.
  Batch(const llama::Tokenizer& tokenizer, std::span<const Request> requests, std::size_t draft);

  bool done() const;
  // The rows of the next step.
  const RowTable& next();
  // The likeliest token after each of those rows.
  void take(std::span<const std::int32_t> likeliest);

  std::string text(std::size_t request) const;    // the prompt included
  std::size_t tokens() const { return tokens_; }  // computed so far and kept, of all requests
  std::size_t drafted() const { return drafted_; }
  std::size_t accepted() const { return accepted_; }

 private:
  struct State {
    std::vector<std::int32_t> tokens;  // known: the prompt's, and what came behind it
    std::size_t limit = 0;
    std::size_t computed = 0;  // of them, and in the caches
    bool ended = false;        // the begin token was the likeliest
    std::size_t known = 0;     // rows of the step under way that are known tokens
    std::vector<std::int32_t> drafts;

    bool done() const { return ended || computed == limit; }
  };
  void take(State& state, std::span<const std::int32_t> likeliest);

  const llama::Tokenizer& tokenizer_;
  std::size_t draft_;
  std::vector<State> states_;
  RowTable rows_;
  std::size_t tokens_ = 0;
  std::size_t drafted_ = 0;
  std::size_t accepted_ = 0;
};

}  // namespace slipway::serving
