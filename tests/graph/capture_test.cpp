#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

using Capturing = GraphOn;

struct Pair {
  std::int32_t a = 0;
  double b = 0;
};
void put_pair(Pair* out, Pair value) { *out = value; }

TEST_P(Capturing, RecordsAndDoesNotRun) {
  std::int32_t x = 0;
  Capture capture(stream);
  stream.launch(module.kernel("put"), {}, &x, 7);
  const GraphDefinition definition = capture.end();
  stream.synchronize();
  EXPECT_EQ(x, 0);
  EXPECT_EQ(definition.node_count(), 1u);
  const ExecutableGraph graph = definition.instantiate();
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(x, 7);
}

// B03: two nodes of one kernel keep their own arguments.
TEST_P(Capturing, B03NodesOfOneKernelKeepTheirArguments) {
  float in = 10, a = 0, b = 0;
  Capture capture(stream);
  const auto c = capture.parameter<float>("c", 1);
  stream.launch(module.kernel("add"), {}, &in, &a, c);
  stream.launch(module.kernel("add"), {}, &in, &b, 2.0f);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(a, 11);
  EXPECT_EQ(b, 12);
  values.set(c, 5.0f);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(a, 15);
  EXPECT_EQ(b, 12);
}

// A parameter may be whatever a kernel takes by value, and an operation may read it.
TEST_P(Capturing, StructsAreParametersToo) {
  Pair seen, mirrored;
  const Kernel put = device.load_table({kernel<&put_pair>("put_pair")}).kernel("put_pair");
  Capture capture(stream);
  const auto pair = capture.parameter<Pair>("pair", {1, 2.5});
  const Operation mirror =
      capture.operation("mirror", {pair}, {OutputSpec::bytes(sizeof(Pair), alignof(Pair))}, [](OperationCall& call) {
        const auto value = call.input<Pair>(0);
        call.set(0, Pair{-value.a, -value.b});
      });
  stream.launch(put, {}, &seen, pair);
  stream.launch(put, {}, &mirrored, mirror.output<Pair>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (const Pair expected : {Pair{1, 2.5}, Pair{7, -0.5}}) {
    if (expected.a != 1) values.set(pair, expected);  // the initial value first
    graph.launch(stream, values);
    stream.synchronize();
    EXPECT_EQ(seen.a, expected.a);
    EXPECT_EQ(seen.b, expected.b);
    EXPECT_EQ(mirrored.a, -expected.a);
    EXPECT_EQ(mirrored.b, -expected.b);
  }
}

// B32: executables of one definition are independent.
TEST_P(Capturing, B32ExecutablesAreIndependent) {
  float in = 10, a = 0;
  Capture capture(stream);
  const auto c = capture.parameter<float>("c", 1);
  stream.launch(module.kernel("add"), {}, &in, &a, c);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph first = definition.instantiate(), second = definition.instantiate();
  StepValues values = first.values();
  values.set(c, 10.0f);
  first.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(a, 20);
  second.launch(stream, second.values());
  stream.synchronize();
  EXPECT_EQ(a, 11);
}

// B11: what a captured copy reads is kept by the graph, and host functions run on every replay.
TEST_P(Capturing, B11CapturedCopiesAndHostFunctionsLast) {
  const Memory memory = device.allocate(64 << 10);
  std::vector<float> small(3), large(16 << 10), seen(16 << 10);
  int calls = 0;
  Capture capture(stream);
  {
    std::vector<float> source{1, 2, 3};
    stream.copy_to_device(memory.address(), source.data(), 12);
    std::vector<float> big(16 << 10, 4.0f);  // staged
    stream.copy_to_device(offset(memory.address(), 12), big.data() + 3, big.size() * 4 - 12);
    stream.host_function([&calls] { ++calls; }, "counts");
    std::fill(source.begin(), source.end(), 9.0f);
    std::fill(big.begin(), big.end(), 9.0f);
  }
  const ExecutableGraph graph = capture.end().instantiate();
  for (int i = 0; i < 5; ++i) {
    stream.fill(memory.address(), 0, 4, 16 << 10);
    graph.launch(stream);
    stream.copy_to_host(seen.data(), memory.address(), 64 << 10);
    stream.synchronize();
    EXPECT_EQ(seen[0], 1);
    EXPECT_EQ(seen[2], 3);
    EXPECT_EQ(seen[3], 4);
    EXPECT_EQ(seen.back(), 4);
  }
  EXPECT_EQ(calls, 5);
}

// B19: a failed or abandoned capture leaves everything as it was.
TEST_P(Capturing, B19AbandonedCapturesLeaveTheStreamUsable) {
  std::int32_t x = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      Capture capture(stream);
      stream.launch(module.kernel("put"), {}, &x, 1);
      throw std::runtime_error("boom");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "boom");
    }
  }
  stream.launch(module.kernel("put"), {}, &x, 2);
  stream.synchronize();
  EXPECT_EQ(x, 2);
  Capture capture(stream);
  stream.launch(module.kernel("put"), {}, &x, 3);
  capture.end().instantiate().launch(stream);
  stream.synchronize();
  EXPECT_EQ(x, 3);
}

TEST_P(Capturing, RefusesWhatItCannotKeepByName) {
  std::int32_t x = 0;
  const Event outside = device.create_event();
  stream.mark(outside);
  {
    Capture capture(stream, "refused");
    expect_error(ErrorCode::kFailedPrecondition, "synchronize", [&] { stream.synchronize(); });
    expect_error(ErrorCode::kFailedPrecondition, "synchronize", [&] { (void)capture.end(); });
  }
  {
    Capture capture(stream, "refused");
    expect_error(ErrorCode::kFailedPrecondition, "was not marked inside", [&] { stream.wait(outside); });
  }
  {
    Capture capture(stream, "refused");
    expect_error(ErrorCode::kFailedPrecondition, "captured already", [&] { Capture again(stream); });
  }
  stream.launch(module.kernel("put"), {}, &x, 4);
  stream.synchronize();
  EXPECT_EQ(x, 4);
  Capture capture(stream, "first");
  const auto p = capture.parameter<std::int32_t>("p");
  expect_error(ErrorCode::kInvalidArgument, "already", [&] { (void)capture.parameter<std::int32_t>("p"); });
  (void)capture.end();
  expect_error(ErrorCode::kFailedPrecondition, "not being captured",
               [&] { stream.launch(module.kernel("put"), {}, &x, p); });
}

TEST_P(Capturing, ForksJoinAndUnjoinedStreamsAreNamed) {
  std::vector<std::int32_t> list(16, 0);
  const Stream side = device.create_stream({.name = "side"});
  const Event fork = device.create_event(), join = device.create_event();
  {
    Capture capture(stream);
    stream.mark(fork);
    side.wait(fork);
    side.launch(module.kernel("append"), {}, list.data(), 1);
    expect_error(ErrorCode::kFailedPrecondition, "'side'", [&] { (void)capture.end(); });
  }
  Capture capture(stream);
  stream.launch(module.kernel("append"), {}, list.data(), 1);
  stream.mark(fork);
  side.wait(fork);
  side.launch(module.kernel("append"), {}, list.data(), 2);
  side.mark(join);
  stream.wait(join);
  stream.launch(module.kernel("append"), {}, list.data(), 3);
  const GraphDefinition definition = capture.end();
  side.synchronize();
  definition.instantiate().launch(stream);
  stream.synchronize();
  EXPECT_EQ(list[0], 3);
  EXPECT_EQ(list[1], 1);
  EXPECT_EQ(list[2], 2);
  EXPECT_EQ(list[3], 3);
}

TEST_P(Capturing, GraphsOutliveTheHandlesOfWhatTheyUse) {
  std::int32_t x = 0;
  ExecutableGraph graph;
  {
    const Module own = load(device);
    Capture capture(stream);
    stream.launch(own.kernel("put"), {}, &x, 6);
    graph = capture.end().instantiate();
  }
  for (int i = 0; i < 50; ++i) (void)load(device);
  graph.launch(stream);
  graph = {};
  stream.synchronize();
  EXPECT_EQ(x, 6);
  (void)device.counters();
  EXPECT_EQ(device.counters().modules_loaded - device.counters().modules_unloaded, 1u);
}

TEST_P(Capturing, DumpsNameWhatIsInside) {
  std::int32_t x = 0;
  Capture capture(stream, "dump \"me\"");
  const auto p = capture.parameter<std::int32_t>("length");
  stream.launch(module.kernel("put"), {}, &x, p);
  const GraphDefinition definition = capture.end();
  EXPECT_NE(definition.dump().find("parameter length: i32"), std::string::npos) << definition.dump();
  EXPECT_NE(definition.dump(GraphDefinition::Format::kJson).find("\"dump \\\"me\\\"\""), std::string::npos);
  EXPECT_NE(definition.dump(GraphDefinition::Format::kGraphviz).find("digraph"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, Capturing, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
