// bench/update: what it costs to publish a step's values and to bring a tape up to them (goal 4). See README.md.
#include <cstdio>
#include <memory>

#include "program.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace {

using namespace bench;
using slipway::Device;
using slipway::Stream;

constexpr int kSteps = 50;

std::uint64_t g_runs = 0, g_sum = 0;
void use(std::int32_t value, std::int32_t) {
  ++g_runs;
  g_sum += static_cast<std::uint64_t>(value);
}

// `values` parameters, each used by `uses` launches.
struct Updated {
  int values, uses;
  Device device;
  Stream stream;
  slipway::Module module;
  std::vector<slipway::ScalarParameter<std::int32_t>> parameters;
  slipway::ExecutableGraph graph;
  slipway::StepValues step;
  std::int32_t last = 0;

  Updated(const char* uri, int v, int u)
      : values(v), uses(u), device(open_device(uri)), stream(device.create_stream()) {
    module = device.load_table({slipway::kernel<&use>("use")});
    slipway::Capture capture(stream, "bench");
    for (int i = 0; i < values; ++i) parameters.push_back(capture.parameter<std::int32_t>("v" + std::to_string(i)));
    for (int use_number = 0; use_number < uses; ++use_number) {
      for (const auto& parameter : parameters) stream.launch(module.kernel("use"), {}, parameter, 1);
      if (values == 0) stream.launch(module.kernel("use"), {}, 0, 1);
    }
    graph = capture.end().instantiate({.depth = 8});
    step = graph.values();
  }
  std::uint64_t launches() const {
    return static_cast<std::uint64_t>(std::max(values, 1)) * static_cast<std::uint64_t>(uses);
  }
  void change() {
    ++last;
    for (const auto& parameter : parameters) step.set(parameter, last);
  }
  void launch_step() {
    if (values == 0) graph.launch(stream);
    else graph.launch(stream, step);
  }
};

// ns per step: the submitting thread's share while nothing runs, so at most as many steps as there are slots.
Sample publish_held(Updated& u) {
  double took = 0;
  for (int round = 0; round < kSteps / 5; ++round) {
    g_runs = g_sum = 0;
    std::uint64_t sum = 0;
    {
      slipway::testing::Hold hold(u.device);
      hold.hold(u.stream);
      for (int i = 0; i < 5; ++i) {
        u.change();
        sum += static_cast<std::uint64_t>(u.last) * (u.values > 0 ? u.launches() : 0);
        const std::int64_t start = now_ns();
        u.launch_step();
        took += static_cast<double>(now_ns() - start);
      }
    }
    u.stream.synchronize();
    prove(g_runs == 5 * u.launches() && g_sum == sum, "steps with their own values");
  }
  return {took / kSteps, 0};
}

// ns per launch of the graph, in-line: what walking costs, with what has to be patched meanwhile.
Sample walk(Updated& u, bool changes) {
  g_runs = g_sum = 0;
  std::uint64_t sum = 0;
  double took = 0;
  for (int i = 0; i < 5; ++i) {
    if (changes) u.change();
    sum += static_cast<std::uint64_t>(u.last) * (u.values > 0 ? u.launches() : 0);
    const std::int64_t start = now_ns();
    u.launch_step();
    took += static_cast<double>(now_ns() - start);
  }
  u.stream.synchronize();
  prove(g_runs == 5 * u.launches() && g_sum == sum, "launches with their values");
  const double each = took / 5 / static_cast<double>(u.launches());
  return {each, each};
}

void touch(std::int32_t* at) { ++*at; }

// A graph of 1,000 launches, some of whose addresses lie in blocks of their own that are watched; the others are
// unknown.
struct Watching {
  static constexpr int kNodes = 1000;
  Device device;
  Stream stream;
  slipway::Module module;
  std::int32_t unknown = 0;
  std::vector<slipway::Memory> blocks;
  slipway::ExecutableGraph graph;
  slipway::GraphDefinition other;  // watches `freed`
  slipway::Memory freed;
  bool frees;

  Watching(int watched, bool frees_others) : device(open_device("cpu:workers=1")), frees(frees_others) {
    stream = device.create_stream();
    module = device.load_table({slipway::kernel<&touch>("touch")});
    for (int i = 0; i < watched; ++i) {
      blocks.push_back(device.allocate(64));
      stream.fill(blocks.back().address(), 0, 4, 16);
    }
    slipway::Capture capture(stream, "bench");
    for (int i = 0; i < kNodes; ++i) {
      if (i < watched) stream.launch(module.kernel("touch"), {}, blocks[static_cast<std::size_t>(i)]);
      else stream.launch(module.kernel("touch"), {}, &unknown);
    }
    graph = capture.end().instantiate();
  }
  // Memory that another graph refers to is freed, so that the next launch has to look at its own.
  void free_of_another() {
    freed = device.allocate(64);
    slipway::Capture capture(stream, "other");
    stream.launch(module.kernel("touch"), {}, freed);
    other = capture.end();
    freed = {};
  }
};

// ns per launch: the submitting thread's share while nothing runs.
Sample launch_watching(Watching& w) {
  double took = 0;
  for (int round = 0; round < kSteps / 5; ++round) {
    slipway::testing::Hold hold(w.device);
    for (int i = 0; i < 5; ++i) {
      if (w.frees) w.free_of_another();
      if (i == 0) hold.hold(w.stream);
      const std::int64_t start = now_ns();
      w.graph.launch(w.stream);
      took += static_cast<double>(now_ns() - start);
    }
    hold.release();
    w.stream.synchronize();
  }
  return {took / kSteps, 0};
}

void add_watching(Rows& rows) {
  for (const int watched : {0, 10, 1000}) {
    auto w = std::make_shared<Watching>(watched, false);
    rows.add("launch, ns, held, 1,000 nodes", std::to_string(watched) + " watched blocks",
             [w] { return launch_watching(*w); });
  }
  auto w = std::make_shared<Watching>(1000, true);
  rows.add("launch, ns, held, 1,000 nodes", "1000 watched, a block of another graph freed before",
           [w] { return launch_watching(*w); });
}

void add(Rows& rows, Partner&, Report&) {
  struct Shape {
    int values, uses;
  };
  for (const auto& [values, uses] : {Shape{1, 1}, Shape{1, 1000}, Shape{10, 100}, Shape{100, 10}}) {
    auto u = std::make_shared<Updated>("cpu:workers=1", values, uses);
    rows.add("launch with values, ns per step, held",
             std::to_string(values) + " values of " + std::to_string(uses) + " uses", [u] { return publish_held(*u); });
  }
  auto none = std::make_shared<Updated>("cpu:inline", 0, 1000);
  rows.add("walk, ns per node, in-line", "no values", [none] { return walk(*none, false); });
  auto one = std::make_shared<Updated>("cpu:inline", 1, 1000);
  rows.add("walk, ns per node, in-line", "a value in each, unchanged", [one] { return walk(*one, false); });
  auto other = std::make_shared<Updated>("cpu:inline", 1, 1000);
  rows.add("walk, ns per node, in-line", "a value in each, changed", [other] { return walk(*other, true); });
  add_watching(rows);
}

void judge(const Rows& rows, Report& report) {
  const char* held = "launch with values, ns per step, held";
  const Row *one_use = rows.find(held, "1 values of 1 uses"), *many = rows.find(held, "1 values of 1000 uses");
  if (one_use && many) {
    report.goals.push_back({"4", "publishing 1 value of 1,000 uses by one of 1 use",
                            many->host_ns() / one_use->host_ns(), 1.5, false, false, "x"});
  }
  const char* inline_walk = "walk, ns per node, in-line";
  const Row *none = rows.find(inline_walk, "no values"), *same = rows.find(inline_walk, "a value in each, unchanged");
  const Row* changed = rows.find(inline_walk, "a value in each, changed");
  if (none && same && changed) {
    report.goals.push_back(
        {"4", "patching a place that changed", changed->host_ns() - none->host_ns(), 5, false, false, "ns"});
    std::printf("\na place that did not change is looked at, not written: %.1f ns\n",
                same->host_ns() - none->host_ns());
  }
}

}  // namespace

int main(int argc, char** argv) { return run_program({"bench/update", 30, add, judge}, argc, argv); }
