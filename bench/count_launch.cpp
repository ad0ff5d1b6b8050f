// Submits the same launch in every way, for callgrind to count: tests/gate/gate.py runs it and reads one dump per case.
//
// Threaded cases run on a held stream with a ring that takes everything and workers that do not spin, so that only
// the submitting thread executes instructions while they are collected. Without callgrind it only proves that all
// launches ran.
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(name) static_cast<void>(name)
#endif

#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>

#include "../tests/gate/workload.h"

namespace {

using gate::Workload;

constexpr int kLaunches = 1000;
constexpr int kWarmUp = 8;

[[gnu::noinline]] void use(std::uint64_t) { asm volatile("" ::: "memory"); }

using SixPointers = void (*)(void*, void*, void*, void*, void*, void*);
[[gnu::noinline]] void six_pointers(void*, void*, void*, void*, void*, void*) { asm volatile("" ::: "memory"); }
SixPointers volatile g_pointer = six_pointers;

// gate.py subtracts the case "empty".
template <class Launch>
[[gnu::noinline]] void count(const char* name, Launch&& launch) {
  for (int i = 0; i < kWarmUp; ++i) launch();
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (int i = 0; i < kLaunches; ++i) {
    launch();
    asm volatile("" ::: "memory");
  }
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name);
}

bool proven(const char* name, const Workload& w, std::uint64_t runs_before, std::uint64_t expected) {
  w.stream.synchronize();
  const std::uint64_t runs = gate::g_runs - runs_before;
  if (runs == expected && w.stream.submitted() == w.stream.completed()) return true;
  std::printf("%s: %llu of %llu launches ran\n", name, static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(expected));
  return false;
}

// `kernels`: does the device run them?
template <class Launch>
bool count_on(const char* name, const char* uri, bool held, bool shared, bool kernels, Launch&& launch) {
  const Workload w(uri);
  const std::uint64_t before = gate::g_runs;
  std::uint64_t expected = kLaunches + kWarmUp + 1;
  w.launch_typed();  // this thread owns the stream from here on
  if (shared) {
    std::thread([&] { w.launch_typed(); }).join();
    ++expected;
  }
  w.stream.synchronize();
  {
    slipway::testing::Hold hold(w.device);
    if (held) w.hold(hold);
    count(name, [&] { launch(w); });
  }
  return proven(name, w, before, kernels ? expected : 0);
}

// Graphs on the in-line device: the calls, and walking `nodes` nodes of which the last takes a value.
template <class Step>
bool count_graph(const char* name, int nodes, Step&& step) {
  const Workload w("cpu:inline");
  slipway::Capture capture(w.stream);
  for (int i = 1; i < nodes; ++i) w.launch_typed();
  const auto factor = capture.parameter<float>("factor");
  w.stream.launch(w.kernel, {}, w.a, w.b, w.c, 1, factor, 3);
  const slipway::ExecutableGraph graph = capture.end().instantiate();
  slipway::StepValues values = graph.values();
  const std::uint64_t before = gate::g_runs;
  float x = 0;
  count(name, [&] {
    values.set(factor, x += 1.0F);
    step(w, graph, values);
  });
  return proven(name, w, before, static_cast<std::uint64_t>(kLaunches + kWarmUp) * static_cast<std::uint64_t>(nodes));
}

}  // namespace

int main() {
  count("empty", [] {});
  count("pointer", [] {
    char c[6];
    g_pointer(c, c + 1, c + 2, c + 3, c + 4, c + 5);
  });
  alignas(64) static unsigned char slots[(kLaunches + kWarmUp) * 128];
  alignas(64) static unsigned char source[128];
  static std::uint64_t published = 0;
  count("template", [at = std::size_t{0}]() mutable {
    std::memcpy(slots + at, source, 128);
    at += 128;
    __atomic_store_n(&published, at, __ATOMIC_RELEASE);
  });
  use(published + slots[0]);

  constexpr const char* kThreaded = "cpu:spin_us=0";
  const auto typed = [](const Workload& w) { w.launch_typed(); };
  const auto site = [](const Workload& w) { w.launch_site(); };
  const auto planned = [](const Workload& w) { w.launch_planned(); };
  const auto grid = [](const Workload& w) { w.launch_grid(); };
  const auto expression = [](const Workload& w) { w.launch_expression(); };
  const auto function = [](const Workload& w) { w.launch_function(); };
  const auto general = [](const Workload& w) { w.launch_general(); };
  bool ok = count_on("typed", kThreaded, true, false, true, typed);
  ok = count_on("site", kThreaded, true, false, true, site) && ok;
  ok = count_on("typed_shared", kThreaded, true, true, true, typed) && ok;
  ok = count_on("typed_grid", kThreaded, true, false, true, grid) && ok;
  ok = count_on("grid_expression", kThreaded, true, false, true, expression) && ok;
  ok = count_on("grid_function", kThreaded, true, false, true, function) && ok;
  ok = count_on("planned", kThreaded, true, false, true, planned) && ok;
  ok = count_on("general", kThreaded, true, false, true, general) && ok;
  ok = count_on("typed_inline", "cpu:inline", false, false, true, typed) && ok;
  ok = count_on("general_inline", "cpu:inline", false, false, true, general) && ok;
  ok = count_on("typed_null", "null", false, false, false, typed) && ok;
  using slipway::ExecutableGraph, slipway::StepValues;
  const auto launch = [](const Workload& w, const ExecutableGraph& g, const StepValues& v) { g.launch(w.stream, v); };
  ok = count_graph("graph_inline", 1, launch) && ok;
  ok = count_graph("graph_1000_inline", 1000, launch) && ok;
  ok = count_graph("graph_open_inline", 1,
                   [](const Workload& w, const ExecutableGraph& g, const StepValues& v) {
                     g.publish(g.launch_open(w.stream), v);
                   }) &&
       ok;
  if (ok) std::puts("all launches ran");
  return ok ? 0 : 1;
}
