// Serves a batch of ragged prompts with a LLaMA model, in one order or in all of them. See README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "report.h"
#include "slipway/slipway.h"
#include "synthetic.h"

namespace {

using namespace slipway;
using namespace slipway::serving;

struct Options {
  std::string model, tokenizer, device = "cpu", order = "all";
  std::int32_t batch = 8, steps = 200, draft = 4, split = 64;
  long plan_cost_us = 0;
  int rounds = 0;
  bool plan_sleeps = false, texts = false, json = false;
};

// Ragged in both ways: prompts of many lengths, and a limit of its own for each request.
std::vector<Request> make_requests(const Options& options) {
  constexpr std::array kPrompts{"Once upon a time",
                                "Lily and Tom",
                                "",
                                "One day, a little girl named Lily found a big box in the park. She was very happy and",
                                "The dog",
                                "Tim and his mom went to the store. They saw a red ball. Tim said,",
                                "Ben",
                                "There was a small bird who liked to sing. Every day, the small bird"};
  std::vector<Request> requests;
  for (std::int32_t i = 0; i < options.batch; ++i) {
    const std::int32_t limit = options.steps - i % 4 * options.steps / 8;
    requests.push_back({kPrompts[static_cast<std::size_t>(i) % kPrompts.size()], limit});
  }
  return requests;
}

llama::Model load_model(const Options& options) {
  if (!options.model.empty()) return llama::read_model(options.model);
  llama::Config config;  // the extents of the small public model
  config.dim = 64, config.hidden_dim = 172, config.n_layers = 5, config.n_heads = 8;
  config.n_kv_heads = 4, config.vocab_size = 512, config.seq_len = 512;
  return llama::make_synthetic_model(config, 1);
}

llama::Tokenizer load_tokenizer(const Options& options, const llama::Config& config) {
  if (options.tokenizer.empty()) return llama::make_synthetic_tokenizer(config.vocab_size);
  return llama::Tokenizer::read(options.tokenizer, config.vocab_size);
}

class Session {
 public:
  explicit Session(const Options& options)
      : model_(load_model(options)),
        tokenizer_(load_tokenizer(options, model_.config)),
        requests_(make_requests(options)),
        draft_(static_cast<std::size_t>(options.draft)),
        device_(Device::open(options.device)) {
    if (options.steps < 1 || options.steps > model_.config.seq_len) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("--steps is {}, and the model's context allows 1 to {}",
                                                           options.steps, model_.config.seq_len));
    }
    const BatchShape shape{options.batch, options.batch * (options.draft + 1), options.split};
    const Planner planner = make_planner(options.split, std::chrono::microseconds(options.plan_cost_us),
                                         options.plan_sleeps ? PlanCost::kSleeps : PlanCost::kComputes);
    rows_.push_back({"plain", {}});
    runners_.push_back(nullptr);
    for (const std::string_view name : order_names()) {
      if (options.order != "all" && options.order != name) continue;
      rows_.push_back({std::string(name), {}});
      runners_.push_back(make_runner(name, model_, device_, shape, planner));
    }
    if (rows_.size() == 1) (void)make_runner(options.order, model_, device_, shape, planner);  // says which there are
  }

  // The orders take turns. `rounds` may be 0: as many as a few seconds allow.
  Report measure(const Options& options) {
    double once = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) once += run(i).seconds;
    constexpr double kBudget_s = 4.0;
    const int rounds = options.rounds > 0 ? options.rounds : std::clamp(static_cast<int>(kBudget_s / once), 1, 15);
    for (int round = 1; round < rounds; ++round) {
      for (std::size_t i = 0; i < rows_.size(); ++i) run(i);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (runners_[i] && rows_[i].order != "sync") trace(i);
    }
    return {options.device, requests_.size(), draft_, options.plan_cost_us, options.plan_sleeps, std::move(rows_)};
  }

 private:
  const Outcome& run(std::size_t i) {
    return rows_[i].rounds.emplace_back(runners_[i] ? serve(tokenizer_, requests_, draft_, *runners_[i])
                                                    : serve_plain(model_, tokenizer_, requests_));
  }

  // No counter shows the waiting at gates, but the timeline does.
  void trace(std::size_t i) {
    Report::Row& row = rows_[i];
    device_.start_timeline(row.rounds.front().steps * 512);
    row.traced = serve(tokenizer_, requests_, draft_, *runners_[i]);
    for (const TimelineEntry& entry : device_.stop_timeline()) {
      if (entry.kind == TimelineEntry::Kind::kGateWait)
        row.gate_seconds += static_cast<double>(entry.ended_ns - entry.started_ns) * 1e-9;
    }
  }

  llama::Model model_;
  llama::Tokenizer tokenizer_;
  std::vector<Request> requests_;
  std::size_t draft_;
  Device device_;
  std::vector<Report::Row> rows_;
  std::vector<std::unique_ptr<Runner>> runners_;  // of the rows; null: plain decoding
};

int serve_all(const Options& options) {
  const Report report = Session(options).measure(options);
  if (options.texts) {
    for (const std::string& text : report.rows.back().rounds.front().texts) fmt::print(stderr, "{}\n--\n", text);
  }
  if (options.json) report.print_json(stdout);
  else report.print_table(stdout);
  return report.all_equal() ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Serves a batch of prompts with prompt-lookup drafts and split attention; exit status 1 if a text differs "
      "from plain decoding"};
  Options o;
  const auto option = [&](const char* name, auto& value, const char* what) {
    return app.add_option(name, value, what)->capture_default_str();
  };
  option("--model", o.model, "Model file in llama2.c's format; a synthetic model when not given");
  option("--tokenizer", o.tokenizer, "Its tokenizer file; a synthetic one when not given");
  option("--batch", o.batch, "Requests")->check(CLI::Range(1, static_cast<int>(kMaxRows)));
  option("--steps", o.steps, "Tokens of the longest request at most, the prompt's included");
  option("--draft", o.draft, "Drafted tokens of a request in one step at most; 0: none")
      ->check(CLI::Range(0, static_cast<int>(kMaxRows) - 1));
  option("--split", o.split, "Keys in one part of attention at most")->check(CLI::Range(1, 65535));
  option("--plan-cost-us", o.plan_cost_us, "Time that planning one layer's attention takes at least")
      ->check(CLI::Range(0L, 1'000'000L));
  app.add_flag("--plan-sleeps", o.plan_sleeps,
               "Planning sleeps for this time: shows the overlap where no second processor is free");
  option("--order", o.order, "sync, update-first, overlap-1, overlap-2, or all");
  option("--device", o.device, "Device URI; see `slipway devices`");
  option("--rounds", o.rounds, "Runs per order, of which medians are shown; 0: what a few seconds allow")
      ->check(CLI::Range(0, 1000));
  app.add_flag("--texts", o.texts, "Print the last order's texts to standard error");
  app.add_flag("--json", o.json, "Print one JSON object instead of the table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // help is no error; all others have one status
  }
  return serve_all(o);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "serving: {}\n", error.what());
    return 2;
  }
}
