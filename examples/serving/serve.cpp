#include "serve.h"

#include <chrono>

#include "direct.h"
#include "generate.h"
#include "sampler.h"

namespace slipway::serving {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Outcome serve(const llama::Tokenizer& tokenizer, std::span<const Request> requests, std::size_t draft, Runner& runner) {
  Outcome outcome;
  const auto begin = Clock::now();
  Batch batch(tokenizer, requests, draft);
  for (; !batch.done(); ++outcome.steps) {
    const RowTable& rows = batch.next();
    const auto call = Clock::now();
    runner.submit(rows);
    outcome.calls_seconds += seconds_since(call);
    batch.take(runner.tokens());
  }
  for (std::size_t i = 0; i < requests.size(); ++i) outcome.texts.push_back(batch.text(i));
  outcome.seconds = seconds_since(begin);
  outcome.tokens = batch.tokens();
  outcome.drafted = batch.drafted();
  outcome.accepted = batch.accepted();
  return outcome;
}

Outcome serve_plain(const llama::Model& model, const llama::Tokenizer& tokenizer, std::span<const Request> requests) {
  Outcome outcome;
  llama::Direct direct(model);
  llama::Sampler greedy({.temperature = 0});
  const auto begin = Clock::now();
  for (const Request& request : requests) {
    std::string& text = outcome.texts.emplace_back();
    const auto forward = [&](std::int32_t token, std::int32_t position) { return direct.forward(token, position); };
    const auto steps = llama::generate(tokenizer, greedy, request.prompt, request.max_tokens, forward,
                                       [&](std::string_view piece) { text += piece; });
    outcome.steps += static_cast<std::size_t>(steps);
  }
  outcome.seconds = seconds_since(begin);
  outcome.tokens = outcome.steps;
  return outcome;
}

}  // namespace slipway::serving
