// Graphs launched inside a capture become a part of it.
#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Nested : public GraphOn {
 protected:
  struct Child {
    std::vector<std::int32_t> list = std::vector<std::int32_t>(5000);
    std::int32_t external = 0;
    GraphDefinition definition;
    ExecutableGraph graph;
  };
  // Appends x, then x + y by an operation; keeps x + y by an external operation.
  void make(Child& c, const std::string& name = "child") {
    Capture capture(stream, name);
    const auto x = capture.parameter<std::int32_t>("x", 1), y = capture.parameter<std::int32_t>("y", 2);
    const Operation sum = capture.operation(
        "sum", {x, y}, {OutputSpec::argument(ArgKind::kI32)},
        [](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) + call.input<std::int32_t>(1)); });
    stream.launch(module.kernel("append"), {}, c.list.data(), x);
    capture.external(stream, "keep", {sum.output<std::int32_t>(0)},
                     [&c](ExternalCall& call) { c.external = call.input<std::int32_t>(0); });
    stream.launch(module.kernel("append"), {}, c.list.data(), sum.output<std::int32_t>(0));
    c.definition = capture.end();
    c.graph = c.definition.instantiate();
  }
};

TEST_P(Nested, ALaunchedGraphBecomesAPartWithItsParameters) {
  Child c;
  make(c);
  std::int32_t own = 0;
  GraphDefinition definition;
  ScalarParameter<std::int32_t> z;
  {
    StepValues initial = c.graph.values();
    initial.set(c.definition.parameter<std::int32_t>("y"), 20);
    Capture capture(stream, "parent");
    z = capture.parameter<std::int32_t>("z", 7);
    stream.launch(module.kernel("append"), {}, c.list.data(), z);
    c.graph.launch(stream, initial);
    c.graph.launch(stream, c.graph.values());
    stream.launch(module.kernel("put"), {}, &own, z);
    definition = capture.end();
  }
  c.graph = {};
  c.definition = {};  // what it holds lives on in the parent
  EXPECT_EQ(definition.node_count(), 8U);
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(std::vector<std::int32_t>(c.list.begin(), c.list.begin() + 6),
            (std::vector<std::int32_t>{5, 7, 1, 21, 1, 3}));
  EXPECT_EQ(c.external, 3);
  EXPECT_EQ(own, 7);

  values.set(definition.parameter<std::int32_t>("child/x"), 100);
  values.set(definition.parameter<std::int32_t>("child#2/y"), 50);
  values.set(z, 8);
  for (int i = 0; i < 200; ++i) {
    c.list[0] = 0;
    graph.launch(stream, values);
    stream.synchronize();
    ASSERT_EQ(std::vector<std::int32_t>(c.list.begin(), c.list.begin() + 6),
              (std::vector<std::int32_t>{5, 8, 100, 120, 1, 51}));
    ASSERT_EQ(c.external, 51);
  }
}

TEST_P(Nested, ChildrenOfChildrenAndOfForks) {
  Child c;
  make(c, "inner");
  const Stream side = device.create_stream();
  const Event fork = device.create_event(), join = device.create_event();
  std::int32_t beside = 0;
  GraphDefinition middle;
  {
    Capture capture(stream, "middle");
    stream.mark(fork);
    side.wait(fork);
    const auto b = capture.parameter<std::int32_t>("b", 5);
    side.launch(module.kernel("put"), {}, &beside, b);
    side.mark(join);
    c.graph.launch(stream, c.graph.values());
    stream.wait(join);
    middle = capture.end();
  }
  GraphDefinition outer;
  {
    const ExecutableGraph graph = middle.instantiate();
    Capture capture(stream, "outer");
    graph.launch(stream, graph.values());
    outer = capture.end();
  }
  middle = {};
  const ExecutableGraph graph = outer.instantiate();
  StepValues values = graph.values();
  values.set(outer.parameter<std::int32_t>("middle/inner/x"), 30);
  values.set(outer.parameter<std::int32_t>("middle/b"), 6);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(beside, 6);
  EXPECT_EQ(c.list[0], 2);
  EXPECT_EQ(c.list[1], 30);
  EXPECT_EQ(c.list[2], 32);
  EXPECT_EQ(c.external, 32);
}

TEST_P(Nested, WhatCannotBeAPartIsRefused) {
  Child c;
  make(c);
  {
    Capture capture(stream, "parent");
    expect_error(ErrorCode::kUnsupported, "without values", [&] { (void)c.graph.launch_open(stream); });
  }
  c.graph.launch(stream, c.graph.values());  // both work as before
  stream.synchronize();
  EXPECT_EQ(c.list[0], 2);
  expect_error(ErrorCode::kInvalidArgument, "has no parameter 'q' of type i32; it has: x: i32, y: i32",
               [&] { (void)c.definition.parameter<std::int32_t>("q"); });
  expect_error(ErrorCode::kInvalidArgument, "has no parameter 'x' of type f32",
               [&] { (void)c.definition.parameter<float>("x"); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Nested, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
