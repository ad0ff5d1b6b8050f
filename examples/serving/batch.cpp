#include "batch.h"

#include <algorithm>

#include "lookup.h"

namespace slipway::serving {

Batch::Batch(const llama::Tokenizer& tokenizer, std::span<const Request> requests, std::size_t draft)
    : tokenizer_(tokenizer), draft_(draft) {
  for (const Request& request : requests) {
    State state;
    state.tokens = tokenizer.encode(request.prompt);
    state.limit = static_cast<std::size_t>(request.max_tokens);
    states_.push_back(std::move(state));
  }
}

bool Batch::done() const {
  return std::all_of(states_.begin(), states_.end(), [](const State& state) { return state.done(); });
}

const RowTable& Batch::next() {
  std::size_t count = 0;
  for (std::size_t slot = 0; slot < states_.size(); ++slot) {
    State& state = states_[slot];
    state.known = 0;
    state.drafts.clear();
    if (state.done()) continue;
    const std::size_t room = std::min(draft_ + 1, state.limit - state.computed);
    state.known = std::min(room, state.tokens.size() - state.computed);
    if (state.computed + state.known == state.tokens.size()) {
      const auto drafts = find_draft(state.tokens, room - state.known);
      state.drafts.assign(drafts.begin(), drafts.end());
    }
    const auto add = [&](std::int32_t token, std::size_t position) {
      rows_.rows[count++] = {token, static_cast<std::int32_t>(position), static_cast<std::int32_t>(slot)};
    };
    std::size_t position = state.computed;
    for (std::size_t i = 0; i < state.known; ++i, ++position) add(state.tokens[position], position);
    for (const std::int32_t token : state.drafts) add(token, position++);
  }
  rows_.count = static_cast<std::int32_t>(count);
  return rows_;
}

void Batch::take(std::span<const std::int32_t> likeliest) {
  for (State& state : states_) {
    const std::size_t rows = state.known + state.drafts.size();
    if (rows == 0) continue;
    take(state, likeliest.first(rows));
    likeliest = likeliest.subspan(rows);
  }
}

void Batch::take(State& state, std::span<const std::int32_t> likeliest) {
  state.computed += state.known;
  tokens_ += state.known;
  if (state.computed < state.tokens.size()) return;  // the rest of the prompt goes first
  // A draft that was not accepted leaves its key and value in the caches, where the next step writes over them.
  const auto choices = likeliest.subspan(state.known - 1);
  const std::size_t accepted = count_accepted(state.drafts, choices);
  drafted_ += state.drafts.size();
  for (std::size_t i = 0; i <= accepted && !state.ended; ++i) {
    if (i > 0) ++state.computed, ++tokens_, ++accepted_;
    state.ended = choices[i] == llama::kBeginToken;
    if (!state.ended) state.tokens.push_back(choices[i]);
  }
}

std::string Batch::text(std::size_t request) const {
  const State& state = states_[request];
  std::string text;
  const std::size_t shown = std::min(state.computed + 1, state.tokens.size());
  for (std::size_t i = 1; i < shown; ++i) text += tokenizer_.decode(state.tokens[i - 1], state.tokens[i]);
  return text;
}

}  // namespace slipway::serving
