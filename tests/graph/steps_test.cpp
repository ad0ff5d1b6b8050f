#include <future>
#include <random>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Steps : public GraphOn {
 protected:
  // A graph that raises a flag before its gate and appends the step's value behind it.
  struct Appending {
    std::vector<std::int32_t> list;
    std::atomic<int> flag{0};
    ScalarParameter<std::int32_t> value;
    ExecutableGraph graph;
  };
  void make(Appending& a, const InstantiateOptions& options = {}, std::size_t room = 20000) {
    a.list.assign(room, 0);
    Capture capture(stream, "appending");
    a.value = capture.parameter<std::int32_t>("value");
    stream.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&a.flag}));
    stream.launch(module.kernel("append"), {}, a.list.data(), a.value);
    a.graph = capture.end().instantiate(options);
  }
};

// The heart of it: what lies before the gate runs while the values are not there yet.
TEST_P(Steps, ThePrefixRunsBeforeTheValuesArePublished) {
  Appending a;
  make(a);
  StepValues values = a.graph.values();
  for (std::int32_t i = 1; i <= 20; ++i) {
    a.flag.store(0);
    const Step step = a.graph.launch_open(stream);
    ASSERT_TRUE(becomes(a.flag, 1));  // seen by the publisher, who has published nothing
    EXPECT_EQ(a.list[0], i - 1);
    values.set(a.value, i);
    a.graph.publish(step, values);
    a.graph.wait(step);
    ASSERT_EQ(a.list[0], i);
    ASSERT_EQ(a.list[static_cast<std::size_t>(i)], i);
  }
}

TEST_P(Steps, EachStepSeesItsOwnValueWhateverTheOrderOfPublishing) {
  Appending a;
  make(a, {.depth = 4});
  StepValues values = a.graph.values();
  std::vector<Step> steps;
  for (int i = 0; i < 4; ++i) steps.push_back(a.graph.launch_open(stream));
  for (const int i : {2, 0, 3, 1}) {
    values.set(a.value, 100 + i);
    a.graph.publish(steps[static_cast<std::size_t>(i)], values);
  }
  stream.synchronize();
  EXPECT_EQ(a.list[0], 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a.list[static_cast<std::size_t>(i) + 1], 100 + i);
}

TEST_P(Steps, TenThousandStepsPublishedByAnotherThreadAtRandomTimes) {
  Appending a;
  constexpr std::int32_t kSteps = 10000;
  make(a, {.depth = 3});
  std::vector<Step> steps(kSteps);
  std::atomic<int> launched{0};
  std::thread publisher([&] {
    std::mt19937 random(7);
    StepValues values = a.graph.values();
    for (std::int32_t i = 0; i < kSteps; ++i) {
      while (launched.load() <= i) std::this_thread::yield();
      if (random() % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      values.set(a.value, i);
      a.graph.publish(steps[static_cast<std::size_t>(i)], values);
    }
  });
  for (std::int32_t i = 0; i < kSteps; ++i) {
    steps[static_cast<std::size_t>(i)] = a.graph.launch_open(stream, Publisher::kOtherThread);
    launched.store(i + 1);
  }
  publisher.join();
  stream.synchronize();
  ASSERT_EQ(a.list[0], kSteps);
  for (std::int32_t i = 0; i < kSteps; ++i) ASSERT_EQ(a.list[static_cast<std::size_t>(i) + 1], i);
}

TEST_P(Steps, AtomicLaunchesReplayFirstAndValuesStick) {
  Appending a;
  make(a);
  StepValues values = a.graph.values();
  for (std::int32_t i = 1; i <= 1000; ++i) {
    if (i % 2 == 1) values.set(a.value, i);  // even steps keep the value before
    a.graph.launch(stream, values);
  }
  stream.synchronize();
  ASSERT_EQ(a.list[0], 1000);
  for (std::int32_t i = 1; i <= 1000; ++i) ASSERT_EQ(a.list[static_cast<std::size_t>(i)], i % 2 == 1 ? i : i - 1);
  EXPECT_EQ(a.graph.counters().replay_first, 1000u);
  EXPECT_EQ(a.graph.counters().published, 1000u);
}

TEST_P(Steps, TheUpdaterThreadPublishes) {
  Appending a;
  make(a, {.depth = 2, .updater = true});
  StepValues values = a.graph.values();
  Step last;
  for (std::int32_t i = 1; i <= 300; ++i) {
    values.set(a.value, i);
    last = a.graph.launch(stream, values);
  }
  a.graph.wait(last);
  ASSERT_EQ(a.list[0], 300);
  for (std::int32_t i = 1; i <= 300; ++i) ASSERT_EQ(a.list[static_cast<std::size_t>(i)], i);
}

TEST_P(Steps, StepsOnSeveralStreamsRunOneAfterAnother) {
  Appending a;
  make(a, {.depth = 2});
  const std::vector<Stream> streams{stream, device.create_stream(), device.create_stream()};
  StepValues values = a.graph.values();
  Step last;
  for (std::int32_t i = 1; i <= 600; ++i) {
    values.set(a.value, i);
    last = a.graph.launch(streams[static_cast<std::size_t>(i) % 3], values);
  }
  a.graph.wait(last);
  ASSERT_EQ(a.list[0], 600);
  for (std::int32_t i = 1; i <= 600; ++i) ASSERT_EQ(a.list[static_cast<std::size_t>(i)], i);
}

TEST_P(Steps, OperationsComputeGridsAndArgumentsOncePerStep) {
  std::int32_t counter = 0, seen = 0, calls = 0;
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 1);
  const Operation split = capture.operation("split", {n}, {OutputSpec::grid(), OutputSpec::argument(ArgKind::kI32)},
                                            [&calls](OperationCall& call) {
                                              ++calls;
                                              const auto value = call.input<std::int32_t>(0);
                                              if (value < 0) throw std::invalid_argument("negative");
                                              call.set_grid(0, {.x = value});
                                              call.set(1, value * 10);
                                            });
  stream.launch(module.kernel("count"), {.grid_from = split.grid(0)}, &counter);
  stream.launch(module.kernel("put"), {}, &seen, split.output<std::int32_t>(1));
  stream.launch(module.kernel("count"), {.grid_from = split.grid(0)}, &counter);
  const ExecutableGraph graph = capture.end().instantiate();
  calls = 0;
  StepValues values = graph.values();
  // B07: to zero blocks and back.
  std::int32_t expected = 0;
  for (const std::int32_t value : {3, 0, 5}) {
    values.set(n, value);
    graph.launch(stream, values);
    stream.synchronize();
    expected += 2 * value;
    EXPECT_EQ(counter, expected);
    EXPECT_EQ(seen, value * 10);
  }
  EXPECT_EQ(calls, 3);
  // Values that the operation refuses leave the step open; it is cancelled, and the graph works again.
  values.set(n, -1);
  try {
    graph.launch(stream, values);
    ADD_FAILURE() << "a negative value was taken";
  } catch (const Error& error) {
    EXPECT_TRUE(error.submitted());
    EXPECT_NE(std::string(error.what()).find("split"), std::string::npos) << error.what();
    graph.cancel({error.sequence()}, "no such length");
  }
  expect_error(ErrorCode::kCancelled, "no such length", [&] { stream.synchronize(); });
  graph.recover();
  values.set(n, 2);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(seen, 20);
}

TEST_P(Steps, CancelledStepsSkipTheRestAndThoseBehindThem) {
  Appending a;
  make(a);
  const Step first = a.graph.launch_open(stream), second = a.graph.launch_open(stream);
  a.graph.cancel(first, "changed my mind");
  expect_error(ErrorCode::kCancelled, "changed my mind", [&] { stream.synchronize(); });
  StepValues values = a.graph.values();
  expect_error(ErrorCode::kCancelled, "changed my mind", [&] { a.graph.publish(second, values); });
  expect_error(ErrorCode::kCancelled, "recover", [&] { a.graph.launch(stream, values); });
  EXPECT_EQ(a.list[0], 0);
  a.graph.recover();
  values.set(a.value, 5);
  a.graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(a.list[0], 1);
  EXPECT_EQ(a.list[1], 5);
}

TEST_P(Steps, CancellingAStepLeavesThoseInFrontOfItAlone) {
  Appending a;
  make(a, {.depth = 4});
  const Step first = a.graph.launch_open(stream), second = a.graph.launch_open(stream);
  a.graph.cancel(second, "not this one");
  expect_error(ErrorCode::kWouldDeadlock, "recovering a graph", [&] { a.graph.recover(); });
  EXPECT_EQ(a.list[0], 0);
  StepValues values = a.graph.values();
  values.set(a.value, 7);
  a.graph.publish(first, values);
  a.graph.wait(first);
  EXPECT_EQ(a.list[0], 1);
  EXPECT_EQ(a.list[1], 7);
  expect_error(ErrorCode::kCancelled, "not this one", [&] { stream.synchronize(); });
  a.graph.recover();
}

TEST_P(Steps, TheWatchdogNamesTheGateThatNobodyOpened) {
  Appending a;
  make(a, {.watchdog = std::chrono::milliseconds(50)});
  (void)a.graph.launch_open(stream, Publisher::kOtherThread);
  const auto begin = std::chrono::steady_clock::now();
  expect_error(ErrorCode::kTimeout, "gate 'values'", [&] { stream.synchronize(std::chrono::milliseconds(30000)); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  a.graph.recover();
  a.graph.launch(stream, a.graph.values());
  stream.synchronize();
  EXPECT_EQ(a.list[0], 1);
}

// It has come to rest meanwhile, and is woken by the next step that is launched open.
TEST_P(Steps, TheWatchdogLooksAgainWhenItHasRested) {
  Appending a;
  make(a, {.watchdog = std::chrono::milliseconds(40)});
  for (int i = 0; i < 3; ++i) {
    a.graph.publish(a.graph.launch_open(stream), a.graph.values());
    stream.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it looks every five
  }
  (void)a.graph.launch_open(stream, Publisher::kOtherThread);
  const auto begin = std::chrono::steady_clock::now();
  expect_error(ErrorCode::kTimeout, "gate 'values'", [&] { stream.synchronize(std::chrono::milliseconds(30000)); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  a.graph.recover();
}

// Steps that are published in time, one behind the other, are not late because there is always one open.
TEST_P(Steps, TheWatchdogMeasuresEachStep) {
  Appending a;
  make(a, {.watchdog = std::chrono::milliseconds(1000)});
  const auto begin = std::chrono::steady_clock::now();
  Step open = a.graph.launch_open(stream);
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1600)) {
    a.graph.publish(open, a.graph.values());
    open = a.graph.launch_open(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  a.graph.publish(open, a.graph.values());
  stream.synchronize();
  EXPECT_EQ(a.graph.counters().cancelled, 0u);
}

// Each counts from its own launch, not from when those in front of it were published.
TEST_P(Steps, TheWatchdogGivesNoMoreTimeBehindAnother) {
  constexpr std::chrono::milliseconds kLimit(1200);
  Appending a;
  make(a, {.watchdog = kLimit});
  const Step first = a.graph.launch_open(stream, Publisher::kOtherThread);
  const auto begin = std::chrono::steady_clock::now();
  (void)a.graph.launch_open(stream, Publisher::kOtherThread);
  std::this_thread::sleep_for(kLimit * 8 / 10);
  a.graph.publish(first, a.graph.values());
  while (a.graph.counters().cancelled == 0 && std::chrono::steady_clock::now() - begin < 10 * kLimit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, kLimit);
  EXPECT_LT(took, kLimit * 175 / 100);
  EXPECT_THROW(stream.synchronize(), Error);
  a.graph.recover();
}

TEST_P(Steps, PublishedStepsAreCountedWhicheverWayTheyWere) {
  Appending before, behind;
  make(before, {.order = Order::kUpdateFirst});
  make(behind);
  for (Appending* a : {&before, &behind}) {
    a->graph.launch(stream, a->graph.values());
    a->graph.publish(a->graph.launch_open(stream), a->graph.values());
    a->graph.launch(stream, a->graph.values());
  }
  stream.synchronize();
  EXPECT_EQ(before.graph.counters().published, 3u);
  EXPECT_EQ(before.graph.counters().update_first, 2u);
  EXPECT_EQ(behind.graph.counters().published, 3u);
  EXPECT_EQ(behind.graph.counters().replay_first, 3u);
}

TEST_P(Steps, AWaitThatEndsTellsWhatHoldsTheStep) {
  std::int32_t x = 0;
  Capture capture(stream, "held");
  const auto value = capture.parameter<std::int32_t>("value", 1);
  const Operation checked =
      capture.operation("checked", {value}, {OutputSpec::argument(ArgKind::kI32)}, [](OperationCall& call) {
        if (call.input<std::int32_t>(0) < 0) throw std::invalid_argument("no");
        call.set(0, call.input<std::int32_t>(0));
      });
  stream.launch(module.kernel("put"), {}, &x, checked.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  const Step step = graph.launch_open(stream, Publisher::kOtherThread);
  constexpr WaitLimit kShort(20);
  expect_error(ErrorCode::kTimeout, "its gate 'values' is closed", [&] { graph.wait(step, kShort); });
  StepValues values = graph.values();
  values.set(value, -1);
  expect_error(ErrorCode::kInvalidArgument, "no", [&] { graph.publish(step, values); });
  expect_error(ErrorCode::kTimeout, "its gate 'checked' is closed", [&] { graph.wait(step, kShort); });
  graph.cancel(step, "not wanted");
  graph.recover();
  testing::Hold hold(device);
  hold.hold(stream);
  const Step held = graph.launch(stream, graph.values());
  expect_error(ErrorCode::kTimeout, "all of its values are there", [&] { graph.wait(held, kShort); });
  hold.release();
  graph.wait(held);
  EXPECT_EQ(x, 1);
}

TEST_P(Steps, WaitingForOnesOwnUpdateIsRefused) {
  Appending a;
  make(a);
  const Step step = a.graph.launch_open(stream);
  expect_error(ErrorCode::kWouldDeadlock, "step 1 of graph 'appending'", [&] { stream.synchronize(); });
  expect_error(ErrorCode::kWouldDeadlock, "step 1", [&] { device.synchronize(); });
  expect_error(ErrorCode::kWouldDeadlock, "step 1", [&] { a.graph.wait(step); });
  (void)a.graph.launch_open(stream);
  expect_error(ErrorCode::kWouldDeadlock, "launching another step", [&] { a.graph.launch(stream, a.graph.values()); });
  for (const std::uint64_t s : {1, 2}) a.graph.publish({s}, a.graph.values());
  stream.synchronize();
  EXPECT_EQ(a.list[0], 2);
}

// A step that has its values waits like one that has not, where it stands behind one.
TEST_P(Steps, WaitingForWhatStandsBehindOnesOwnUpdateIsRefused) {
  Appending a, b;
  make(a);
  make(b);
  for (int i = 0; i < 3; ++i) a.graph.launch(stream, a.graph.values());
  const Step open = a.graph.launch_open(stream);
  Step last;
  for (int i = 0; i < 2; ++i) last = b.graph.launch(stream, b.graph.values());
  expect_error(ErrorCode::kWouldDeadlock, "step 4 of graph 'appending'", [&] { b.graph.wait(last); });
  // Its slot is that of a step which stands there.
  expect_error(ErrorCode::kWouldDeadlock, "step 4 of graph 'appending'",
               [&] { b.graph.launch(stream, b.graph.values()); });
  EXPECT_EQ(b.graph.counters().launches, 2U) << "nothing was submitted";
  const Step later = b.graph.launch_open(stream);  // needs it when it is published
  expect_error(ErrorCode::kWouldDeadlock, "step 4 of graph 'appending'",
               [&] { b.graph.publish(later, b.graph.values()); });
  a.graph.publish(open, a.graph.values());
  b.graph.publish(later, b.graph.values());
  b.graph.wait(later);
  b.graph.launch(stream, b.graph.values());
  stream.synchronize();
  EXPECT_EQ(b.list[0], 4);
}

// However many stand there, each is launched as quickly as the first.
TEST_P(Steps, ManyStepsMayStandBehindAnOpenOne) {
  Appending a;
  make(a);
  std::int32_t x = 0;
  Capture capture(stream, "without values");
  stream.launch(module.kernel("put"), {}, &x, 1);
  const ExecutableGraph graph = capture.end().instantiate();
  const auto launch_many = [&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 6400; ++i) graph.launch(stream);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double behind_open = 1e9, behind_hold = 1e9;  // the least of some, as machines are noisy
  for (int round = 0; round < 4; ++round) {
    const Step open = a.graph.launch_open(stream);
    behind_open = std::min(behind_open, launch_many());
    a.graph.publish(open, a.graph.values());
    stream.synchronize();
    testing::Hold hold(device);
    hold.hold(stream);
    behind_hold = std::min(behind_hold, launch_many());
    hold.release();
    stream.synchronize();
  }
  EXPECT_LT(behind_open, 30 * behind_hold);  // 1 ms each; 200 ms where every one is entered among those that wait
}

// One whose values were refused is owed by who launched it, and once it is published by nobody.
TEST_P(Steps, AStepThatStandsBehindAnotherMayBeRefused) {
  Appending a;
  make(a);
  std::int32_t x = 0;
  bool refuses = false;
  Capture capture(stream, "checked");
  const auto value = capture.parameter<std::int32_t>("value", 7);
  const Operation checked =
      capture.operation("checked", {value}, {OutputSpec::argument(ArgKind::kI32)}, [&](OperationCall& call) {
        if (refuses) throw std::runtime_error("no");
        call.set(0, call.input<std::int32_t>(0));
      });
  stream.launch(module.kernel("put"), {}, &x, checked.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  std::promise<void> launched, published;
  std::thread other([&] {
    const Step open = a.graph.launch_open(stream);
    launched.set_value();
    published.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    a.graph.publish(open, a.graph.values());
  });
  launched.get_future().wait();
  refuses = true;
  expect_error(ErrorCode::kInvalidArgument, "no", [&] { graph.launch(stream, graph.values()); });
  expect_error(ErrorCode::kWouldDeadlock, "step 1 of graph 'checked'", [&] { stream.synchronize(); });
  refuses = false;
  graph.publish({1}, graph.values());
  published.set_value();
  EXPECT_NO_THROW(stream.synchronize()) << "it waits for the other thread, which is not refused";
  other.join();
  EXPECT_EQ(x, 7);
}

TEST_P(Steps, AFailingKernelCancelsTheStepsBehindIt) {
  std::int32_t x = 0;
  Capture capture(stream, "failing");
  const auto p = capture.parameter<std::int32_t>("p");
  stream.launch(module.kernel("throws"), {}, &x);
  stream.launch(module.kernel("put"), {}, &x, p);
  const ExecutableGraph graph = capture.end().instantiate();
  const Stream other = device.create_stream();
  testing::Hold hold(device);
  hold.hold(stream);
  graph.launch(stream, graph.values());
  graph.launch(other, graph.values());
  hold.release();
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { stream.synchronize(); });
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { other.synchronize(); });
  graph.recover();
  EXPECT_EQ(x, 0);
}

TEST_P(Steps, DroppedGraphsWithOpenStepsHangNobody) {
  Appending a;
  make(a);
  (void)a.graph.launch_open(stream, Publisher::kOtherThread);
  a.graph = {};
  expect_error(ErrorCode::kCancelled, "dropped", [&] { stream.synchronize(); });
  stream.recover();
  std::int32_t x = 0;
  stream.launch(module.kernel("put"), {}, &x, 3);
  stream.synchronize();
  EXPECT_EQ(x, 3);
}

INSTANTIATE_TEST_SUITE_P(Devices, Steps, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
