// Everything that a program does with graphs, with each call of the driver, each allocation and each kernel failing
// once. Whatever fails: the right error, nothing leaked, nothing hung, and the device works afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
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

// All results of a scenario, for comparison.
using Seen = std::vector<std::int32_t>;

// Allocations that this thread makes while one of these lives are counted, and the n-th fails.
class Armed {
 public:
  explicit Armed(std::uint64_t n) { test::t_allocations = {.armed = n != 0, .fired = false, .left = n, .seen = 0}; }
  ~Armed() { test::t_allocations.armed = false; }
};

struct Parts {
  Stream stream, side;
  Event forked, joined;
  Module module;
  Kernel add, put;
  LaunchPlan plan;
  CallSite site;
  Memory a, b;
};

void prepare(const Device& device, Parts& p) {
  p.stream = device.create_stream({.name = "main"});
  p.side = device.create_stream({.name = "side"});
  p.forked = device.create_event();
  p.joined = device.create_event({.timing = true});
  p.module = device.load_table({kernel<&add>("add"), kernel<&put>("put")});
  p.add = p.module.kernel("add");
  p.put = p.module.kernel("put");
  p.plan = LaunchPlan::create(p.put, {.shape = LaunchShape{}});
  p.site = CallSite::create(p.add, {.shape = LaunchShape{.grid = {8, 1, 1}}});
  p.a = device.allocate(8000);
  p.b = device.allocate(8000);
}

// Outlives the scenario, so that destructors, which may need memory, run when none fails.
struct Kept {
  Parts parts;
  GraphDefinition inner, definition;
  std::vector<ExecutableGraph> graphs;
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
  p.stream.copy(p.b.tensor<std::int32_t>(200).address, p.a.address(), 32);
  return c.end();
}

void read(const Parts& p, Seen& seen) {
  Seen values(210);
  p.stream.copy_to_host(values.data(), p.b.address(), values.size() * 4);
  p.stream.synchronize(kLimit);
  for (const std::size_t at : {0U, 1U, 2U, 3U, 4U, 100U, 107U, 200U, 207U, 208U}) seen.push_back(values[at]);
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
  for (const InstantiateOptions& options :
       {InstantiateOptions{}, InstantiateOptions{.depth = 3, .tier = Tier::kCut, .serial = true}}) {
    kept.graphs.push_back(definition.instantiate(options));
    const ExecutableGraph& graph = kept.graphs.back();
    StepValues values = graph.values();
    values.set(n, 3);
    graph.launch(p.stream, values);
    read(p, seen);
    const Step open = graph.launch_open(p.stream);
    values.set(n, 4);
    graph.publish(open, values);
    graph.wait(open, kLimit);
    read(p, seen);
    const Step dropped = graph.launch_open(p.stream);
    graph.cancel(dropped, "not wanted");
    try {
      p.stream.synchronize(kLimit);
      ADD_FAILURE() << "a cancelled step went unnoticed";
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
    }
    graph.recover();
    values.set(n, 1);
    graph.launch(p.stream, values);
    read(p, seen);
  }
  (void)kept.graphs.back().launch_open(p.stream);  // dropped while it waits
  return seen;
}

const Seen kWanted = [] {
  Seen wanted;
  for (int round = 0; round < 2; ++round) {
    for (const std::int32_t n : {3, 4, 1}) {
      for (std::int32_t i = 0; i < 5; ++i) wanted.push_back(i < n ? 3 + 2 * n : 0);
      for (const std::int32_t v : {10, 10, 8, 8, 0}) wanted.push_back(v);
    }
  }
  return wanted;
}();

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
  ASSERT_EQ(scenario(device), kWanted) << what << ": and then again";
}

// Whatever the scenario throws, as code and sentence; empty when it ended.
std::string outcome_of(const Device& device, const std::string& what, ErrorCode allowed) {
  try {
    const Seen seen = scenario(device);
    EXPECT_EQ(seen, kWanted) << what;
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), allowed) << what << ": " << error.what();
    return error.what();
  }
}

class FaultSweep : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { g_until_throw = 0; }
  // Where threads hand over to each other, one in so many; SLIPWAY_SWEEP_ALL takes all.
  static unsigned stride() {
    return std::string(GetParam()).find("inline") != std::string::npos || std::getenv("SLIPWAY_SWEEP_ALL") ? 1 : 17;
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
                                           "cpu:workers=2,spin_us=20,wait_limit_ms=5000"),
                         [](const auto& param) { return std::to_string(param.index); });
INSTANTIATE_TEST_SUITE_P(Devices, AllocationSweep, ::testing::Values("cpu:workers=2,spin_us=20,wait_limit_ms=5000"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
