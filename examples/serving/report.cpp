#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace slipway::serving {
namespace {

// Machines are noisy: what is measured is shown as the median over the rounds.
template <class Value>
double median(const Report::Row& row, Value&& value_of) {
  std::vector<double> values;
  for (const Outcome& outcome : row.rounds) values.push_back(value_of(outcome));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Figures {
  explicit Figures(const Report::Row& row) {
    const Outcome& first = row.rounds.front();  // what is counted is the same in all rounds
    const auto per_step = [&](std::size_t count) {
      return static_cast<double>(count) / static_cast<double>(first.steps);
    };
    tokens_per_second = median(row, [](const Outcome& o) { return static_cast<double>(o.tokens) / o.seconds; });
    tokens_per_step = per_step(first.tokens);
    drafted_per_step = per_step(first.drafted);
    accepted_per_step = per_step(first.accepted);
    calls_us_per_step =
        median(row, [](const Outcome& o) { return o.calls_seconds * 1e6 / static_cast<double>(o.steps); });
    gate_us_per_step = row.traced ? row.gate_seconds * 1e6 / static_cast<double>(row.traced->steps) : 0;
  }
  double tokens_per_second, tokens_per_step, drafted_per_step, accepted_per_step, calls_us_per_step, gate_us_per_step;
};

// Null when another order is shown alone.
const Report::Row* sync_of(const Report& report) {
  const auto row = std::find_if(report.rows.begin(), report.rows.end(), [](auto& r) { return r.order == "sync"; });
  return row == report.rows.end() ? nullptr : &*row;
}

}  // namespace

bool Report::Row::equal_to(const Row& plain) const {
  const auto& expected = plain.rounds.front().texts;
  return (!traced || traced->texts == expected) &&
         std::all_of(rounds.begin(), rounds.end(), [&](const Outcome& outcome) { return outcome.texts == expected; });
}

bool Report::all_equal() const {
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return row.equal_to(rows.front()); });
}

void Report::print_table(std::FILE* to) const {
  fmt::print(to, "device {}, {} requests, up to {} drafts each, plans of {} us{}, medians of {} rounds\n", device,
             requests, draft, plan_cost_us, plan_sleeps ? " asleep" : "", rows.front().rounds.size());
  fmt::print(to, "{:<13} {:>9} {:>8} {:>7} {:>12} {:>14} {:>14} {:>13}  {}\n", "order", "tokens/s", "to sync", "steps",
             "tokens/step", "accepted/step", "calls us/step", "gate us/step", "text");
  const Row* const sync = sync_of(*this);
  for (const Row& row : rows) {
    const Figures figures(row);
    const bool plain = &row == &rows.front();
    const auto cell = [](bool there, double value, const char* unit = "") {
      return there ? fmt::format("{:.2f}{}", value, unit) : std::string("-");
    };
    fmt::print(to, "{:<13} {:>9.0f} {:>8} {:>7} {:>12.2f} {:>14} {:>14} {:>13}  {}\n", row.order,
               figures.tokens_per_second,
               cell(sync != nullptr, sync ? figures.tokens_per_second / Figures(*sync).tokens_per_second : 0, "x"),
               row.rounds.front().steps, figures.tokens_per_step, cell(!plain, figures.accepted_per_step),
               cell(!plain, figures.calls_us_per_step), cell(row.traced.has_value(), figures.gate_us_per_step),
               row.equal_to(rows.front()) ? "equal" : "DIFFERS");
  }
}

void Report::print_json(std::FILE* to) const {
  nlohmann::json result{{"device", device},
                        {"requests", requests},
                        {"draft", draft},
                        {"plan_cost_us", plan_cost_us},
                        {"plan_sleeps", plan_sleeps},
                        {"rounds", rows.front().rounds.size()},
                        {"texts", rows.front().rounds.front().texts},
                        {"orders", nlohmann::json::array()}};
  const Row* const sync = sync_of(*this);
  for (const Row& row : rows) {
    const Figures figures(row);
    nlohmann::json entry{{"order", row.order},
                         {"tokens_per_second", figures.tokens_per_second},
                         {"tokens", row.rounds.front().tokens},
                         {"steps", row.rounds.front().steps},
                         {"tokens_per_step", figures.tokens_per_step},
                         {"drafted_per_step", figures.drafted_per_step},
                         {"accepted_per_step", figures.accepted_per_step},
                         {"calls_us_per_step", figures.calls_us_per_step},
                         {"equal", row.equal_to(rows.front())}};
    if (sync) entry["relative_to_sync"] = figures.tokens_per_second / Figures(*sync).tokens_per_second;
    if (row.traced) entry["gate_us_per_step"] = figures.gate_us_per_step;
    result["orders"].push_back(std::move(entry));
  }
  fmt::print(to, "{}\n", result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace slipway::serving
