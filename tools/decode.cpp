#include "decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "decoder.h"
#include "generate.h"
#include "slipway/slipway.h"
#include "synthetic.h"

namespace slipway::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Run {
  std::string text;
  std::int32_t steps = 0;
  double seconds = 0;
  double calls_seconds = 0;  // in submit(): launches and copies, no waiting and no sampling
};

// One mode and what its runs took.
struct Row {
  std::string mode;
  std::unique_ptr<llama::Decoder> decoder;
  std::vector<Run> runs;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double tokens_per_second(const Row& row) {
  std::vector<double> values;
  for (const Run& run : row.runs) values.push_back(run.steps / run.seconds);
  return median(std::move(values));
}

double call_us_per_token(const Row& row) {
  std::vector<double> values;
  for (const Run& run : row.runs) values.push_back(run.calls_seconds * 1e6 / run.steps);
  return median(std::move(values));
}

class Session {
 public:
  explicit Session(const DecodeOptions& options)
      : options_(options), model_(load_model(options)), tokenizer_(load_tokenizer(options, model_.config)) {
    if (options.steps < 1 || options.steps > model_.config.seq_len) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("--steps is {}, and the model's context allows 1 to {}",
                                                           options.steps, model_.config.seq_len));
    }
  }

  const llama::Model& model() const { return model_; }

  Run run(llama::Decoder& decoder, const llama::OnText& on_text) const {
    llama::Sampler sampler({.temperature = options_.temperature, .top_p = options_.top_p, .seed = options_.seed});
    Run run;
    const auto forward = [&](std::int32_t token, std::int32_t position) {
      const auto begin = Clock::now();
      decoder.submit(token, position);
      run.calls_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      return decoder.logits();
    };
    const auto begin = Clock::now();
    run.steps = llama::generate(tokenizer_, sampler, options_.prompt, options_.steps, forward, [&](std::string_view t) {
      run.text += t;
      on_text(t);
    });
    run.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return run;
  }

 private:
  static llama::Model load_model(const DecodeOptions& options) {
    if (!options.model.empty()) return llama::read_model(options.model);
    const auto& s = options.synthetic;
    llama::Config config;
    config.dim = s[0], config.hidden_dim = s[1], config.n_layers = s[2], config.n_heads = s[3];
    config.n_kv_heads = s[4], config.vocab_size = s[5], config.seq_len = s[6];
    return llama::make_synthetic_model(config, options.seed);
  }
  static llama::Tokenizer load_tokenizer(const DecodeOptions& options, const llama::Config& config) {
    if (options.tokenizer.empty()) return llama::make_synthetic_tokenizer(config.vocab_size);
    return llama::Tokenizer::read(options.tokenizer, config.vocab_size);
  }

  const DecodeOptions& options_;
  llama::Model model_;
  llama::Tokenizer tokenizer_;
};

bool equal_to(const Row& row, const Row& direct) {
  return std::all_of(row.runs.begin(), row.runs.end(),
                     [&](const Run& run) { return run.text == direct.runs.front().text; });
}

void print_table(const std::vector<Row>& rows, const Row& direct, bool compares, std::FILE* to) {
  fmt::print(to, "{:<10} {:>11} {:>10} {:>15} {:>15}  {}\n", "mode", "tokens/s", "to direct", "calls us/token",
             "launches/token", "text");
  for (const Row& row : rows) {
    fmt::print(to, "{:<10} {:>11.0f} {:>9.3f}x {:>15.2f} {:>15}  {}\n", row.mode, tokens_per_second(row),
               tokens_per_second(row) / tokens_per_second(direct), call_us_per_token(row),
               row.decoder->launches_per_step(),
               !compares               ? "not compared"
               : equal_to(row, direct) ? "equal"
                                       : "DIFFERS");
  }
}

nlohmann::json to_json(const std::vector<Row>& rows, const Row& direct, const DecodeOptions& options) {
  nlohmann::json result{{"device", options.device},
                        {"steps", rows.front().runs.front().steps},
                        {"rounds", rows.front().runs.size()},
                        {"modes", nlohmann::json::array()}};
  for (const Row& row : rows) {
    result["modes"].push_back({{"mode", row.mode},
                               {"tokens_per_second", tokens_per_second(row)},
                               {"relative_to_direct", tokens_per_second(row) / tokens_per_second(direct)},
                               {"calls_us_per_token", call_us_per_token(row)},
                               {"launches_per_token", row.decoder->launches_per_step()},
                               {"equal", equal_to(row, direct)},
                               {"text", row.runs.front().text}});
  }
  return result;
}

// Machines are noisy: the modes take turns, and the table shows medians.
int rounds_for(const DecodeOptions& options, const std::vector<Row>& rows) {
  if (options.rounds > 0) return options.rounds;
  constexpr double kBudget_s = 4.0;
  double once = 0;
  for (const Row& row : rows) once += row.runs.front().seconds;
  return std::clamp(static_cast<int>(kBudget_s / once), 1, 15);
}

// The file that --trace names. It is opened before anything runs, so that a bad name costs no time.
class TraceFile {
 public:
  explicit TraceFile(const DecodeOptions& options) : path_(options.trace) {
    if (path_.empty()) return;
    if (options.mode == "all" || options.mode == "direct") {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("--trace was given with --mode {}, which {}; choose one of the other modes", options.mode,
                              options.mode == "all" ? "runs several" : "uses no Slipway and has no timeline"));
    }
    file_.open(path_, std::ios::binary | std::ios::trunc);
    check("opened for writing");
  }

  // One run more, of a decoder of its own, so that the measured runs are not disturbed and the first step is whole.
  // False: its text is not that of `direct`.
  bool write(const Session& session, const Device& device, const std::string& mode, const Row& direct) {
    if (path_.empty()) return true;
    const auto decoder = llama::make_decoder(mode, session.model(), device);
    constexpr std::size_t kMostEntries = std::size_t{1} << 20;
    device.start_timeline(kMostEntries);
    const Run run = session.run(*decoder, [](std::string_view) {});
    ChromeTraceOptions trace;
    const std::vector<TimelineEntry> timeline = device.stop_timeline(&trace.dropped);
    trace.process = fmt::format("slipway decode, mode {} on {}", mode, device.info().uri);
    file_ << chrome_trace(timeline, trace);
    file_.close();
    check("written to its end");
    const bool equal = !device.info().runs_kernels || run.text == direct.runs.front().text;
    fmt::print(stderr, "trace of {} steps in {} ({} entries{}{})\n", run.steps, path_, timeline.size(),
               trace.dropped == 0 ? "" : fmt::format(", {} dropped", trace.dropped), equal ? "" : "; its text DIFFERS");
    return equal;
  }

 private:
  void check(const char* what) const {
    if (file_.good()) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the trace file '{}' could not be {}; give --trace a file in a folder that is there and "
                            "has room",
                            path_, what));
  }

  const std::string path_;
  std::ofstream file_;
};

}  // namespace

int decode(const DecodeOptions& options) {
  TraceFile trace(options);
  const Session session(options);
  const Device device = Device::open(options.device);
  const bool compares = device.info().runs_kernels;
  const bool all = options.mode == "all";
  std::vector<Row> rows;
  for (const std::string_view name : llama::mode_names()) {
    if (all || name == options.mode || name == "direct") {
      rows.push_back({std::string(name), llama::make_decoder(name, session.model(), device), {}});
    }
  }
  if (!all && rows.back().mode != options.mode) (void)llama::make_decoder(options.mode, session.model(), device);

  const bool streams_text = !all && !options.json;
  for (Row& row : rows) {
    const bool shown = streams_text && row.mode == options.mode;
    row.runs.push_back(session.run(*row.decoder, [&](std::string_view text) {
      if (!shown) return;
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }));
  }
  if (streams_text) fmt::print("\n");
  for (int round = 1, rounds = rounds_for(options, rows); round < rounds; ++round) {
    for (Row& row : rows) row.runs.push_back(session.run(*row.decoder, [](std::string_view) {}));
  }

  const Row& direct = rows.front();
  const bool equal = std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return equal_to(row, direct); });
  if (options.json) {
    fmt::print("{}\n", to_json(rows, direct, options).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    if (all) {
      fmt::print("{}\n\n", direct.runs.front().text);
      fmt::print("device {} ({}), {} steps, medians of {} rounds\n", device.info().uri, device.info().name,
                 direct.runs.front().steps, direct.runs.size());
    }
    print_table(rows, direct, compares, all ? stdout : stderr);
  }
  const bool trace_equal = trace.write(session, device, options.mode, direct);
  return (compares && !equal) || !trace_equal ? 1 : 0;
}

}  // namespace slipway::tool
