// Graphs on devices in blocking mode: each call that submits waits, steps are published first, and a step that was
// launched without values begins when they come.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

// B16: where launches block, the values come first.
TEST(BlockingGraphs, B16PublishFirstAndNeverHang) {
  for (const char* uri : {"cpu:blocking", "cpu:inline,blocking"}) {
    const Device device = Device::open(uri);
    const Stream stream = device.create_stream();
    const Module module = load(device);
    std::int32_t x = -1;
    Capture capture(stream);
    const auto p = capture.parameter<std::int32_t>("p");
    stream.launch(module.kernel("put"), {}, &x, p);
    const ExecutableGraph graph = capture.end().instantiate();
    StepValues values = graph.values();
    for (std::int32_t i = 0; i < 3; ++i) {
      values.set(p, i);
      graph.launch(stream, values);
      EXPECT_EQ(x, i);
    }
    EXPECT_EQ(graph.counters().update_first, 3u);
    EXPECT_EQ(graph.counters().replay_first, 0u);
  }
}

// A launch that waits for its work cannot submit the branches behind it.
TEST(BlockingGraphs, RunTheirBranchesOneAfterAnother) {
  for (const char* uri : {"cpu:workers=2,blocking", "cpu:inline,blocking"}) {
    const Device device = Device::open(uri);
    const Stream stream = device.create_stream(), side = device.create_stream();
    const Event fork = device.create_event(), join = device.create_event();
    const Module module = load(device);
    std::int32_t x = 0, y = 0;
    Capture capture(stream);
    const auto p = capture.parameter<std::int32_t>("p");
    stream.mark(fork);
    side.wait(fork);
    side.launch(module.kernel("put"), {}, &x, p);
    side.mark(join);
    stream.launch(module.kernel("put"), {}, &y, p);
    stream.wait(join);
    const ExecutableGraph graph = capture.end().instantiate();
    StepValues values = graph.values();
    for (std::int32_t i = 1; i <= 3; ++i) {
      values.set(p, i);
      graph.launch(stream, values);
      EXPECT_EQ(x, i);
      EXPECT_EQ(y, i);
    }
  }
}

constexpr auto kAWhile = std::chrono::milliseconds(5);

// A graph that counts, then appends its value; both can be looked at from outside, and it can be told to fail.
struct Switch {
  std::atomic<int>* begun;
  std::atomic<int>* fails;
};
void begin(Switch s) {
  ++*s.begun;
  if (s.fails->load() != 0) throw std::runtime_error("boom");
}

class Blocking : public ::testing::TestWithParam<std::string> {
 protected:
  struct Graph {
    std::atomic<int> begun{0}, fails{0};
    ScalarParameter<std::int32_t> value;
    ExecutableGraph graph;
    StepValues with(std::int32_t v) const {
      StepValues values = graph.values();
      values.set(value, v);
      return values;
    }
  };

  std::unique_ptr<Graph> make(const std::string& name, InstantiateOptions options = {}) {
    auto g = std::make_unique<Graph>();
    Capture capture(stream, name);
    g->value = capture.parameter<std::int32_t>("value", 0);
    stream.launch(module.kernel("begin"), {}, Argument::bytes_of(Switch{&g->begun, &g->fails}));
    stream.launch(module.kernel("append"), {}, list.data(), g->value);
    g->graph = capture.end().instantiate(options);
    return g;
  }
  std::vector<std::int32_t> appended() const { return {list.begin() + 1, list.begin() + 1 + list[0]}; }

  std::vector<std::int32_t> list = std::vector<std::int32_t>(100, 0);
  Device device = Device::open(GetParam());
  Stream stream = device.create_stream(), other = device.create_stream();
  Module module = device.load_table({kernel<&begin>("begin"), kernel<&append>("append"), kernel<&put>("put")});
};

using List = std::vector<std::int32_t>;

TEST_P(Blocking, StepsThatWereLaunchedOpenBeginWhenTheyArePublished) {
  const auto g = make("late");
  for (std::int32_t i = 1; i <= 3; ++i) {
    const Step step = g->graph.launch_open(stream);
    std::this_thread::sleep_for(kAWhile);
    EXPECT_EQ(g->begun, i - 1);
    EXPECT_FALSE(stream.idle());
    g->graph.publish(step, g->with(i));
    EXPECT_TRUE(g->graph.passed(step));
    EXPECT_EQ(list[0], i);
  }
  EXPECT_EQ(appended(), (List{1, 2, 3}));
  EXPECT_EQ(g->graph.counters().update_first, 3u);
  EXPECT_EQ(g->graph.counters().replay_first, 0u);
}

TEST_P(Blocking, WhatWouldWaitForOnesOwnValuesIsRefusedAndLeavesNothing) {
  const auto g = make("late"), another = make("another");
  std::int32_t x = 0;
  const Event event = device.create_event();
  const Step step = g->graph.launch_open(stream);
  const std::uint64_t submitted = stream.submitted();
  for (const auto& call :
       {std::function<void()>([&] { stream.launch(module.kernel("put"), {}, &x, 1); }),
        std::function<void()>([&] { stream.host_function([&] { x = 2; }); }),
        std::function<void()>([&] { stream.mark(event); }), std::function<void()>([&] { stream.synchronize(); }),
        std::function<void()>([&] { another->graph.launch(stream, another->with(7)); }),
        std::function<void()>([&] { g->graph.launch(stream, g->with(8)); }),
        std::function<void()>([&] { g->graph.launch(other, g->with(8)); }),  // steps of a graph run one by one
        std::function<void()>([&] { g->graph.wait(step); })}) {
    expect_error(ErrorCode::kWouldDeadlock, "step 1 of graph 'late'", call);
  }
  EXPECT_EQ(stream.submitted(), submitted);
  other.launch(module.kernel("put"), {}, &x, 3);  // another stream waits for nothing
  EXPECT_EQ(x, 3);
  another->graph.launch(other, another->with(4));
  EXPECT_EQ(appended(), List{4});
  g->graph.publish(step, g->with(5));
  g->graph.launch(stream, g->with(6));
  EXPECT_EQ(appended(), (List{4, 5, 6}));
  EXPECT_EQ(g->graph.counters().launches, 2u);
}

TEST_P(Blocking, SeveralStepsArePublishedInAnyOrder) {
  const auto a = make("a", {.depth = 4}), b = make("b");
  const Step first = a->graph.launch_open(stream), second = a->graph.launch_open(stream);
  const Step behind = b->graph.launch_open(stream);
  b->graph.publish(behind, b->with(3));  // behind steps that are open: it does not wait
  a->graph.publish(second, a->with(2));
  std::this_thread::sleep_for(kAWhile);
  EXPECT_EQ(appended(), List{});
  a->graph.publish(first, a->with(1));
  EXPECT_TRUE(a->graph.passed(first));
  stream.synchronize();
  EXPECT_EQ(appended(), (List{1, 2, 3}));
}

// Who publishes waits for what it published, whatever stands behind it.
TEST_P(Blocking, AnOpenStepBehindHoldsUpNobody) {
  const auto a = make("a"), b = make("b");
  for (int i = 0; i < 20; ++i) {
    const Step first = a->graph.launch_open(stream), second = b->graph.launch_open(stream);
    a->graph.publish(first, a->with(1));
    EXPECT_TRUE(a->graph.passed(first));
    b->graph.publish(second, b->with(2));
    EXPECT_TRUE(b->graph.passed(second));
  }
  a->fails = 1;
  const Step first = a->graph.launch_open(stream), second = b->graph.launch_open(stream);
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { a->graph.publish(first, a->with(1)); });
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { b->graph.publish(second, b->with(2)); });
}

// A step that is published and stands behind one of this thread's is not to be waited for either, nor what is behind
// it.
TEST_P(Blocking, WhatIsHeldUpHoldsUpOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const auto a = make("a", {.depth = 4}), b = make("b", {.depth = 4});
  {
    const Step first = a->graph.launch_open(stream), second = a->graph.launch_open(other);
    a->graph.publish(second, a->with(2));
    expect_error(ErrorCode::kWouldDeadlock, "step 1 of graph 'a'", [&] { other.host_function([] {}); });
    expect_error(ErrorCode::kWouldDeadlock, "step 1 of graph 'a'", [&] { other.synchronize(); });
    a->graph.publish(first, a->with(1));
    other.synchronize();
  }
  {
    const Step first = a->graph.launch_open(stream);
    const Step second = b->graph.launch_open(stream), third = b->graph.launch_open(other);
    b->graph.publish(second, b->with(4));
    b->graph.publish(third, b->with(5));
    expect_error(ErrorCode::kWouldDeadlock, "of graph 'a'", [&] { b->graph.launch(other, b->with(6)); });
    a->graph.publish(first, a->with(3));
    other.synchronize();
  }
  Step first, second;
  {
    const Stream gone = device.create_stream();
    first = a->graph.launch_open(gone);
    second = b->graph.launch_open(gone);
  }
  b->graph.publish(second, b->with(7));
  a->graph.publish(first, a->with(6));
  b->graph.wait(second);
  EXPECT_EQ(appended(), (List{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Each is told of what became of its own, whoever looks first.
TEST_P(Blocking, FailuresAreToldToWhoseTheyAre) {
  for (int i = 0; i < 10; ++i) {
    const auto g = make("shared", {.depth = 4});
    g->fails = 1;
    const Step step = g->graph.launch_open(stream, Publisher::kOtherThread);
    std::thread publisher([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      expect_error(ErrorCode::kKernelFailed, "boom", [&] { g->graph.publish(step, g->with(1)); });
    });
    expect_error(ErrorCode::kKernelFailed, "boom", [&] { g->graph.launch(stream, g->with(2)); });
    publisher.join();
    g->graph.recover();
    stream.recover();
    g->fails = 0;
    const Step good = g->graph.launch_open(stream, Publisher::kOtherThread);
    std::thread submitter([&] {
      expect_error(ErrorCode::kKernelFailed, "other",
                   [&] { stream.host_function([] { throw std::runtime_error("other"); }); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_NO_THROW(g->graph.publish(good, g->with(3)));
    submitter.join();
    stream.recover();
  }
}

// Whoever puts it on the native queue has no call that could tell him of it.
TEST_P(Blocking, WorkOfOthersIsNotWaitedFor) {
  const auto g = make("g");
  static std::atomic<int> runs;
  runs = 0;
  const Step step = g->graph.launch_open(stream);
  auto* queue = static_cast<NativeQueue*>(stream.native_handle());
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(queue->enqueue(
                queue, [](void*) { ++runs; }, nullptr, nullptr),
            0);
  stream = Stream();  // waits for nothing
  EXPECT_EQ(runs, 0) << "it lies behind the open step";
  g->graph.publish(step, g->with(1));
  device.synchronize();
  EXPECT_EQ(runs, 1);
}

TEST_P(Blocking, AnEventWhoseMarkWaitsCanBeLookedAt) {
  const auto g = make("g");
  const Event event = device.create_event(), earlier = device.create_event();
  other.mark(earlier);
  const Step step = g->graph.launch_open(stream, Publisher::kOtherThread);
  std::thread marks([&] { stream.mark(event); }), waits([&] { stream.wait(earlier); });
  std::this_thread::sleep_for(kAWhile);
  const auto begin = std::chrono::steady_clock::now();
  (void)event.query();
  EXPECT_TRUE(earlier.query());
  g->graph.publish(step, g->with(1));
  marks.join();
  waits.join();
  EXPECT_TRUE(event.query());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// A launch that waits for what another thread is to publish holds nothing that this thread needs.
TEST_P(Blocking, AnotherThreadPublishesWhatALaunchWaitsFor) {
  for (const unsigned depth :
       {4u, 2u, 1u}) {  // with one slot the launch waits for it, behind the step that the publisher launches
    const auto g = make("shared", {.depth = depth});
    const Step step = g->graph.launch_open(stream, Publisher::kOtherThread);
    std::atomic<bool> waits{false};
    std::thread publisher([&] {
      for (int i = 0; i < 5000 && !waits; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(kAWhile);
      const Step more = g->graph.launch_open(other);
      g->graph.publish(step, g->with(1));
      g->graph.publish(more, g->with(3));
    });
    waits = true;
    g->graph.launch(stream, g->with(2));
    publisher.join();
    EXPECT_EQ(appended(), depth == 1 ? (List{1, 3, 2}) : (List{1, 2, 3}));
    stream.launch(module.kernel("append"), {}, list.data(), 4);
    EXPECT_EQ(list[0], 4);
    list[0] = 0;
  }
}

TEST_P(Blocking, AFailureIsToldByTheCallThatPublishes) {
  const auto g = make("failing");
  g->fails = 1;
  const Step step = g->graph.launch_open(stream);
  EXPECT_EQ(g->begun, 0);
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { g->graph.publish(step, g->with(1)); });
  stream.synchronize();  // it was told once
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { stream.host_function([] {}); });
  g->graph.recover();
  g->fails = 0;
  g->graph.publish(g->graph.launch_open(stream), g->with(2));
  EXPECT_EQ(appended(), List{2});
}

TEST_P(Blocking, RefusedValuesLeaveTheStepOpen) {
  std::int32_t out = 0;
  Capture capture(stream, "checked");
  const auto value = capture.parameter<std::int32_t>("value", 2);
  const Operation half =
      capture.operation("half", {value}, {OutputSpec::argument(ArgKind::kI32)}, [](OperationCall& call) {
        const auto n = call.input<std::int32_t>(0);
        if (n % 2 != 0) throw std::invalid_argument("it is odd");
        call.set(0, n / 2);
      });
  stream.launch(module.kernel("append"), {}, list.data(), value);  // its value is there when the operation refuses
  stream.launch(module.kernel("put"), {}, &out, half.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  const Step step = graph.launch_open(stream);
  values.set(value, 3);
  expect_error(ErrorCode::kInvalidArgument, "it is odd", [&] { graph.publish(step, values); });
  std::this_thread::sleep_for(kAWhile);
  EXPECT_EQ(list[0], 0) << "a step runs when all of its values are there";
  expect_error(ErrorCode::kWouldDeadlock, "step 1", [&] { stream.synchronize(); });
  graph.cancel(step, "no value for it");
  graph.recover();
  values.set(value, 4);
  graph.publish(graph.launch_open(stream), values);
  EXPECT_EQ(out, 2);
  EXPECT_EQ(appended(), List{4});
}

TEST_P(Blocking, StepsThatNobodyPublishesEndAndHoldUpNobody) {
  {
    const auto g = make("dropped");
    (void)g->graph.launch_open(stream);
    g->graph = {};
    expect_error(ErrorCode::kCancelled, "dropped", [&] { stream.synchronize(); });
    stream.recover();
    EXPECT_EQ(g->begun, 0);
  }
  const auto g = make("forgotten", {.watchdog = std::chrono::milliseconds(30)});
  (void)g->graph.launch_open(stream, Publisher::kOtherThread);
  expect_error(ErrorCode::kTimeout, "gate 'values'", [&] { stream.host_function([] {}); });
  EXPECT_EQ(g->begun, 0);
  g->graph.recover();
  g->graph.launch(stream, g->with(1));
  EXPECT_EQ(appended(), List{1});
}

INSTANTIATE_TEST_SUITE_P(Devices, Blocking,
                         ::testing::Values("cpu:inline,blocking,wait_limit_ms=20000",
                                           "cpu:workers=1,blocking,wait_limit_ms=20000",
                                           "cpu:workers=2,blocking,wait_limit_ms=20000"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
