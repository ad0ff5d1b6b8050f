// Conditional nodes: what a replay runs of them, and how gates, failures and cancellation meet bodies.
#include <climits>
#include <random>
#include <tuple>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

using Ids = std::vector<std::int32_t>;

// 1 until the flag is raised.
void poll(Flag flag, std::int32_t* goes_on) { goes_on[0] = flag.value->load() == 0 ? 1 : 0; }
void throw_at(const std::int32_t* value, std::int32_t at) {
  if (value[0] == at) throw std::runtime_error("boom");
}

using Case = std::tuple<const char*, Tier, unsigned>;

class Conditionals : public ::testing::TestWithParam<Case> {
 protected:
  Conditionals() : device(Device::open(std::get<0>(GetParam()))), stream(device.create_stream()), module(load(device)) {
    own = device.load_table({kernel<&step_down>("step_down"), kernel<&poll>("poll"), kernel<&throw_at>("throw_at")});
    options.tier = std::get<1>(GetParam());
    options.depth = std::get<2>(GetParam());
  }
  template <class Value>
  void append(const Value& value) const {
    stream.launch(module.kernel("append"), {}, list.data(), value);
  }
  GraphBody appends(std::int32_t value) const {
    return [this, value](const Stream&) { append(value); };
  }
  Ids ran() {
    stream.synchronize();
    Ids ids(list.begin() + 1, list.begin() + 1 + list[0]);
    list[0] = 0;
    return ids;
  }

  Device device;
  Stream stream;
  Module module, own;
  InstantiateOptions options;
  mutable Ids list = Ids(20'000);
  std::int32_t x = 0, y = 0;
};

TEST_P(Conditionals, IfTakesItsBodyByTheTruthOfEachKindOfValue) {
  std::uint32_t u = 0;
  bool b = false;
  Capture capture(stream);
  capture.if_node(stream, &x, appends(1));
  capture.if_node(stream, Condition(host_address(&u), DType::kU32), appends(2));
  capture.if_else_node(stream, &b, appends(3), appends(4));
  append(5);
  const ExecutableGraph graph = capture.end().instantiate(options);
  for (const std::int32_t value : {0, 1, -1, 256, INT_MIN, 0}) {
    x = value;
    u = static_cast<std::uint32_t>(value);
    b = value != 0;
    graph.launch(stream);
    ASSERT_EQ(ran(), value != 0 ? (Ids{1, 2, 3, 5}) : (Ids{4, 5})) << value;
  }
}

TEST_P(Conditionals, SwitchTakesTheBodyOfThatNumberAndElseNone) {
  std::uint32_t u = 0;
  Capture capture(stream);
  capture.switch_node(stream, &x, {appends(0), nullptr, appends(2), appends(3)});
  capture.switch_node(stream, &u, {appends(10), appends(11)});
  append(99);
  const ExecutableGraph graph = capture.end().instantiate(options);
  for (const std::int32_t value : {0, 1, 2, 3, 4, -1, INT_MIN, INT_MAX, 2}) {
    x = value;
    u = static_cast<std::uint32_t>(value);
    Ids wanted;
    if (value >= 0 && value < 4 && value != 1) wanted.push_back(value);
    if (value == 0 || value == 1) wanted.push_back(10 + value);
    wanted.push_back(99);
    graph.launch(stream);
    ASSERT_EQ(ran(), wanted) << value;
  }
}

// A step's values hold for all turns, and are patched once.
TEST_P(Conditionals, WhileOfAThousandTurnsHasTheValuesOfItsStep) {
  Capture capture(stream, "looping");
  const auto turns = capture.parameter<std::int32_t>("turns"), value = capture.parameter<std::int32_t>("value");
  const Operation twice = capture.operation("twice", {value}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); });
  stream.launch(module.kernel("put"), {}, &x, turns);
  capture.while_node(
      stream, &x,
      [&](const Stream& s) {
        append(value);
        append(twice.output<std::int32_t>(0));
        s.launch(own.kernel("step_down"), {}, &x);
      },
      1000);
  append(value);
  const ExecutableGraph graph = capture.end().instantiate(options);
  StepValues values = graph.values();
  Ids wanted;
  for (std::int32_t step = 1; step <= 6; ++step) {
    const std::int32_t count = step == 3 ? 0 : step == 5 ? 7 : 1000;
    values.set(turns, count);
    values.set(value, step);
    graph.launch(stream, values);
    for (std::int32_t i = 0; i < count; ++i) wanted.insert(wanted.end(), {step, 2 * step});
    wanted.push_back(step);
  }
  EXPECT_EQ(ran(), wanted);
  EXPECT_EQ(graph.counters().operation_calls, 6U);
}

// Whoever takes another way does not wait for values, but the step passes only once they are there.
TEST_P(Conditionals, ABodyThatIsNotTakenWaitsForNothingAndItsGateIsOpened) {
  std::atomic<int> flag{0};
  std::int32_t calls = 0;
  Capture capture(stream);
  const auto p = capture.parameter<std::int32_t>("p");
  const Operation op = capture.operation("op", {p}, {OutputSpec::argument(ArgKind::kI32)}, [&](OperationCall& call) {
    ++calls;
    call.set(0, call.input<std::int32_t>(0) + 1);
  });
  capture.if_node(stream, &x, [&](const Stream&) {
    append(p);
    append(op.output<std::int32_t>(0));
  });
  stream.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag}));
  const ExecutableGraph graph = capture.end().instantiate(options);
  calls = 0;
  StepValues values = graph.values();
  for (std::int32_t i = 1; i <= 12; ++i) {
    flag = 0;
    x = i % 3 == 0 ? 1 : 0;
    const Step step = graph.launch_open(stream, Publisher::kOtherThread);
    if (x == 0) {
      ASSERT_TRUE(becomes(flag, 1));
    }
    EXPECT_FALSE(graph.passed(step));
    values.set(p, i);
    graph.publish(step, values);
    ASSERT_EQ(ran(), x == 0 ? Ids() : (Ids{i, i + 1}));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(calls, i);
  }
}

// Each way has a gate of its own, and one that is also needed behind the node and on both ways; steps are in flight.
TEST_P(Conditionals, EveryWayHasTheValuesOfItsStep) {
  Capture capture(stream, "ways");
  const auto way = capture.parameter<std::int32_t>("way"), v = capture.parameter<std::int32_t>("v");
  std::vector<Operation> plus;
  for (std::int32_t i = 0; i < 4; ++i) {
    plus.push_back(capture.operation("plus" + std::to_string(i), {v}, {OutputSpec::argument(ArgKind::kI32)},
                                     [i](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) * 10 + i); }));
  }
  const auto out = [&](std::size_t i) { return plus[i].output<std::int32_t>(0); };
  stream.launch(module.kernel("put"), {}, &x, way);
  capture.switch_node(stream, &x,
                      {[&](const Stream&) { append(out(0)); },
                       [&](const Stream&) {
                         append(out(1));
                         append(out(3));
                       },
                       [&](const Stream& s) {
                         capture.if_else_node(
                             s, &y, [&](const Stream&) { append(out(2)); }, [&](const Stream&) { append(out(3)); });
                         append(out(2));
                       }});
  append(v);
  append(out(2));
  const ExecutableGraph graph = capture.end().instantiate(options);
  StepValues values = graph.values();
  std::mt19937 random(11);
  for (const std::int32_t truth : {0, 1}) {
    y = truth;
    Ids wanted;
    for (std::int32_t step = 0; step < 300; ++step) {
      const auto w = static_cast<std::int32_t>(random() % 4U);
      values.set(way, w);
      values.set(v, step);
      graph.launch(stream, values);
      const auto add = [&](std::initializer_list<std::int32_t> of) {
        for (const std::int32_t i : of) wanted.push_back(step * 10 + i);
      };
      if (w == 0) add({0});
      else if (w == 1) add({1, 3});
      else if (w == 2 && truth != 0) add({2, 2});
      else if (w == 2) add({3, 2});
      wanted.push_back(step);
      add({2});
    }
    ASSERT_EQ(ran(), wanted);
  }
}

TEST_P(Conditionals, LoopsInLoopsHaveTheirTurnsAnewEachTime) {
  Capture capture(stream);
  const auto inner = capture.parameter<std::int32_t>("inner", 3);
  capture.while_node(stream, &x, [&](const Stream& s) {
    s.launch(module.kernel("put"), {}, &y, inner);
    capture.while_node(
        s, &y,
        [&](const Stream&) {
          capture.if_node(s, &y, [&](const Stream&) { append(2); });
          s.launch(own.kernel("step_down"), {}, &y);
        },
        3);
    append(1);
    s.launch(own.kernel("step_down"), {}, &x);
  });
  const ExecutableGraph graph = capture.end().instantiate(options);
  StepValues values = graph.values();
  for (const std::int32_t turns : {3, 0, 2}) {
    x = 4;
    values.set(inner, turns);
    graph.launch(stream, values);
    Ids wanted;
    for (int i = 0; i < 4; ++i) {
      wanted.insert(wanted.end(), static_cast<std::size_t>(turns), 2);
      wanted.push_back(1);
    }
    ASSERT_EQ(ran(), wanted);
  }
}

TEST_P(Conditionals, ALoopBeyondItsLimitFailsItsStep) {
  Capture capture(stream, "endless");
  capture.while_node(stream, &x, appends(1), 5);
  append(2);
  const ExecutableGraph graph = capture.end().instantiate(options);
  for (int i = 0; i < 3; ++i) {
    x = 1;
    graph.launch(stream);
    expect_error(ErrorCode::kTimeout, "while 0 of graph 'endless' had not ended in step",
                 [&] { stream.synchronize(); });
    graph.recover();
    EXPECT_EQ(ran(), Ids(5, 1));
    x = 0;
    graph.launch(stream);
    EXPECT_EQ(ran(), Ids{2});
  }
}

TEST_P(Conditionals, ALoopWithoutEndIsCancelled) {
  std::atomic<int> flag{0};
  x = 1;
  Capture capture(stream, "endless");
  capture.while_node(
      stream, &x, [&](const Stream& s) { s.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag})); },
      UINT64_MAX);
  append(2);
  const ExecutableGraph graph = capture.end().instantiate(options);
  for (std::uint64_t i = 0; i < 3; ++i) {
    flag = 0;
    std::thread canceller([&] {
      EXPECT_TRUE(becomes(flag, 1));
      graph.cancel({2 * i + 1}, "enough");
    });
    graph.launch(stream);
    expect_error(ErrorCode::kCancelled, "enough", [&] { stream.synchronize(); });
    canceller.join();
    graph.recover();
    x = 0;
    graph.launch(stream);
    EXPECT_EQ(ran(), Ids{2});
    x = 1;
  }
}

TEST_P(Conditionals, AFailureInABodyFailsTheStep) {
  Capture capture(stream, "failing");
  const auto at = capture.parameter<std::int32_t>("at");
  capture.while_node(stream, &x, [&](const Stream& s) {
    append(1);
    s.launch(own.kernel("throw_at"), {}, &x, at);
    s.launch(own.kernel("step_down"), {}, &x);
  });
  const ExecutableGraph graph = capture.end().instantiate(options);
  StepValues values = graph.values();
  for (const std::int32_t where : {3, 5, 1}) {
    x = 5;
    values.set(at, where);
    expect_error(ErrorCode::kKernelFailed, "boom", [&] {
      graph.launch(stream, values);  // in-line it is known already when this returns
      stream.synchronize();
    });
    graph.recover();
    EXPECT_EQ(ran(), Ids(static_cast<std::size_t>(5 - where + 1), 1));
    x = 2;
    values.set(at, 100);
    graph.launch(stream, values);
    EXPECT_EQ(ran(), Ids(2, 1));
  }
}

// The loop ends by what another stream does, also where both have the same worker.
TEST_P(Conditionals, ALoopLetsOtherStreamsRun) {
  std::atomic<int> flag{0};
  x = 1;
  Capture capture(stream);
  capture.while_node(
      stream, &x, [&](const Stream& s) { s.launch(own.kernel("poll"), {}, Argument::bytes_of(Flag{&flag}), &x); },
      UINT64_MAX);
  append(1);
  const ExecutableGraph graph = capture.end().instantiate(options);
  const Stream other = device.create_stream();
  const Event before = device.create_event();
  testing::Hold hold(device);  // both are submitted before one runs
  hold.hold(stream);
  stream.mark(before);
  graph.launch(stream);
  other.wait(before);
  other.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag}));
  hold.release();
  EXPECT_EQ(ran(), Ids{1});
}

// What a loop waits for may be less urgent than the loop.
TEST_P(Conditionals, AnUrgentLoopLetsOtherStreamsRun) {
  std::atomic<int> flag{0};
  x = 1;
  const Stream urgent = device.create_stream({.priority = -1});
  const Stream other = device.create_stream({.priority = 1});
  Capture capture(urgent);
  capture.while_node(
      urgent, &x, [&](const Stream& s) { s.launch(own.kernel("poll"), {}, Argument::bytes_of(Flag{&flag}), &x); },
      UINT64_MAX);
  const ExecutableGraph graph = capture.end().instantiate(options);
  const Event before = device.create_event();
  testing::Hold hold(device);
  hold.hold(urgent);
  urgent.mark(before);
  graph.launch(urgent);
  other.wait(before);
  other.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag}));
  hold.release();
  urgent.synchronize();
  EXPECT_EQ(x, 0);
}

TEST_P(Conditionals, BranchesAndNestedGraphsMayHaveThem) {
  const Stream side = device.create_stream();
  const Event fork = device.create_event(), join = device.create_event();
  Ids other(5000);
  GraphDefinition child;
  {
    Capture capture(stream, "child");
    const auto n = capture.parameter<std::int32_t>("n", 2);
    stream.launch(module.kernel("put"), {}, &y, n);
    capture.while_node(stream, &y, [&](const Stream& s) {
      append(n);
      s.launch(own.kernel("step_down"), {}, &y);
    });
    append(8);
    child = capture.end();
  }
  const ExecutableGraph inner = child.instantiate();
  Capture capture(stream, "parent");
  const auto v = capture.parameter<std::int32_t>("v"), taken = capture.parameter<std::int32_t>("taken");
  stream.launch(module.kernel("put"), {}, &x, taken);
  stream.mark(fork);
  side.wait(fork);
  capture.if_node(side, &x, [&](const Stream& s) { s.launch(module.kernel("append"), {}, other.data(), v); });
  side.mark(join);
  capture.if_node(stream, &x, [&](const Stream&) {
    append(v);
    inner.launch(stream, inner.values());
    append(7);
  });
  stream.wait(join);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate(options);
  StepValues values = graph.values();
  Ids wanted, wanted_other;
  for (std::int32_t i = 0; i < 200; ++i) {
    values.set(v, i);
    values.set(taken, i % 3);
    values.set(definition.parameter<std::int32_t>("child/n"), i % 4);
    graph.launch(stream, values);
    if (i % 3 == 0) continue;
    wanted_other.push_back(i);
    wanted.push_back(i);
    wanted.insert(wanted.end(), static_cast<std::size_t>(i % 4), i % 4);
    wanted.insert(wanted.end(), {8, 7});
  }
  EXPECT_EQ(ran(), wanted);
  EXPECT_EQ(Ids(other.begin() + 1, other.begin() + 1 + other[0]), wanted_other);
}

TEST_P(Conditionals, HostFunctionsAndExternalOperationsRunOncePerTurn) {
  std::int32_t called = 0, sum = 0;
  Capture capture(stream);
  const auto v = capture.parameter<std::int32_t>("v");
  capture.while_node(stream, &x, [&](const Stream& s) {
    s.host_function([&] { ++called; });
    capture.external(s, "external", {v}, [&](ExternalCall& call) { sum += call.input<std::int32_t>(0); });
    s.launch(own.kernel("step_down"), {}, &x);
  });
  const ExecutableGraph graph = capture.end().instantiate(options);
  StepValues values = graph.values();
  for (const std::int32_t turns : {3, 0, 10}) {
    x = turns;
    called = sum = 0;
    values.set(v, 7);
    graph.launch(stream, values);
    stream.synchronize();
    EXPECT_EQ(called, turns);
    EXPECT_EQ(sum, 7 * turns);
  }
}

TEST_P(Conditionals, ACancelledStepTakesNoBody) {
  Capture capture(stream);
  const auto v = capture.parameter<std::int32_t>("v");
  capture.if_node(stream, &x, [&](const Stream&) { append(v); });
  append(1);
  const ExecutableGraph graph = capture.end().instantiate(options);
  x = 1;
  const Step step = graph.launch_open(stream, Publisher::kOtherThread);
  graph.cancel(step, "not now");
  expect_error(ErrorCode::kCancelled, "not now", [&] { stream.synchronize(); });
  graph.recover();
  EXPECT_EQ(ran(), Ids());
  StepValues values = graph.values();
  values.set(v, 4);
  graph.launch(stream, values);
  EXPECT_EQ(ran(), (Ids{4, 1}));
}

// What the host function of a cancelled step has left in its stream is not taken for another's.
TEST_P(Conditionals, AStepThatIsCancelledAtItsHostFunctionLeavesNothingBehind) {
  std::atomic<int> out{0}, called{0};
  Capture capture(stream);
  capture.if_node(stream, &x, [&](const Stream& s) {
    s.host_function([&] {
      out = 1;
      EXPECT_TRUE(becomes(out, 2));
    });
  });
  stream.host_function([&] { ++called; });
  const ExecutableGraph graph = capture.end().instantiate(options);
  x = 1;
  std::thread canceller([&] {
    EXPECT_TRUE(becomes(out, 1));
    graph.cancel({1}, "enough");
    out = 2;
  });
  graph.launch(stream);
  try {
    stream.synchronize();
    EXPECT_EQ(device.info().workers, 0U);  // in-line nobody looks at the step between the two
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
  }
  canceller.join();
  graph.recover();
  const int before = called;
  x = 0;
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(called, before + 1);
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const auto& [uri, tier, depth] = info.param;
  std::string name;
  for (const char* c = uri; *c != 0; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  }
  return name + (tier == Tier::kCut ? "_cut_" : "_late_") + std::to_string(depth);
}

INSTANTIATE_TEST_SUITE_P(Cases, Conditionals,
                         ::testing::Combine(::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                                            ::testing::Values(Tier::kReadLate, Tier::kCut),
                                            ::testing::Values(1U, 2U, 4U)),
                         name_of_case);

}  // namespace
}  // namespace slipway::graph_tests
