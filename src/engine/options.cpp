#include "engine/options.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/parker.h"

namespace slipway::internal {
namespace {

constexpr std::int64_t kDefaultSpin_us = 1000;

// "0-3+6": ranges and numbers joined by '+', since ',' separates options.
Result<std::vector<unsigned>> parse_affinity(const std::string& text) {
  std::vector<unsigned> processors;
  const Status bad(ErrorCode::kInvalidArgument, "the option 'affinity' has the value '" + text +
                                                    "'; write processors from 0 to 1023 as '0', '0-3' or '0-1+4'");
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    unsigned first = 0, last = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc{}) return bad;
    last = first;
    at = parsed.ptr;
    if (at != end && *at == '-') {
      parsed = std::from_chars(at + 1, end, last);
      if (parsed.ec != std::errc{}) return bad;
      at = parsed.ptr;
    }
    if (last < first || last > 1023) return bad;
    for (unsigned p = first; p <= last; ++p) processors.push_back(p);
    if (at == end) break;
    if (*at != '+' || ++at == end) return bad;
  }
  return processors;
}

}  // namespace

Status read_engine_options(const Uri& uri, unsigned workers, EngineOptions& options, DriverEnvironment& environment) {
  auto blocking = uri.flag("blocking");
  auto spin = uri.number("spin_us", kDefaultSpin_us, 0, 10'000'000);
  auto limit = uri.number("wait_limit_ms", 60'000, 1, 86'400'000);
  auto affinity = parse_affinity(uri.text("affinity").value_or(""));
  for (const Status& status : {blocking.status(), spin.status(), limit.status(), affinity.status()}) {
    if (!status.ok()) return status;
  }
  options.workers = workers;
  options.affinity = std::move(affinity.value());
  options.spin_ns = spin.value() * 1000;
  environment.blocking = environment.blocking || blocking.value();
  environment.wait_rules.default_limit_ns = limit.value() * 1'000'000;
  // On one processor, whoever is waited for needs it.
  environment.wait_rules.spin_ns = workers > 0 && available_processors(options.affinity) > 1 ? options.spin_ns : 0;
  return {};
}

}  // namespace slipway::internal
