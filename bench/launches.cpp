// Launches on Slipway's own devices, in every way and for several numbers of arguments.
#include <memory>

#include "cases.h"
#include "suites.h"

namespace bench {
namespace {

struct Setting {
  const char* group;
  const char* uri;
  bool held;    // nothing runs while the host side is timed
  bool shared;  // a second thread has submitted: the stream takes its lock
};

// A case on a device of its own; all that it needs in one place, shared by the rows that use it.
struct Bound {
  Bound(std::unique_ptr<Case> made, const Setting& setting)
      : device(open_device(setting.uri)),
        stream(device.create_stream(
            {.priority = 0, .ring_bytes = made->arguments() > 16 ? 1U << 20 : 256U << 10, .name = {}})),
        launches(std::move(made)) {
    launches->prepare(device, stream);
    launches->launch(Way::kTyped, 1);
    if (setting.shared) std::thread([&] { launches->launch(Way::kTyped, 1); }).join();
    stream.synchronize();
  }

  slipway::Device device;
  slipway::Stream stream;
  std::unique_ptr<Case> launches;
};

Sample turn(const Bound& b, Way way, bool held) {
  const std::uint64_t runs = g_runs, sum = g_sum;
  std::unique_ptr<slipway::testing::Hold> hold;
  if (held) {
    hold = std::make_unique<slipway::testing::Hold>(b.device);
    hold->hold(b.stream);
  }
  const std::int64_t start = now_ns();
  b.launches->launch(way, kBatchItems);
  const std::int64_t submitted = now_ns();
  hold.reset();
  b.stream.synchronize();
  const std::int64_t end = now_ns();
  const bool runs_kernels = b.device.info().runs_kernels;
  prove(b.stream.submitted() == b.stream.completed() && g_runs - runs == (runs_kernels ? kBatchItems : 0) &&
            g_sum - sum == (runs_kernels ? kBatchItems * b.launches->sum_of_one() : 0),
        "launches of Slipway");
  return {static_cast<double>(submitted - start) / kBatchItems,
          held ? 0 : static_cast<double>(end - start) / kBatchItems};
}

void add(Rows& rows, const Setting& setting, std::unique_ptr<Case> made, std::initializer_list<Way> ways) {
  const std::string suffix = ", " + std::to_string(made->arguments()) + " arguments";
  auto bound = std::make_shared<Bound>(std::move(made), setting);
  for (const Way way : ways) {
    const char* name = way == Way::kGeneral   ? "general"
                       : way == Way::kPlanned ? "planned"
                       : way == Way::kSite    ? "call site"
                                              : "typed";
    rows.add(setting.group, (setting.shared ? "typed, shared stream" : name) + suffix,
             [bound, way, held = setting.held] { return turn(*bound, way, held); });
  }
}

template <std::size_t... kArguments>
void add_all(Rows& rows) {
  using enum Way;
  for (const bool held : {true, false}) {
    const char* group = held ? "cpu, held" : "cpu, live";
    (add(rows, {group, "cpu", held, false}, make_case<kArguments>(), {kGeneral, kPlanned, kTyped, kSite}), ...);
    (add(rows, {group, "cpu", held, true}, make_case<kArguments>(), {kTyped}), ...);
  }
  (add(rows, {"cpu, in-line", "cpu:inline", false, false}, make_case<kArguments>(), {kGeneral, kTyped}), ...);
  (add(rows, {"null", "null", false, false}, make_case<kArguments>(), {kTyped}), ...);
}

}  // namespace

void add_launches(Rows& rows) { add_all<0, 1, 4, 6, 16, 64>(rows); }

}  // namespace bench
