// The loop around the steps, and the plain decoding that its texts are compared with.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "batch.h"
#include "model_file.h"
#include "runner.h"

namespace slipway::serving {

struct Outcome {
  std::vector<std::string> texts;  // of each request, prompts included
  std::size_t tokens = 0;          // computed, the prompts' included, drafts that were not accepted left out
  std::size_t steps = 0;
  std::size_t drafted = 0;
  std::size_t accepted = 0;
  double seconds = 0;
  double calls_seconds = 0;  // in Runner::submit: plans, launches, publishing; no waiting and no acceptance
};

// Decodes all requests as one batch, until the last one is done.
Outcome serve(const llama::Tokenizer& tokenizer, std::span<const Request> requests, std::size_t draft, Runner& runner);

// Decodes one request after another, token by token, by examples/llama's loop that calls its kernels without Slipway.
// Its attention is in one piece. A row's sums over parts come in another order, so that logits may differ in their
// last bits: texts would differ where the two likeliest tokens are as close as that.
Outcome serve_plain(const llama::Model& model, const llama::Tokenizer& tokenizer, std::span<const Request> requests);

}  // namespace slipway::serving
