// Steps that something else than ExecutableGraph::cancel() has cancelled, and steps in front of cancelled ones.
#include <stdexcept>
#include <thread>

#include "graph_fixture.h"
#include "slipway/testing.h"

namespace slipway::graph_tests {
namespace {

struct Switches {
  std::atomic<int>* fails;
  std::atomic<int>* stays;
};
void obey(Switches s) {
  for (int i = 0; i < 5000 && s.stays->load() == 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (s.fails->load() == 1) throw std::runtime_error("boom");
}

// A graph whose first kernel fails or stays as told, and whose second one, behind the gate, appends.
struct Rig {
  explicit Rig(const InstantiateOptions& options = {}, const char* uri = "cpu:workers=2,wait_limit_ms=20000")
      : device(Device::open(uri)),
        stream(device.create_stream()),
        module(device.load_table({kernel<&obey>("obey"), kernel<&append>("append")})) {
    Capture capture(stream, "obeying");
    value = capture.parameter<std::int32_t>("value");
    stream.launch(module.kernel("obey"), {}, Argument::bytes_of(Switches{&fails, &stays}));
    stream.launch(module.kernel("append"), {}, list.data(), value);
    graph = capture.end().instantiate(options);
  }

  Device device;
  Stream stream;
  Module module;
  std::atomic<int> fails{0}, stays{0};
  std::vector<std::int32_t> list = std::vector<std::int32_t>(1000, 0);
  ScalarParameter<std::int32_t> value;
  ExecutableGraph graph;
};

TEST(CancelledSteps, ThoseThatAKernelCancelledAreOwedByNobody) {
  for (const bool publishes : {false, true}) {
    Rig r;
    r.fails = 1;
    const Step step = r.graph.launch_open(r.stream);
    // The kernel fails before or behind this call's look: it must not be refused for long.
    ErrorCode code = ErrorCode::kWouldDeadlock;
    for (int i = 0; i < 5000 && code == ErrorCode::kWouldDeadlock; ++i) {
      try {
        r.stream.synchronize();
      } catch (const Error& error) {
        code = error.code();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(code, ErrorCode::kKernelFailed);
    if (publishes) expect_error(ErrorCode::kKernelFailed, "boom", [&] { r.graph.publish(step, r.graph.values()); });
    r.graph.recover();
    r.fails = 0;
    for (int i = 0; i < 4; ++i) r.graph.launch(r.stream, r.graph.values());
    r.stream.synchronize();
    r.device.synchronize();
    EXPECT_EQ(r.list[0], 4);
  }
}

TEST(CancelledSteps, RecoveringWaitsForOnesOwnThatWereCancelled) {
  Rig r({.depth = 4});
  r.fails = 1;
  r.stays = 1;
  const Stream other = r.device.create_stream();
  std::atomic<int> no{0}, slow{1};
  r.graph.launch(r.stream, r.graph.values());
  other.launch(r.module.kernel("obey"), {}, Argument::bytes_of(Switches{&no, &slow}));
  (void)r.graph.launch_open(other);  // cancelled with the first, and not under way yet
  r.stays = 0;
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { r.stream.synchronize(); });
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    slow = 0;
  });
  r.graph.recover();
  later.join();
  r.fails = 0;
  r.graph.launch(r.stream, r.graph.values());
  r.stream.synchronize();
  EXPECT_EQ(r.list[0], 1);
}

TEST(CancelledSteps, DroppingAGraphThatRecoveredLeavesItsStepsAlone) {
  Rig r({.depth = 4});
  r.fails = 1;
  (void)r.graph.launch_open(r.stream, Publisher::kOtherThread);
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { r.stream.synchronize(); });
  r.graph.recover();
  r.fails = 0;
  r.stays = 1;
  r.graph.launch(r.stream, r.graph.values());
  r.graph = {};
  r.stays = 0;
  r.stream.synchronize();
  EXPECT_EQ(r.list[0], 1);
}

// The update of the first step is held up by that of another graph, so that its replay stands at its gate.
TEST(CancelledSteps, AnOlderOneStaysAtAGateThatIsReset) {
  const Device device = Device::open("sim:gates=resettable");
  const Stream a = device.create_stream(), b = device.create_stream();
  const Module module = load(device);
  std::vector<std::int32_t> of_a(100), of_b(100);
  const auto appending = [&](const Stream& on, const std::string& name, std::vector<std::int32_t>& list) {
    Capture capture(on, name);
    on.launch(module.kernel("append"), {}, list.data(), capture.parameter<std::int32_t>("value"));
    return capture.end();
  };
  const GraphDefinition definition = appending(a, "a", of_a);
  const ExecutableGraph one = definition.instantiate(), two = appending(b, "b", of_b).instantiate();
  const auto value = definition.parameter<std::int32_t>("value");
  testing::Hold hold(device);
  hold.hold(b);
  two.launch(b, two.values());
  StepValues values = one.values();
  values.set(value, 11);
  one.launch(a, values);
  values.set(value, 22);
  const Step second = one.launch(a, values);
  one.cancel(second, "not this one");
  EXPECT_EQ(of_a[0], 0);
  hold.release();
  expect_error(ErrorCode::kCancelled, "not this one", [&] { a.synchronize(); });
  EXPECT_EQ(of_a[0], 1);
  EXPECT_EQ(of_a[1], 11);
  one.recover();
  values.set(value, 33);
  one.launch(a, values);
  a.synchronize();
  EXPECT_EQ(of_a[0], 2);
  EXPECT_EQ(of_a[2], 33);
}

TEST(CancelledSteps, CancellingRacesWithLaunchingOpen) {
  Rig r({.depth = 8}, "cpu:workers=1,spin_us=0,wait_limit_ms=20000");
  for (int round = 0; round < 1500; ++round) {
    const Step first = r.graph.launch_open(r.stream);
    std::atomic<bool> goes{false};
    std::thread cancels([&] {
      goes = true;
      r.graph.cancel(first, "not now");
    });
    while (!goes) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) {
      try {
        (void)r.graph.launch_open(r.stream);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
      }
    }
    cancels.join();
    r.graph.recover();
    r.stream.synchronize();
  }
  EXPECT_EQ(r.list[0], 0);
}

TEST(CancelledSteps, OnlyWhatWasLaunchedCanBeCancelled) {
  Rig r;
  expect_error(ErrorCode::kInvalidArgument, "step 1 of graph 'obeying' was to be cancelled, and only 0 were launched",
               [&] { r.graph.cancel({1}, "early"); });
  expect_error(ErrorCode::kInvalidArgument, "step 0", [&] { r.graph.cancel({0}, "none"); });
  r.graph.launch(r.stream, r.graph.values());
  r.stream.synchronize();
  EXPECT_EQ(r.list[0], 1);
}

// Also where it would first wait for a slot.
TEST(CancelledSteps, ALaunchOfACancelledGraphIsRefusedAtOnce) {
  const Device device = Device::open("cpu:workers=1,wait_limit_ms=20000");
  const Stream stream = device.create_stream();
  const Module module = load(device);
  std::int32_t x = 0;
  const auto make = [&](const char* name, const InstantiateOptions& options) {
    Capture capture(stream, name);
    stream.launch(module.kernel("put"), {}, &x, capture.parameter<std::int32_t>("p", 1));
    return capture.end().instantiate(options);
  };
  const ExecutableGraph front = make("front", {});
  const ExecutableGraph graph = make("cancelled", {.depth = 1, .order = Order::kUpdateFirst});
  const Step open = front.launch_open(stream), step = graph.launch_open(stream, Publisher::kOtherThread);
  graph.cancel(step, "no");
  const auto begin = std::chrono::steady_clock::now();
  expect_error(ErrorCode::kCancelled, "until recover()", [&] { graph.launch(stream, graph.values()); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  front.publish(open, front.values());
  graph.recover();
  graph.launch(stream, graph.values());
  stream.synchronize();
  EXPECT_EQ(x, 1);
}

}  // namespace
}  // namespace slipway::graph_tests
