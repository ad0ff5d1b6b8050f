// Serves a batch of ragged prompts with a LLaMA model, in one order or in all of them. See README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
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
  bool texts = false, json = false;
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

// One more run, with the timeline on, which slows it: for the waiting at gates, which no counter shows.
double gate_us_per_step(const Device& device, std::size_t steps, const std::function<void()>& run) {
  device.start_timeline(steps * 512);
  run();
  double total_ns = 0;
  for (const TimelineEntry& entry : device.stop_timeline()) {
    if (entry.kind == TimelineEntry::Kind::kGateWait)
      total_ns += static_cast<double>(entry.ended_ns - entry.started_ns);
  }
  return total_ns / 1e3 / static_cast<double>(steps);
}

int serve_all(const Options& options) {
  const llama::Model model = load_model(options);
  const llama::Tokenizer tokenizer = load_tokenizer(options, model.config);
  if (options.steps < 1 || options.steps > model.config.seq_len) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--steps is {}, and the model's context allows 1 to {}",
                                                         options.steps, model.config.seq_len));
  }
  const Device device = Device::open(options.device);
  const std::vector<Request> requests = make_requests(options);
  const auto draft = static_cast<std::size_t>(options.draft);
  const BatchShape shape{options.batch, options.batch * (options.draft + 1), options.split};
  const Planner planner = make_planner(options.split, std::chrono::microseconds(options.plan_cost_us));

  Report report{options.device, requests.size(), draft, options.plan_cost_us, {}};
  std::vector<std::unique_ptr<Runner>> runners;
  for (const std::string_view name : order_names()) {
    if (options.order != "all" && options.order != name) continue;
    report.rows.push_back({std::string(name), {}, -1});
    runners.push_back(make_runner(name, model, device, shape, planner));
  }
  if (runners.empty()) (void)make_runner(options.order, model, device, shape, planner);  // says which there are

  std::vector<Outcome> plain;
  double once = 0;
  const auto run_round = [&] {
    plain.push_back(serve_plain(model, tokenizer, requests));
    for (std::size_t i = 0; i < runners.size(); ++i) {
      report.rows[i].rounds.push_back(serve(tokenizer, requests, draft, *runners[i]));
      once += report.rows[i].rounds.back().seconds;
    }
    once += plain.back().seconds;
  };
  run_round();
  constexpr double kBudget_s = 4.0;
  const int rounds = options.rounds > 0 ? options.rounds : std::clamp(static_cast<int>(kBudget_s / once), 1, 15);
  while (static_cast<int>(plain.size()) < rounds) run_round();
  for (std::size_t i = 0; i < runners.size(); ++i) {
    Report::Row& row = report.rows[i];
    if (row.order == "sync") continue;
    const auto run = [&] { row.rounds.front().texts = serve(tokenizer, requests, draft, *runners[i]).texts; };
    row.gate_us_per_step = gate_us_per_step(device, row.rounds.front().steps, run);
  }
  report.rows.insert(report.rows.begin(), {"plain", std::move(plain), -1});

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
