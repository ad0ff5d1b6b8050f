// bench/replay: what a node of a replayed graph costs, and what it costs to launch one (goal 3). See README.md.
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include "program.h"
#include "replay_opencl.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

#if defined(SLIPWAY_BENCH_TBB)
#include <oneapi/tbb/flow_graph.h>
#endif
#if defined(SLIPWAY_BENCH_TASKFLOW)
#include <taskflow/taskflow.hpp>
#endif

namespace {

using namespace bench;
using slipway::Device;
using slipway::Stream;

constexpr int kNodes = 1000;

// One kernel of six arguments, or eight that differ. Each counts its run and reads its arguments.
struct Count {
  std::uint64_t runs = 0;
  std::uint64_t sum = 0;
};
template <int kWhich>
[[gnu::noinline]] void work(Count* count, const float*, const float*, std::int32_t a, std::int32_t b, std::int32_t c) {
  ++count->runs;
  count->sum += static_cast<std::uint64_t>(a + b + c + kWhich);
}
using Work = void (*)(Count*, const float*, const float*, std::int32_t, std::int32_t, std::int32_t);
constexpr std::array<Work, 8> kWorks{work<0>, work<1>, work<2>, work<3>, work<4>, work<5>, work<6>, work<7>};

constexpr int which(bool mixed, int node) { return mixed ? node % 8 : 0; }
std::uint64_t sum_of(bool mixed) {
  std::uint64_t sum = 0;
  for (int i = 0; i < kNodes; ++i) sum += static_cast<std::uint64_t>(6 + which(mixed, i));
  return sum;
}
void prove_ran(Count& count, bool mixed) {
  prove(count.runs == kNodes && count.sum == sum_of(mixed), "the nodes of a replay");
  count = {};
}

// The floor: packed arguments and a pointer, called one after the other.
struct Flat {
  struct Call {
    Work function;
    Count* count;
    const float *x, *y;
    std::int32_t a, b, c;
  };
  Count count;
  bool mixed;
  std::vector<Call> calls;

  explicit Flat(bool m) : mixed(m) {
    for (int i = 0; i < kNodes; ++i) calls.push_back({kWorks[which(mixed, i)], &count, nullptr, nullptr, 1, 2, 3});
  }
  void run() const {
    for (const Call& c : calls) c.function(c.count, c.x, c.y, c.a, c.b, c.c);
  }
};

Sample flat_here(Flat& flat) {
  const std::int64_t start = now_ns();
  flat.run();
  const double took = static_cast<double>(now_ns() - start);
  prove_ran(flat.count, flat.mixed);
  return {took / kNodes, took / kNodes};
}

Sample flat_across(Flat& flat, Partner& partner) {
  std::atomic<bool> go{false}, done{false};
  partner.start([&] {
    while (!go.load(std::memory_order_acquire)) relax();
    flat.run();
    done.store(true, std::memory_order_release);
  });
  const std::int64_t start = now_ns();
  go.store(true, std::memory_order_release);
  const std::int64_t submitted = now_ns();
  while (!done.load(std::memory_order_acquire)) relax();
  const std::int64_t end = now_ns();
  partner.join();
  prove_ran(flat.count, flat.mixed);
  return {static_cast<double>(submitted - start) / kNodes, static_cast<double>(end - start) / kNodes};
}

struct Replay {
  Count count;
  bool mixed;
  Device device;
  Stream stream;
  slipway::Module module;
  slipway::GraphDefinition definition;
  slipway::ExecutableGraph graph;

  Replay(const char* uri, bool m, int nodes = kNodes)
      : mixed(m), device(open_device(uri)), stream(device.create_stream()) {
    module = device.load_table({slipway::kernel<&work<0>>("0"), slipway::kernel<&work<1>>("1"),
                                slipway::kernel<&work<2>>("2"), slipway::kernel<&work<3>>("3"),
                                slipway::kernel<&work<4>>("4"), slipway::kernel<&work<5>>("5"),
                                slipway::kernel<&work<6>>("6"), slipway::kernel<&work<7>>("7")});
    slipway::Capture capture(stream, "bench");
    for (int i = 0; i < nodes; ++i) {
      const float* none = nullptr;
      stream.launch(module.kernel(std::to_string(which(mixed, i))), {}, &count, none, none, 1, 2, 3);
    }
    definition = capture.end();
    graph = definition.instantiate();
  }
};

Sample replay(Replay& r) {
  const std::int64_t start = now_ns();
  r.graph.launch(r.stream);
  const std::int64_t submitted = now_ns();
  r.stream.synchronize();
  const std::int64_t end = now_ns();
  prove_ran(r.count, r.mixed);
  return {static_cast<double>(submitted - start) / kNodes, static_cast<double>(end - start) / kNodes};
}

// The caller's side alone, ns per launch of the whole graph: nothing runs meanwhile.
Sample launches_held(Replay& r, int launches) {
  std::int64_t took = 0;
  {
    slipway::testing::Hold hold(r.device);
    hold.hold(r.stream);
    const std::int64_t start = now_ns();
    for (int i = 0; i < launches; ++i) r.graph.launch(r.stream);
    took = now_ns() - start;
  }
  r.stream.synchronize();
  const std::uint64_t nodes = r.definition.node_count();
  prove(r.count.runs == nodes * static_cast<std::uint64_t>(launches), "replays that were held");
  r.count = {};
  return {static_cast<double>(took) / launches, 0};
}

#if defined(SLIPWAY_BENCH_TBB)
// A chain of nodes, as the graph of a step is one.
struct Chain {
  Count count;
  oneapi::tbb::flow::graph graph;
  std::vector<std::unique_ptr<oneapi::tbb::flow::continue_node<oneapi::tbb::flow::continue_msg>>> nodes;

  Chain() {
    using namespace oneapi::tbb::flow;
    for (int i = 0; i < kNodes; ++i) {
      nodes.push_back(std::make_unique<continue_node<continue_msg>>(
          graph, [this](const continue_msg&) { work<0>(&count, nullptr, nullptr, 1, 2, 3); }));
      if (i > 0) make_edge(*nodes[static_cast<std::size_t>(i) - 1], *nodes.back());
    }
  }
};
Sample chain(Chain& c) {
  const std::int64_t start = now_ns();
  c.nodes.front()->try_put(oneapi::tbb::flow::continue_msg());
  const std::int64_t submitted = now_ns();
  c.graph.wait_for_all();
  const std::int64_t end = now_ns();
  prove_ran(c.count, false);
  return {static_cast<double>(submitted - start) / kNodes, static_cast<double>(end - start) / kNodes};
}
#endif

#if defined(SLIPWAY_BENCH_TASKFLOW)
struct Tasks {
  Count count;
  tf::Executor executor{1};
  tf::Taskflow flow;
  Tasks() {
    tf::Task last;
    for (int i = 0; i < kNodes; ++i) {
      tf::Task task = flow.emplace([this] { work<0>(&count, nullptr, nullptr, 1, 2, 3); });
      if (i > 0) last.precede(task);
      last = task;
    }
  }
};
Sample tasks(Tasks& t) {
  const std::int64_t start = now_ns();
  auto done = t.executor.run(t.flow);
  const std::int64_t submitted = now_ns();
  done.wait();
  const std::int64_t end = now_ns();
  prove_ran(t.count, false);
  return {static_cast<double>(submitted - start) / kNodes, static_cast<double>(end - start) / kNodes};
}
#endif

void add(Rows& rows, Partner& partner, Report& report) {
  for (const bool mixed : {false, true}) {
    const std::string suffix = mixed ? ", eight kernels" : "";
    auto flat = std::make_shared<Flat>(mixed);
    rows.add("in-line", "flat array of calls" + suffix, [flat] { return flat_here(*flat); });
    auto here = std::make_shared<Replay>("cpu:inline", mixed);
    rows.add("in-line", "replay" + suffix, [here] { return replay(*here); });
  }
  auto flat = std::make_shared<Flat>(false);
  rows.add("across", "flat array of calls", [flat, &partner] { return flat_across(*flat, partner); });
  auto there = std::make_shared<Replay>("cpu:workers=1", false);
  rows.add("across", "replay", [there] { return replay(*there); });
#if defined(SLIPWAY_BENCH_TBB)
  auto tbb = std::make_shared<Chain>();
  rows.add("across", "oneTBB flow graph", [tbb] { return chain(*tbb); });
#else
  report.skipped.push_back("oneTBB's flow graph: this was built without it");
#endif
#if defined(SLIPWAY_BENCH_TASKFLOW)
  auto taskflow = std::make_shared<Tasks>();
  rows.add("across", "Taskflow", [taskflow] { return tasks(*taskflow); });
#else
  report.skipped.push_back("Taskflow: its header was not found (-DSLIPWAY_TASKFLOW_INCLUDE=FOLDER)");
#endif
  add_command_buffer(rows, report, kNodes);
  for (const int nodes : {10, 1000}) {
    auto held = std::make_shared<Replay>("cpu:workers=1", false, nodes);
    rows.add("one launch of a graph, held", std::to_string(nodes) + " nodes",
             [held] { return launches_held(*held, 50); });
  }
}

void judge(const Rows& rows, Report& report) {
  const auto end = [&](const char* group, const char* name) {
    const Row* row = rows.find(group, name);
    return row ? row->end_ns() : 0.0;
  };
  const double flat = end("in-line", "flat array of calls"), here = end("in-line", "replay");
  if (flat > 0 && here > 0) {
    report.goals.push_back({"3", "replay in-line, by a flat array of calls", here / flat, 2, false, false, "x"});
  }
  const double mixed_flat = end("in-line", "flat array of calls, eight kernels");
  const double mixed = end("in-line", "replay, eight kernels");
  if (mixed > 0 && mixed_flat > 0) {
    report.goals.push_back(
        {"3", "eight kernels in-line, above a flat array of calls", mixed - mixed_flat, 5, false, false, "ns"});
  }
  const double tbb = end("across", "oneTBB flow graph"), there = end("across", "replay");
  if (tbb > 0 && there > 0) {
    report.goals.push_back(
        {"3", "replay across processors, by oneTBB's flow graph", there / tbb, 0.25, false, true, "x"});
  }
  const double taskflow = end("across", "Taskflow");
  if (taskflow > 0 && there > 0) {
    report.goals.push_back({"3", "replay across processors, by Taskflow", there / taskflow, 0.25, false, true, "x"});
  }
  const Row* few = rows.find("one launch of a graph, held", "10 nodes");
  const Row* many = rows.find("one launch of a graph, held", "1000 nodes");
  if (few && many) {
    report.goals.push_back({"3", "launching 1,000 nodes by launching 10, host side", many->host_ns() / few->host_ns(),
                            1.2, false, false, "x"});
  }
}

void measure(Report& report, const std::string&, bool quick) {
  const Replay r("cpu:inline", false);
  std::vector<double> took;
  for (int i = 0; i < (quick ? 3 : 100); ++i) {
    const std::int64_t start = now_ns();
    const slipway::ExecutableGraph graph = r.definition.instantiate();
    took.push_back(static_cast<double>(now_ns() - start));
  }
  const double bytes = static_cast<double>(r.definition.tape_bytes()) / kNodes;
  std::printf("\nbytes per node: %.0f; to instantiate 1,000 nodes: %.1f us\n", bytes, median(took) / 1000);
  report.figures.push_back({"size", "bytes per node", "bytes", bytes});
  report.figures.push_back({"instantiate", "1,000 nodes", "us", median(took) / 1000});
  measure_large_graph(report, quick);
}

}  // namespace

int main(int argc, char** argv) { return run_program({"bench/replay", 30, add, judge, measure}, argc, argv); }
