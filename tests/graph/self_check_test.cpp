// The self-check: a replay against its nodes one at a time.
#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

std::atomic<std::int32_t> g_calls{0};
// No kernel for a graph: what it writes is another number each time.
void tick(std::int32_t* out) { out[1] = ++g_calls; }
void one_less(std::int32_t* out) { --out[0]; }
void draw(std::int32_t* out, std::uint64_t seed, std::uint64_t offset) {
  out[0] += static_cast<std::int32_t>(random_words(seed, offset)[0] % 1000);
}
void drift(float* out) { out[0] = 1.0F + 0.001F * static_cast<float>(g_calls++ % 2); }

class SelfChecks : public GraphOn {
 protected:
  SelfChecks()
      : memory(device.allocate(64)),
        own(device.load_table(
            {kernel<&tick>("tick"), kernel<&one_less>("one_less"), kernel<&draw>("draw"), kernel<&drift>("drift")})) {
    stream.fill(memory.address(), 1, 4, 16);
  }
  std::vector<std::int32_t> contents() {
    std::vector<std::int32_t> now(16);
    stream.copy_to_host(now.data(), memory.address(), 64);
    stream.synchronize();
    return now;
  }
  auto at(std::uint64_t i) const { return memory.tensor<std::int32_t>(i); }

  Memory memory;
  Module own;
};

TEST_P(SelfChecks, EqualGraphsAreEqualAndTheirMemoryIsAsBefore) {
  const Stream side = device.create_stream();
  const Event forked = device.create_event(), joined = device.create_event();
  std::int32_t host = 0, here = 0;
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 4);
  const Operation twice = capture.operation("twice", {n}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); });
  stream.launch(module.kernel("count"), {{3}}, at(0));  // in place: not the same when it runs twice
  stream.mark(forked);
  side.wait(forked);
  side.launch(module.kernel("put"), {}, at(1), n);
  stream.launch(module.kernel("put"), {}, at(2), twice.output<std::int32_t>(0));
  side.mark(joined);
  stream.wait(joined);
  stream.launch(module.kernel("sum"), {}, at(3), at(1), at(2));
  stream.copy(offset(memory.address(), 16), memory.address(), 16);
  stream.copy_to_device(offset(memory.address(), 32), &host, 4);
  stream.fill(offset(memory.address(), 40), 7, 4, 2);
  stream.copy_to_host(&host, memory.address(), 4);
  stream.launch(module.kernel("put"), {}, &here, n);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(n, 21);
  const SelfCheckResult result = self_check(graph, stream, values);
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.nodes_run, 8U);
  ASSERT_EQ(result.notes.size(), 2U);
  EXPECT_NE(result.notes[0].find("copies to the host"), std::string::npos) << result.notes[0];
  EXPECT_NE(result.notes[1].find("in memory that Slipway does not know"), std::string::npos) << result.notes[1];
  EXPECT_EQ(contents(), std::vector<std::int32_t>(16, 1));
}

TEST_P(SelfChecks, TheFirstNodeBehindWhichTheyDifferIsNamed) {
  Capture capture(stream, "ticking");
  for (int i = 0; i < 5; ++i) stream.launch(module.kernel("count"), {}, at(0));
  stream.launch(own.kernel("tick"), {}, at(4));
  for (int i = 0; i < 6; ++i) stream.launch(module.kernel("sum"), {}, at(6), at(5), at(0));
  const ExecutableGraph graph = capture.end().instantiate();
  const SelfCheckResult result = self_check(graph, stream, graph.values());
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.node, 5U);
  EXPECT_EQ(result.node_name, "tick");
  EXPECT_EQ(result.block_bytes, 64U);
  EXPECT_EQ(result.offset_bytes / 4, 5U);
  EXPECT_NE(result.difference.find("behind node 5 ('tick') of graph 'ticking'"), std::string::npos)
      << result.difference;
  EXPECT_EQ(contents(), std::vector<std::int32_t>(16, 1));
}

TEST_P(SelfChecks, MovedMemoryIsCheckedWhereItIsNow) {
  const Memory to = device.allocate(64);
  stream.fill(to.address(), 2, 4, 16);
  Capture capture(stream);
  stream.launch(module.kernel("count"), {}, at(0));
  const ExecutableGraph graph = capture.end().instantiate();
  graph.rebind(memory, to);
  EXPECT_TRUE(self_check(graph, stream, graph.values()).equal);
  EXPECT_EQ(contents(), std::vector<std::int32_t>(16, 1));
}

TEST_P(SelfChecks, ConditionalNodesTakeTheSameWay) {
  Capture capture(stream, "conditional");
  const auto turns = capture.parameter<std::int32_t>("turns", 3);
  stream.launch(module.kernel("put"), {}, at(8), turns);
  capture.while_node(stream, at(8), [&](const Stream& s) {
    s.launch(module.kernel("count"), {}, at(0));
    capture.if_node(s, at(0), [&](const Stream& t) { t.launch(module.kernel("count"), {}, at(1)); });
    s.launch(own.kernel("one_less"), {}, at(8));
  });
  capture.if_else_node(
      stream, at(8), [&](const Stream& s) { s.launch(module.kernel("count"), {}, at(2)); },
      [&](const Stream& s) {
        s.launch(module.kernel("count"), {}, at(3));
        s.launch(module.kernel("count"), {}, at(3));
      });
  capture.switch_node(stream, at(9),
                      {nullptr, [&](const Stream& s) { s.fill(offset(memory.address(), 40), 7, 4, 1); }});
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(turns, 4);
  const SelfCheckResult result = self_check(graph, stream, values);
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.nodes_run, 1U + 4 * 3 + 2 + 1);
  EXPECT_EQ(contents(), std::vector<std::int32_t>(16, 1));
}

TEST_P(SelfChecks, ADifferenceInABodyIsThatOfTheConditionalNode) {
  std::int32_t unknown = 0;
  Capture capture(stream, "ticking");
  stream.launch(module.kernel("count"), {}, at(0));
  capture.if_node(stream, at(8), [&](const Stream& s) {
    s.launch(module.kernel("count"), {}, at(1));
    s.launch(own.kernel("tick"), {}, at(4));
  });
  stream.launch(module.kernel("count"), {}, at(2));
  const ExecutableGraph graph = capture.end().instantiate();
  const SelfCheckResult result = self_check(graph, stream, graph.values());
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.node, 1U);
  EXPECT_EQ(result.node_name, "if");
  Capture second(stream, "elsewhere");
  second.if_node(stream, &unknown, [&](const Stream& s) { s.launch(module.kernel("count"), {}, at(1)); });
  const ExecutableGraph other = second.end().instantiate();
  expect_error(ErrorCode::kFailedPrecondition, "the condition of an 'if' (node 0) lies in memory that Slipway does not",
               [&] { (void)self_check(other, stream, other.values()); });
}

TEST_P(SelfChecks, RandomNumbersAreThoseOfTheNextStep) {
  const Generator one(7), two(8);
  for (const bool differs : {false, true}) {
    Capture capture(stream);
    const auto n = capture.parameter<std::int32_t>("n", 4);
    for (const Generator& generator : {one, two, one}) {
      const RandomDraw taken = generator.take(stream, 3);
      stream.launch(own.kernel("draw"), {}, at(0), taken.seed, taken.offset);
    }
    if (differs) stream.launch(own.kernel("tick"), {}, at(2));
    stream.launch(module.kernel("put"), {}, at(1), n);
    const ExecutableGraph graph = capture.end().instantiate();
    graph.launch(stream, graph.values());
    const auto before = contents();
    const Generator::State state = one.state(), other = two.state();
    const SelfCheckResult result = self_check(graph, stream, graph.values());
    EXPECT_EQ(result.equal, !differs) << result.difference;
    EXPECT_EQ(result.node_name, differs ? "tick" : "");
    EXPECT_TRUE(one.state() == state && two.state() == other) << "the generators are put back";
    EXPECT_EQ(contents(), before);
    std::int32_t wanted = before[0];
    std::uint64_t next = state.offset;
    for (const Generator::State& s : {state, other, state}) {
      const std::uint64_t offset = s.seed == 7 ? next : s.offset;
      if (s.seed == 7) next += 3;
      wanted += static_cast<std::int32_t>(random_words(s.seed, offset)[0] % 1000);
    }
    graph.launch(stream, graph.values());
    EXPECT_EQ(contents()[0], wanted) << "the next step draws what it would have drawn";
  }
}

TEST_P(SelfChecks, ATolerancePassesWhatIsNear) {
  Capture capture(stream);
  stream.launch(own.kernel("drift"), {}, memory.tensor<float>());
  const ExecutableGraph graph = capture.end().instantiate();
  EXPECT_FALSE(self_check(graph, stream, graph.values()).equal);
  EXPECT_TRUE(self_check(graph, stream, graph.values(), {.tolerance = 0.01}).equal);
  EXPECT_FALSE(self_check(graph, stream, graph.values(), {.tolerance = 0.0001}).equal);
  expect_error(ErrorCode::kInvalidArgument, "tolerance of at least 0",
               [&] { (void)self_check(graph, stream, graph.values(), {.tolerance = -1}); });
}

TEST_P(SelfChecks, WhatCannotRunAgainIsRefusedAndFailuresRestoreTheMemory) {
  int calls = 0;
  {
    Capture capture(stream, "asking");
    stream.host_function([&] { ++calls; }, "print");
    const ExecutableGraph graph = capture.end().instantiate();
    expect_error(ErrorCode::kUnsupported, "node 0 ('print') of graph 'asking' cannot be run again",
                 [&] { (void)self_check(graph, stream, graph.values()); });
    EXPECT_EQ(calls, 0);
  }
  Capture capture(stream);
  stream.launch(module.kernel("put"), {}, at(0), 9);
  stream.launch(module.kernel("throws"), {}, at(0));
  const ExecutableGraph graph = capture.end().instantiate();
  expect_error(ErrorCode::kKernelFailed, "boom", [&] { (void)self_check(graph, stream, graph.values()); });
  EXPECT_EQ(contents(), std::vector<std::int32_t>(16, 1));
}

INSTANTIATE_TEST_SUITE_P(Devices, SelfChecks, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
