// Everything that a program does with graphs, with each call of the driver, each allocation and each kernel failing
// once. Whatever fails: the right error, nothing leaked, nothing hung, and the device works afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"
#include "support/counted_new.h"
#include "support/faulty_driver.h"

namespace slipway::graph_tests {
namespace {

using test::FaultCounter;
using test::FaultyDriver;

constexpr WaitLimit kLimit{5000};

std::atomic<std::int64_t> g_until_throw{0};  // runs of user code until one throws; 0: none does
std::atomic<std::int64_t> g_runs{0};
void may_throw() {
  g_runs.fetch_add(1);
  if (g_until_throw.load() > 0 && g_until_throw.fetch_sub(1) == 1) throw std::runtime_error("injected: user code");
}

void add(const Block& b, std::int32_t* out, const std::int32_t* in, std::int32_t c) {
  may_throw();
  out[b.index.x] = in[b.index.x] + c;
}
void put(std::int32_t* out, std::int32_t value) {
  may_throw();
  out[0] = value;
}
void put_position(std::int32_t* out, std::uint64_t seed, std::uint64_t offset) {
  may_throw();
  out[0] = static_cast<std::int32_t>(1000 * seed + offset);
}

// Where a replay and its values are submitted together: neither open steps nor Tier::kCut.
bool values_come_with_the_replay(const Device& device) { return device.impl()->driver().gates().resettable; }

// All results of a scenario, for comparison.
using Seen = std::vector<std::int32_t>;

// Allocations that this thread makes while one of these lives are counted, and the n-th fails.
class Armed {
 public:
  explicit Armed(std::uint64_t n) { test::t_allocations = {.armed = n != 0, .fired = false, .left = n, .seen = 0}; }
  ~Armed() { test::t_allocations.armed = false; }
};
// None of these fails or counts.
class Paused {
 public:
  Paused() : armed_(std::exchange(test::t_allocations.armed, false)) {}
  ~Paused() { test::t_allocations.armed = armed_; }

 private:
  bool armed_;
};

struct Parts {
  Stream stream, side;
  Event forked, joined;
  Module module;
  Kernel add, put, put_position;
  LaunchPlan plan;
  CallSite site;
  Memory a, b, small, moved;
  Generator generator;
};

void prepare(const Device& device, Parts& p) {
  p.stream = device.create_stream({.name = "main"});
  p.side = device.create_stream({.name = "side"});
  p.forked = device.create_event();
  p.joined = device.create_event({.timing = true});
  p.module = device.load_table({kernel<&add>("add"), kernel<&put>("put"), kernel<&put_position>("put_position")});
  p.add = p.module.kernel("add");
  p.put = p.module.kernel("put");
  p.put_position = p.module.kernel("put_position");
  p.plan = LaunchPlan::create(p.put, {.shape = LaunchShape{}});
  p.site = CallSite::create(p.add, {.shape = LaunchShape{.grid = {8, 1, 1}}});
  p.a = device.allocate(8000);
  p.b = device.allocate(8000);
  p.small = device.allocate(64);
  p.moved = device.allocate(64);
  p.generator = Generator(3);
}

// Outlives the scenario, so that destructors, which may need memory, run when none fails.
struct Kept {
  Parts parts;
  GraphDefinition inner, definition, asking;
  std::vector<ExecutableGraph> graphs;
  LoadedGraph loaded;
  std::string saved;
};

GraphDefinition capture(const Device& device, Kept& kept) {
  const Parts& p = kept.parts;
  GraphDefinition& inner = kept.inner;
  {
    Capture c(p.stream, "inner");
    const auto v = c.parameter<std::int32_t>("v", 5);
    p.stream.launch(p.add, {.grid = {8, 1, 1}}, p.a, p.a, v);
    inner = c.end();
  }
  kept.graphs.push_back(inner.instantiate());
  const ExecutableGraph& nested = kept.graphs.back();
  const std::vector<std::int32_t> large(2000, 3);
  Capture c(p.stream, "outer");
  const auto n = c.parameter<std::int32_t>("n", 2);
  const Operation split =
      c.operation("split", {n}, {OutputSpec::argument(ArgKind::kI32), OutputSpec::grid(), OutputSpec::scratch(64)},
                  [](OperationCall& call) {
                    const auto value = call.input<std::int32_t>(0);
                    if (value < 0) throw std::invalid_argument("negative");
                    call.set(0, value * 2);
                    call.set_grid(1, {.x = value});
                    call.set_scratch(2, 64);
                  });
  const Operation again = c.apply(split, {n});
  const Memory own = device.allocate(256);
  p.stream.copy_to_device(p.a.address(), large.data(), 8000);
  p.stream.mark(p.forked);
  p.side.wait(p.forked);
  p.side.fill(p.b.address(), 0, 4, 2000);
  p.side.launch(p.add, {.grid_from = split.grid(1)}, p.b, p.a, split.output<std::int32_t>(0));
  p.stream.launch(p.add, {.grid_from = again.grid(1)}, split.output_ref(2), p.a, again.output<std::int32_t>(0));
  p.side.mark(p.joined);
  p.stream.wait(p.joined);
  p.plan.launch(p.stream, own, 1);
  p.site.launch(p.stream, p.b.tensor<std::int32_t>(100), p.a, 7);
  nested.launch(p.stream, nested.values());
  c.external(p.stream, "external", {n}, [](ExternalCall& call) {
    may_throw();
    (void)call.input<std::int32_t>(0);
  });
  p.stream.host_function([] { may_throw(); }, "host");
  c.opaque(p.stream, "fault sweep", 5);
  c.if_node(p.stream, p.b.tensor<std::int32_t>(100),
            [&](const Stream& body) { body.launch(p.put, {}, p.b.tensor<std::int32_t>(208), n); });
  const RandomDraw draw = p.generator.take(p.stream, 1);
  p.stream.launch(p.put_position, {}, p.b.tensor<std::int32_t>(209), draw.seed, draw.offset);
  p.stream.copy(p.b.tensor<std::int32_t>(200).address, p.a.address(), 32);
  return c.end();
}

void read(const Parts& p, Seen& seen) {
  Seen values(210);
  p.stream.copy_to_host(values.data(), p.b.address(), values.size() * 4);
  p.stream.synchronize(kLimit);
  for (const std::size_t at : {0U, 1U, 2U, 3U, 4U, 100U, 107U, 200U, 207U, 208U, 209U}) seen.push_back(values[at]);
}

// What asks: n turns of a loop, each of which adds n; then one of two bodies.
GraphDefinition capture_asking(const Parts& p) {
  const auto at = [&](std::uint64_t element) { return p.small.tensor<std::int32_t>(element); };
  Capture c(p.stream, "asking");
  const auto n = c.parameter<std::int32_t>("n", 2);
  const Operation twice = c.operation("twice", {n}, {OutputSpec::argument(ArgKind::kI32)},
                                      [](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) * 2); });
  p.stream.fill(p.small.address(), 0, 4, 16);
  p.stream.launch(p.put, {}, at(0), n);
  c.while_node(p.stream, at(0), [&](const Stream& body) {
    body.launch(p.add, {.grid = {1, 1, 1}}, at(1), at(1), n);
    body.launch(p.add, {.grid = {1, 1, 1}}, at(0), at(0), -1);
  });
  c.if_else_node(
      p.stream, at(1), [&](const Stream& body) { body.launch(p.put, {}, at(2), twice.output<std::int32_t>(0)); },
      [&](const Stream& body) { body.launch(p.put, {}, at(2), -1); });
  return c.end();
}

void read_small(const Parts& p, const Memory& from, Seen& seen) {
  Seen values(3);
  p.stream.copy_to_host(values.data(), from.address(), values.size() * 4);
  p.stream.synchronize(kLimit);
  seen.insert(seen.end(), values.begin(), values.end());
}

// Checked, moved, saved and read back.
void ask(const Device& device, Kept& kept, Seen& seen) {
  const Parts& p = kept.parts;
  kept.asking = capture_asking(p);
  const auto n = kept.asking.parameter<std::int32_t>("n");
  kept.graphs.push_back(kept.asking.instantiate());
  const ExecutableGraph& graph = kept.graphs.back();
  StepValues values = graph.values();
  values.set(n, 3);
  graph.launch(p.stream, values);
  read_small(p, p.small, seen);
  const SelfCheckResult checked = self_check(graph, p.stream, values, {.limit = kLimit});
  EXPECT_TRUE(checked.equal) << checked.difference;
  graph.rebind(p.small, p.moved, kLimit);
  values.set(n, 0);
  graph.launch(p.stream, values);
  read_small(p, p.moved, seen);
  read_small(p, p.small, seen);
  kept.saved = save_graph(kept.asking, p.stream);
  {
    // It drops kernels itself: what cannot be kept until work has passed is lost, for want of memory, and not counted.
    const Paused paused;
    kept.loaded = load_graph(device, kept.saved, {.modules = {p.module}, .stand_ins = true});
  }
  kept.graphs.push_back(kept.loaded.definition.instantiate());
  const ExecutableGraph& again = kept.graphs.back();
  StepValues other = again.values();
  other.set(kept.loaded.definition.parameter<std::int32_t>("n"), 1);
  again.launch(p.stream, other);
  read_small(p, kept.loaded.memory.at(0), seen);  // its operation stands still
}

void cancel_one(const ExecutableGraph& graph, const Parts& p) {
  const Step dropped = graph.launch_open(p.stream);
  graph.cancel(dropped, "not wanted");
  try {
    p.stream.synchronize(kLimit);
    ADD_FAILURE() << "a cancelled step went unnoticed";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
  }
  graph.recover();
}

Seen scenario(const Device& device, std::uint64_t failing_allocation = 0) {
  Kept kept;
  kept.graphs.reserve(8);
  const Armed armed(failing_allocation);
  Seen seen;
  prepare(device, kept.parts);
  const Parts& p = kept.parts;
  p.plan.launch(p.stream, p.a, 4);
  p.site.launch(p.stream, p.b, p.a, 1);
  kept.definition = capture(device, kept);
  const GraphDefinition& definition = kept.definition;
  (void)definition.dump();
  const auto n = definition.parameter<std::int32_t>("n");
  const bool together = values_come_with_the_replay(device);
  const InstantiateOptions other = together ? InstantiateOptions{.serial = true}
                                            : InstantiateOptions{.depth = 3, .tier = Tier::kCut, .serial = true};
  for (const InstantiateOptions& options : {InstantiateOptions{}, other}) {
    kept.graphs.push_back(definition.instantiate(options));
    const ExecutableGraph& graph = kept.graphs.back();
    StepValues values = graph.values();
    values.set(n, 3);
    graph.launch(p.stream, values);
    read(p, seen);
    values.set(n, 4);
    if (together) {
      graph.wait(graph.launch(p.stream, values), kLimit);
    } else {
      const Step open = graph.launch_open(p.stream);
      graph.publish(open, values);
      graph.wait(open, kLimit);
    }
    read(p, seen);
    if (!together) cancel_one(graph, p);
    values.set(n, 1);
    graph.launch(p.stream, values);
    read(p, seen);
  }
  ask(device, kept, seen);
  if (!together) (void)kept.graphs[2].launch_open(p.stream);  // dropped while it waits
  return seen;
}

Seen wanted_of(const Device& device) {
  const bool together = values_come_with_the_replay(device);
  Seen wanted;
  std::int32_t position = 3000;
  for (int round = 0; round < 2; ++round) {
    for (const std::int32_t n : {3, 4, 1}) {
      for (std::int32_t i = 0; i < 5; ++i) wanted.push_back(i < n ? 3 + 2 * n : 0);
      for (const std::int32_t v : {10, 10, 8, 8, n, position}) wanted.push_back(v);
      position += n == 4 && !together ? 2 : 1;  // the step that is cancelled has taken one
    }
  }
  for (const std::int32_t v : {0, 9, 6}) wanted.push_back(v);   // n = 3
  for (const std::int32_t v : {0, 0, -1}) wanted.push_back(v);  // 0, elsewhere
  for (const std::int32_t v : {0, 9, 6}) wanted.push_back(v);   // and untouched here
  for (const std::int32_t v : {0, 1, 4}) wanted.push_back(v);   // 1, with what the operation gave when it was saved
  return wanted;
}

struct Limits {
  std::uint64_t live, staged, modules;
};
Limits limits_of(const Device& device) {
  const Counters c = device.counters();
  return {c.live_memory_bytes, c.staged_bytes, c.modules_loaded - c.modules_unloaded};
}

// The device after a failure: everything that the scenario had is gone, and it runs again as if nothing had been.
void expect_sound(const Device& device, const std::string& what) {
  for (int i = 0; i < 2; ++i) {
    try {
      device.synchronize(kLimit);
      break;
    } catch (const Error& error) {
      ASSERT_NE(error.code(), ErrorCode::kTimeout) << what << ": " << error.what();
    }
  }
  // A thread that watches over open steps lets go a moment after its graph was dropped.
  Limits after = limits_of(device);
  for (int i = 0; i < 5000 && after.live + after.staged + after.modules != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    after = limits_of(device);
  }
  EXPECT_EQ(after.live, 0U) << what << ": memory was leaked";
  EXPECT_EQ(after.staged, 0U) << what << ": a staging block was leaked";
  EXPECT_EQ(after.modules, 0U) << what << ": a module was leaked";
  ASSERT_EQ(scenario(device), wanted_of(device)) << what << ": and then again";
}

// Whatever the scenario throws, as code and sentence; empty when it ended.
std::string outcome_of(const Device& device, const std::string& what, ErrorCode allowed) {
  try {
    const Seen seen = scenario(device);
    EXPECT_EQ(seen, wanted_of(device)) << what;
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), allowed) << what << ": " << error.what();
    return error.what();
  }
}

class FaultSweep : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      register_opaque("fault sweep", [](const OpaqueCall&) { may_throw(); });
      return true;
    }();
    (void)once;
  }
  void TearDown() override { g_until_throw = 0; }
  // Where threads hand over to each other, one in so many; SLIPWAY_SWEEP_ALL takes all.
  static unsigned stride() {
    const std::string uri = GetParam();
    const bool alone = uri.find("inline") != std::string::npos || uri.find("sim:") == 0;
    return alone || std::getenv("SLIPWAY_SWEEP_ALL") ? 1 : 17;
  }
};

TEST_P(FaultSweep, EachCallOfTheDriverFailsOnce) {
  FaultCounter faults;
  int unnoticed = 0;
  for (std::uint64_t n = 1;; ++n) {
    const Device device = FaultyDriver::open(GetParam(), faults);
    const std::string what = "call " + std::to_string(n) + " of the driver";
    faults.arm(n);
    const std::string failure = outcome_of(device, what, ErrorCode::kOutOfMemory);
    const bool fired = faults.fired();
    faults.disarm();
    if (!fired) {
      EXPECT_GE(n, 20U);
      EXPECT_LE(unnoticed, 1);
      break;
    }
    // A call site that cannot make its plan has another way.
    if (failure.empty()) ++unnoticed;
    else EXPECT_NE(failure.find("injected"), std::string::npos) << what << ": " << failure;
    expect_sound(device, what);
    if (HasFatalFailure()) return;
    device.close(kLimit);
  }
}

TEST_P(FaultSweep, EachRunOfUserCodeThrowsOnce) {
  const Device device = Device::open(GetParam());
  for (std::int64_t n = 1;; n += stride()) {
    const std::string what = "run " + std::to_string(n) + " of user code";
    g_until_throw = n;
    const std::string failure = outcome_of(device, what, ErrorCode::kKernelFailed);
    if (g_until_throw.load() > 0) {
      g_until_throw = 0;
      EXPECT_GT(n, 20);
      break;
    }
    EXPECT_NE(failure.find("injected"), std::string::npos) << what << " went unnoticed: " << failure;
    expect_sound(device, what);
    if (HasFatalFailure()) return;
  }
}

// Only what callers allocate: without memory for a wait or the text of a failure, what executes records has no way on,
// and in-line that is the caller itself.
class AllocationSweep : public FaultSweep {};
TEST_P(AllocationSweep, EachAllocationFailsOnce) {
  const test::AllocationFaults& faults = test::t_allocations;
  for (std::uint64_t n = 1;; ++n) {  // opening a device
    try {
      const Armed armed(n);
      const Device opened = Device::open(GetParam());
      test::t_allocations.armed = false;  // before it is closed
    } catch (const std::bad_alloc&) {
    }
    if (!faults.fired) break;
  }
  const Device device = Device::open(GetParam());
  for (std::uint64_t n = 1;; n += stride()) {
    std::string failure;
    try {
      (void)scenario(device, n);
    } catch (const Error& error) {
      failure = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << "allocation " << n << ": " << failure;
    } catch (const std::bad_alloc&) {
      failure = "bad_alloc";
    }
    if (!faults.fired) {
      EXPECT_GT(n, 100U);
      break;
    }
    expect_sound(device, "allocation " + std::to_string(n) + " (" + failure + ")");
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FaultSweep,
                         ::testing::Values("cpu:inline,wait_limit_ms=5000",
                                           "cpu:workers=2,spin_us=20,wait_limit_ms=5000",
                                           "sim:gates=resettable,wait_limit_ms=5000"),
                         [](const auto& param) { return std::to_string(param.index); });
INSTANTIATE_TEST_SUITE_P(Devices, AllocationSweep, ::testing::Values("cpu:workers=2,spin_us=20,wait_limit_ms=5000"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
