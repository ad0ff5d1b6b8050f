// Forks: branches of one step that run beside each other, and how a step ends when one of them does not.
#include <functional>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

std::function<void()> g_first, g_second;
void first_kernel(std::int32_t*) { g_first(); }
void second_kernel(std::int32_t*) { g_second(); }

class Branches : public GraphOn {
 protected:
  Branches() : side(device.create_stream()), fork(device.create_event()), join(device.create_event()) {
    own = device.load_table({kernel<&first_kernel>("first"), kernel<&second_kernel>("second")});
  }
  // main: first; side: second; joined.
  ExecutableGraph two_kernels(const InstantiateOptions& options = {}) {
    Capture capture(stream, "forked");
    stream.mark(fork);
    side.wait(fork);
    side.launch(own.kernel("second"), {}, &unused);
    side.mark(join);
    stream.launch(own.kernel("first"), {}, &unused);
    stream.wait(join);
    return capture.end().instantiate(options);
  }
  Stream side;
  Event fork, join;
  Module own;
  std::int32_t unused = 0;
};

class SeveralWorkers : public Branches {};

TEST_P(SeveralWorkers, BranchesRunBesideEachOther) {
  const ExecutableGraph graph = two_kernels();
  std::atomic<int> first{0}, second{0};
  std::atomic<bool> met{true};
  // Each goes on only when the other has begun.
  g_first = [&] {
    ++first;
    if (!becomes(second, first)) met = false;
  };
  g_second = [&] {
    ++second;
    if (!becomes(first, second)) met = false;
  };
  for (int i = 1; i <= 20; ++i) {
    graph.launch(stream);
    stream.synchronize();
    ASSERT_TRUE(met);
    ASSERT_EQ(first, i);
    ASSERT_EQ(second, i);
  }
}

TEST_P(Branches, SerialOnesRunInTheOrderOfTheCapture) {
  const ExecutableGraph graph = two_kernels({.serial = true});
  std::string order;
  g_first = [&] { order += '1'; };
  g_second = [&] { order += '2'; };
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(order, "212121");
}

// Two forks and a value in each branch: every step sees its own values, and what was before the fork.
TEST_P(Branches, ValuesAndDependenciesHoldInEveryBranch) {
  const Stream third = device.create_stream();
  const Event fork2 = device.create_event(), join2 = device.create_event();
  std::vector<std::int32_t> a(4000), b(4000), c(4000), d(4000);
  Capture capture(stream, "diamond");
  const auto x = capture.parameter<std::int32_t>("x"), y = capture.parameter<std::int32_t>("y");
  const Operation sum = capture.operation(
      "sum", {x, y}, {OutputSpec::argument(ArgKind::kI32)},
      [](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) + call.input<std::int32_t>(1)); });
  stream.launch(module.kernel("append"), {}, a.data(), x);
  stream.mark(fork);
  side.wait(fork);
  side.launch(module.kernel("append"), {}, b.data(), y);
  side.mark(fork2);
  third.wait(fork2);
  third.launch(module.kernel("append"), {}, c.data(), sum.output<std::int32_t>(0));
  side.launch(module.kernel("append"), {}, b.data(), x);
  third.mark(join2);
  side.wait(join2);
  side.mark(join);
  stream.launch(module.kernel("append"), {}, a.data(), y);
  stream.wait(join);
  stream.launch(module.kernel("append"), {}, d.data(), c.data() == nullptr ? 0 : 7);
  const ExecutableGraph graph = capture.end().instantiate({.depth = 3});
  StepValues values = graph.values();
  constexpr std::int32_t kSteps = 1500;
  for (std::int32_t i = 0; i < kSteps; ++i) {
    values.set(x, i);
    values.set(y, 10'000 + i);
    graph.launch(stream, values);
  }
  stream.synchronize();
  ASSERT_EQ(a[0], 2 * kSteps);
  ASSERT_EQ(b[0], 2 * kSteps);
  ASSERT_EQ(c[0], kSteps);
  ASSERT_EQ(d[0], kSteps);
  for (std::int32_t i = 0; i < kSteps; ++i) {
    const auto at = static_cast<std::size_t>(2 * i) + 1;
    ASSERT_EQ(a[at], i);
    ASSERT_EQ(a[at + 1], 10'000 + i);
    ASSERT_EQ(b[at], 10'000 + i);
    ASSERT_EQ(b[at + 1], i);
    ASSERT_EQ(c[static_cast<std::size_t>(i) + 1], 10'000 + 2 * i);
  }
}

TEST_P(Branches, AKernelThatFailsInASideBranchFailsTheStep) {
  const ExecutableGraph graph = two_kernels();
  bool fails = true;
  int first = 0;
  g_first = [&] { ++first; };
  g_second = [&] {
    if (fails) throw std::runtime_error("boom");
  };
  {
    testing::Hold hold(device);  // both are submitted before one runs
    hold.hold(stream);
    graph.launch(stream);
    graph.launch(stream);
  }
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { stream.synchronize(); });
  const int before = first;
  EXPECT_LE(before, 1);  // never the second step's
  graph.recover();
  fails = false;
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(first, before + 1);
}

// Nothing of a step runs any more when its stream says that it has failed.
TEST_P(SeveralWorkers, AFailedStepHasEndedInAllBranches) {
  const ExecutableGraph graph = two_kernels();
  std::atomic<int> second{0};
  std::atomic<bool> go{false};
  g_first = [&] {
    if (!becomes(second, 1)) return;
    go = true;
    throw std::runtime_error("boom");
  };
  g_second = [&] {
    second = 1;
    while (!go) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // work that takes time
    second = 2;
  };
  graph.launch(stream);
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { stream.synchronize(); });
  EXPECT_EQ(second, 2);
  graph.recover();
}

TEST_P(Branches, AGateInASideBranchMayBeCancelled) {
  std::int32_t x = 0, y = 0;
  Capture capture(stream, "gated");
  const auto value = capture.parameter<std::int32_t>("value");
  stream.mark(fork);
  side.wait(fork);
  side.launch(module.kernel("put"), {}, &x, value);
  side.mark(join);
  stream.wait(join);
  stream.launch(module.kernel("put"), {}, &y, value);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (std::int32_t i = 1; i <= 50; ++i) {
    const Step step = graph.launch_open(stream, Publisher::kOtherThread);
    if (i % 2 == 0) {
      graph.cancel(step, "not this one");
      expect_error(ErrorCode::kCancelled, "not this one", [&] { stream.synchronize(); });
      graph.recover();
      ASSERT_EQ(x, i - 1);
    } else {
      values.set(value, i);
      graph.publish(step, values);
      graph.wait(step);
      ASSERT_EQ(x, i);
      ASSERT_EQ(y, i);
    }
  }
}

TEST_P(Branches, AFailedStreamDiscardsItsReplays) {
  const ExecutableGraph graph = two_kernels();
  int ran = 0;
  g_first = g_second = [&] { ++ran; };
  testing::Hold hold(device);
  hold.hold(stream);
  stream.host_function([] { throw std::runtime_error("boom"); }, "explodes");
  graph.launch(stream);
  graph.launch(stream);
  hold.release();
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { stream.synchronize(); });
  EXPECT_EQ(ran, 0);
  graph.recover();
  g_first = g_second = [] {};
  graph.launch(stream);
  stream.synchronize();
}

TEST_P(Branches, DroppingAndClosingWithOpenBranchesHangsNobody) {
  std::int32_t x = 0;
  for (const bool drop : {true, false}) {
    Capture capture(stream, "gated");
    const auto value = capture.parameter<std::int32_t>("value");
    stream.mark(fork);
    side.wait(fork);
    side.launch(module.kernel("put"), {}, &x, value);
    side.mark(join);
    stream.wait(join);
    ExecutableGraph graph = capture.end().instantiate();
    (void)graph.launch_open(stream, Publisher::kOtherThread);
    if (drop) {
      graph = {};
      expect_error(ErrorCode::kCancelled, "dropped", [&] { stream.synchronize(); });
      stream.recover();
      continue;
    }
    try {
      device.close(WaitLimit(50));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kCancelled) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Branches,
                         ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2", "cpu:workers=3"),
                         [](const auto& param) { return std::to_string(param.index); });
INSTANTIATE_TEST_SUITE_P(Devices, SeveralWorkers, ::testing::Values("cpu:workers=2", "cpu:workers=3"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
