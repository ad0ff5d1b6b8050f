// What the timeline tells of graphs: each node by name inside its replay, gates, updates, reasons.
#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

using Kind = TimelineEntry::Kind;
using Timeline = std::vector<TimelineEntry>;

Timeline of(const Timeline& all, Kind kind, std::uint64_t step) {
  Timeline found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const TimelineEntry& e) { return e.kind == kind && e.step == step; });
  return found;
}
std::string names(const Timeline& entries) {
  std::string text;
  for (const TimelineEntry& e : entries) text += (text.empty() ? "" : " ") + e.name;
  return text;
}

class TimelineOf : public GraphOn {
 protected:
  TimelineOf() { stream = device.create_stream({.name = "main"}); }

  // put, then a gate for the value, append; then a gate for the operation, append.
  struct Twice {
    std::int32_t mark = 0;
    std::vector<std::int32_t> list = std::vector<std::int32_t>(100, 0);
    ScalarParameter<std::int32_t> value;
    ExecutableGraph graph;
    bool refuses = false;
  };
  void make(Twice& t) {
    Capture capture(stream, "twice");
    t.value = capture.parameter<std::int32_t>("value");
    const Operation doubled =
        capture.operation("doubled", {t.value}, {OutputSpec::argument(ArgKind::kI32)}, [&t](OperationCall& call) {
          if (t.refuses) throw std::runtime_error("not this one");
          call.set(0, 2 * call.input<std::int32_t>(0));
        });
    stream.launch(module.kernel("put"), {}, &t.mark, 1);
    stream.launch(module.kernel("append"), {}, t.list.data(), t.value);
    stream.launch(module.kernel("append"), {}, t.list.data(), doubled.output<std::int32_t>(0));
    stream.host_function([] {}, "after");
    t.graph = capture.end().instantiate();
  }

  // Until what was submitted has come to a gate: with one worker, another stream runs only then; in-line it is so at
  // once.
  void wait_until_it_stands() {
    const Stream other = device.create_stream();
    std::atomic<int> flag{0};
    other.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag}));
    ASSERT_TRUE(becomes(flag, 1));
    other.synchronize();
  }

  static void expect_inside(const TimelineEntry& inner, const TimelineEntry& outer) {
    EXPECT_GE(inner.started_ns, outer.started_ns) << inner.name;
    EXPECT_LE(inner.ended_ns, outer.ended_ns) << inner.name;
    EXPECT_GT(inner.started_ns, 0) << inner.name;
    EXPECT_LE(inner.started_ns, inner.ended_ns) << inner.name;
  }
};

TEST_P(TimelineOf, AStepHasItsNodesItsUpdatesAndTheGateWhereItStood) {
  Twice t;
  make(t);
  StepValues values = t.graph.values();
  device.start_timeline();
  for (std::int32_t i = 1; i <= 2; ++i) {
    const Step step = t.graph.launch_open(stream);
    wait_until_it_stands();
    values.set(t.value, i);
    t.graph.publish(step, values);
    t.graph.wait(step);
  }
  const Timeline all = device.stop_timeline();  // what graph.wait() saw the end of has an end here
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const Timeline replays = of(all, Kind::kSubmission, step);
    ASSERT_EQ(replays.size(), 1U);
    const TimelineEntry& replay = replays[0];
    EXPECT_EQ(replay.subject, "twice");
    EXPECT_EQ(replay.stream, "main");
    EXPECT_LE(replay.submitted_ns, replay.started_ns);

    const Timeline nodes = of(all, Kind::kNode, step);
    EXPECT_EQ(names(nodes), "put append append after");
    for (const TimelineEntry& node : nodes) {
      expect_inside(node, replay);
      EXPECT_EQ(node.sequence, replay.sequence);
      EXPECT_EQ(node.stream, replay.stream);
      EXPECT_EQ(node.subject, "twice");
    }
    const Timeline updates = of(all, Kind::kUpdate, step);
    ASSERT_EQ(names(updates), "values doubled");
    EXPECT_EQ(updates[0].gate, 0U);
    EXPECT_EQ(updates[1].gate, 1U);
    // The replay began before its values were known, and ended behind them.
    expect_inside(updates[0], replay);

    const Timeline waits = of(all, Kind::kGateWait, step);
    ASSERT_GE(waits.size(), 1U);
    EXPECT_EQ(waits[0].gate, 0U);
    EXPECT_EQ(waits[0].name, "append");
    expect_inside(waits[0], replay);
    EXPECT_LE(waits[0].started_ns, updates[0].started_ns);
    EXPECT_GE(waits[0].ended_ns, updates[0].ended_ns);
    EXPECT_LE(nodes[0].ended_ns, waits[0].started_ns);
    EXPECT_GE(nodes[1].started_ns, waits[0].ended_ns);
  }
  const std::string trace = chrome_trace(all);
  for (const char* part : {"twice step 1", "twice step 2", "gate values, before append", "update step 2: doubled",
                           "twice: updates", R"("ph":"s")", R"("unfinished":0)"}) {
    EXPECT_NE(trace.find(part), trace.npos) << part;
  }
}

void sum(std::int32_t* out, std::int32_t a, std::int32_t b) { out[0] = a + b; }

TEST_P(TimelineOf, EachGateOfAGroupIsWaitedForByItself) {
  const Module sums = device.load_table({kernel<&sum>("sum")});
  std::int32_t out = 0;
  Capture capture(stream, "both");
  const auto value = capture.parameter<std::int32_t>("value");
  const Operation doubled =
      capture.operation("doubled", {value}, {OutputSpec::argument(ArgKind::kI32)},
                        [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); });
  stream.launch(sums.kernel("sum"), {}, &out, value, doubled.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  device.start_timeline();
  const Step step = graph.launch_open(stream);
  wait_until_it_stands();
  StepValues values = graph.values();
  values.set(value, 3);
  graph.publish(step, values);
  graph.wait(step);
  const Timeline waits = of(device.stop_timeline(), Kind::kGateWait, 1);
  EXPECT_EQ(out, 9);
  // In-line, the publisher itself runs on to the second gate as soon as the first is open; a worker may come later.
  ASSERT_GE(waits.size(), is_inline() ? 2U : 1U);
  ASSERT_LE(waits.size(), 2U);
  EXPECT_EQ(waits[0].gate, 0U);
  if (waits.size() == 2) {
    EXPECT_EQ(waits[1].gate, 1U);
    EXPECT_GE(waits[1].started_ns, waits[0].ended_ns);
  }
}

TEST_P(TimelineOf, RefusedValuesAreAnUpdateWithoutAnEnd) {
  Twice t;
  make(t);
  StepValues values = t.graph.values();
  const Step step = t.graph.launch_open(stream);
  device.start_timeline();
  t.refuses = true;
  EXPECT_THROW(t.graph.publish(step, values), Error);
  t.refuses = false;
  t.graph.publish(step, values);
  t.graph.wait(step);
  const Timeline updates = of(device.stop_timeline(), Kind::kUpdate, 1);
  ASSERT_EQ(names(updates), "values doubled doubled");
  EXPECT_EQ(updates[1].ended_ns, 0);
  EXPECT_GT(updates[2].ended_ns, 0);
}

TEST_P(TimelineOf, AReplayThatStoodBeforeTheTimelineWasOnHasNoStart) {
  Twice t;
  make(t);
  const Step step = t.graph.launch_open(stream);
  wait_until_it_stands();
  device.start_timeline();
  t.graph.publish(step, t.graph.values());
  t.graph.wait(step);
  const Timeline all = device.stop_timeline();
  const Timeline replays = of(all, Kind::kSubmission, 1);
  ASSERT_EQ(replays.size(), 1U);
  EXPECT_EQ(replays[0].name, "twice");
  EXPECT_EQ(replays[0].stream, "main");
  EXPECT_EQ(replays[0].started_ns, 0);
  EXPECT_GT(replays[0].ended_ns, 0);
  EXPECT_EQ(names(of(all, Kind::kNode, 1)), "append append after");
  EXPECT_TRUE(of(all, Kind::kGateWait, 1).empty() || of(all, Kind::kGateWait, 1)[0].gate == 1U)
      << "it came to the first gate before";
}

// The same where the worker has nothing else to do, and looks at the gate itself.
TEST(TimelineWhileAWorkerStays, ReplaysAreSeenFromThereOn) {
  const Device device = Device::open("cpu:workers=1,spin_us=5000000");
  const Stream stream = device.create_stream({.name = "main"});
  const Module module = load(device);
  std::atomic<int> flag{0};
  std::int32_t out = 0;
  Capture capture(stream, "stays");
  const auto value = capture.parameter<std::int32_t>("value", 5);
  stream.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&flag}));
  stream.launch(module.kernel("put"), {}, &out, value);
  const ExecutableGraph graph = capture.end().instantiate();
  for (const bool on : {true, false}) {  // and off
    flag = 0;
    if (!on) device.start_timeline();
    const Step step = graph.launch_open(stream);
    ASSERT_TRUE(becomes(flag, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (on) device.start_timeline();
    else (void)device.stop_timeline();
    graph.publish(step, graph.values());
    graph.wait(step);
    EXPECT_EQ(out, 5);
    if (!on) continue;
    const Timeline all = device.stop_timeline();
    ASSERT_EQ(of(all, Kind::kNode, step.number).size(), 1U);
    EXPECT_EQ(of(all, Kind::kNode, step.number)[0].name, "put");
    EXPECT_EQ(of(all, Kind::kSubmission, step.number).size(), 1U);
  }
}

// Whoever sees that a step has passed sees its end in the timeline, however quickly he looks.
TEST_P(TimelineOf, AStepThatHasPassedHasAnEnd) {
  std::int32_t out = 0;
  Capture capture(stream, "short");
  stream.launch(module.kernel("put"), {}, &out, 1);
  const ExecutableGraph graph = capture.end().instantiate();
  for (int round = 0; round < 10000; ++round) {
    device.start_timeline(8);
    const Step step = graph.launch(stream);
    for (int look = 0; look < 100'000'000 && !graph.passed(step); ++look) continue;
    const Timeline replays = of(device.stop_timeline(), Kind::kSubmission, step.number);
    ASSERT_EQ(replays.size(), 1U);
    ASSERT_GT(replays[0].ended_ns, 0) << "in round " << round;
  }
}

TEST_P(TimelineOf, TheNodeThatFailedIsThere) {
  std::int32_t unused = 0;
  Capture capture(stream, "failing");
  stream.launch(module.kernel("put"), {}, &unused, 1);
  stream.launch(module.kernel("throws"), {}, &unused);
  stream.launch(module.kernel("put"), {}, &unused, 2);
  const ExecutableGraph graph = capture.end().instantiate();
  device.start_timeline();
  const Step step = graph.launch(stream);
  EXPECT_THROW(graph.wait(step), Error);
  const Timeline all = device.stop_timeline();
  EXPECT_EQ(names(of(all, Kind::kNode, 1)), "put throws");
  EXPECT_GT(of(all, Kind::kSubmission, 1).at(0).ended_ns, 0);
  graph.recover();
}

TEST_P(TimelineOf, ReasonsAreThereWithWhatWasLaunched) {
  const Memory memory = device.allocate(64);
  const Kernel special = module.kernel("add", parse_signature("in tensor<f32> align=16, out tensor<f32>, f32"));
  const auto add = LaunchPlan::create(special, {.shape = LaunchShape{}, .fallback = module.kernel("add")})
                       .typed<Tensor<const float>, Tensor<float>, float>();
  device.start_timeline();
  add(stream, memory.tensor<const float>(1), memory.tensor<float>(4), 1.0f);
  std::thread([&] { stream.fill(memory.address(), 0, 4, 1); }).join();
  const Timeline all = device.stop_timeline();
  stream.synchronize();
  Timeline reasons;
  std::copy_if(all.begin(), all.end(), std::back_inserter(reasons), [](auto& e) { return e.kind == Kind::kReason; });
  ASSERT_EQ(names(reasons), "guard_alignment stream_shared");
  EXPECT_EQ(reasons[0].subject, "add");
  for (const TimelineEntry& reason : reasons) {
    EXPECT_EQ(reason.stream, "main");
    EXPECT_GT(reason.started_ns, 0);
  }
  EXPECT_EQ(device.counters()[Reason::kTimeline], 2U) << "counted only";
}

INSTANTIATE_TEST_SUITE_P(Devices, TimelineOf, ::testing::Values("cpu:workers=1", "cpu:inline"),
                         [](const auto& parameter) {
                           return parameter.param == "cpu:inline" ? "inline_" : "one_worker";
                         });

}  // namespace
}  // namespace slipway::graph_tests
