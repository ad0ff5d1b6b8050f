// Conditional nodes: what is refused, what is watched, and what dumps and traces say of them.
#include <optional>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

void draw(std::int32_t* out, std::uint64_t seed, std::uint64_t offset) {
  out[0] = static_cast<std::int32_t>(random_words(seed, offset)[0]);
}

class ConditionalCaptures : public GraphOn {
 protected:
  const Module own = device.load_table({kernel<&draw>("draw")});
  GraphBody puts(std::int32_t value) {
    return [this, value](const Stream& s) { s.launch(module.kernel("put"), {}, &y, value); };
  }
  // After each refusal the stream works.
  void expect_usable() {
    stream.launch(module.kernel("put"), {}, &x, 77);
    stream.synchronize();
    EXPECT_EQ(x, 77);
    x = 0;
  }
  std::int32_t x = 0, y = 0;
};

TEST_P(ConditionalCaptures, RefuseBadConditionsAndStayValid) {
  const Memory memory = device.allocate(64);
  float f = 0;
  Capture capture(stream, "g");
  const auto refuses = [&](ErrorCode code, const char* words, const Condition& condition) {
    expect_error(code, words, [&] { capture.if_node(stream, condition, puts(1)); });
  };
  refuses(ErrorCode::kInvalidArgument, "the condition of an 'if' in the capture 'g' is the null address",
          Condition(kNullDevicePtr, DType::kI32));
  refuses(ErrorCode::kInvalidArgument, "of type f32; a condition is a bool, i32 or u32", &f);
  refuses(ErrorCode::kInvalidArgument, "of type unknown", Condition(memory.address(), DType::kUnknown));
  refuses(ErrorCode::kOutOfRange, "has only 2 left", Condition(offset(memory.address(), 62), DType::kI32));
  refuses(ErrorCode::kInvalidArgument, "lies 2 past a multiple", Condition(offset(memory.address(), 6), DType::kU32));
  expect_error(ErrorCode::kInvalidArgument, "a null body", [&] { capture.if_node(stream, &x, nullptr); });
  expect_error(ErrorCode::kInvalidArgument, "no bodies", [&] { capture.switch_node(stream, &x, {}); });
  expect_error(ErrorCode::kInvalidArgument, "a limit of 0 turns", [&] { capture.while_node(stream, &x, puts(1), 0); });
  const Stream other = device.create_stream();
  expect_error(ErrorCode::kInvalidArgument, "not part of the capture", [&] { capture.if_node(other, &x, puts(1)); });
  capture.if_node(stream, Condition(offset(memory.address(), 61), DType::kBool), puts(1));
  EXPECT_EQ(capture.end().node_count(), 2U);
  expect_error(ErrorCode::kFailedPrecondition, "has ended", [&] { capture.if_node(stream, &x, puts(1)); });
  expect_usable();
}

TEST_P(ConditionalCaptures, RefuseBadBodiesAndAreInvalidThen) {
  const Stream side = device.create_stream({.name = "side"});
  const Event event = device.create_event(), fork = device.create_event();
  const auto refuses = [&](ErrorCode code, const char* words, const std::function<void(Capture&)>& node) {
    {
      Capture capture(stream, "g");
      stream.mark(fork);
      side.wait(fork);
      expect_error(code, words, [&] { node(capture); });
      expect_error(code, "the capture 'g'", [&] { (void)capture.end(); });
    }
    expect_usable();
  };
  refuses(ErrorCode::kFailedPrecondition, "whose body 0 has no work",
          [&](Capture& c) { c.if_node(stream, &x, [](const Stream&) {}); });
  refuses(ErrorCode::kFailedPrecondition, "whose body 1 has no work",
          [&](Capture& c) { c.if_else_node(stream, &x, puts(1), [](const Stream&) {}); });
  refuses(ErrorCode::kFailedPrecondition, "got work of another stream ('side')", [&](Capture& c) {
    c.while_node(stream, &x, [&](const Stream&) { side.launch(module.kernel("put"), {}, &y, 1); });
  });
  refuses(ErrorCode::kFailedPrecondition, "got an event mark",
          [&](Capture& c) { c.if_node(stream, &x, [&](const Stream& s) { s.mark(event); }); });
  refuses(ErrorCode::kFailedPrecondition, "got an event wait",
          [&](Capture& c) { c.if_node(stream, &x, [&](const Stream& s) { s.wait(fork); }); });
  refuses(ErrorCode::kFailedPrecondition, "was to end inside a body",
          [&](Capture& c) { c.if_node(stream, &x, [&](const Stream&) { (void)c.end(); }); });
  // A step takes its positions once, whatever way it goes.
  const Generator generator(7);
  const auto draws = [&](const Stream& s) {
    const RandomDraw taken = generator.take(s, 2);
    s.launch(own.kernel("draw"), {}, &y, taken.seed, taken.offset);
  };
  refuses(ErrorCode::kUnsupported, "took random numbers in a body of the conditional node 'while'",
          [&](Capture& c) { c.while_node(stream, &x, draws); });
  Capture inner(stream, "drawing");
  draws(stream);
  const ExecutableGraph drawing = inner.end().instantiate();
  refuses(ErrorCode::kUnsupported, "was given the graph 'drawing', which takes random numbers, in a body",
          [&](Capture& c) { c.if_node(stream, &x, [&](const Stream& s) { drawing.launch(s); }); });
  // One that swallows the error is no better off.
  refuses(ErrorCode::kFailedPrecondition, "synchronize", [&](Capture& c) {
    c.if_node(stream, &x, [&](const Stream& s) {
      puts(1)(s);
      EXPECT_THROW(s.synchronize(), Error);
    });
  });
  {
    Capture capture(stream, "g");
    EXPECT_THROW(capture.if_node(stream, &x,
                                 [&](const Stream& s) {
                                   puts(1)(s);
                                   throw std::logic_error("of the caller");
                                 }),
                 std::logic_error);
    expect_error(ErrorCode::kFailedPrecondition, "that threw: of the caller", [&] { (void)capture.end(); });
  }
  expect_usable();
}

TEST_P(ConditionalCaptures, NestSixteenDeepAndNoDeeper) {
  const std::function<void(Capture&, const Stream&, int)> nest = [&](Capture& c, const Stream& s, int depth) {
    if (depth == 0) return puts(5)(s);
    c.if_node(s, &x, [&](const Stream& inner) { nest(c, inner, depth - 1); });
  };
  Capture deepest(stream, "deep");
  nest(deepest, stream, 16);
  const ExecutableGraph graph = deepest.end().instantiate();
  x = 1;
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(y, 5);
  {
    Capture capture(stream);
    expect_error(ErrorCode::kOutOfRange, "inside 16 other", [&] { nest(capture, stream, 17); });
  }
  Capture capture(stream);
  expect_error(ErrorCode::kOutOfRange, "would then be 17 deep",
               [&] { capture.if_node(stream, &x, [&](const Stream& s) { graph.launch(s); }); });
}

TEST_P(ConditionalCaptures, TheMemoryOfAConditionIsWatched) {
  std::optional<Memory> memory(device.allocate(256));
  Capture capture(stream, "watching");
  capture.while_node(stream, memory->tensor<std::int32_t>(3), puts(1));
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate();
  Capture again(stream, "parent");
  graph.launch(stream);
  const ExecutableGraph parent = again.end().instantiate();
  stream.fill(memory->address(), 0, 4, 64);
  graph.launch(stream);
  parent.launch(stream);
  stream.synchronize();
  memory.reset();
  const std::uint64_t before = stream.submitted();
  expect_error(ErrorCode::kStaleAddress, "the condition of a 'while' in graph 'watching'",
               [&] { graph.launch(stream); });
  expect_error(ErrorCode::kStaleAddress, "in graph 'parent'", [&] { parent.launch(stream); });
  EXPECT_EQ(stream.submitted(), before);
}

TEST_P(ConditionalCaptures, DumpsTellWhatIsInWhichBody) {
  Capture capture(stream, "dumped");
  puts(1)(stream);
  capture.while_node(
      stream, &x,
      [&](const Stream& s) {
        capture.switch_node(s, &y, {puts(2), nullptr, puts(3)});
      },
      50);
  puts(4)(stream);
  const GraphDefinition definition = capture.end();
  const std::string text = definition.dump();
  for (const char* line : {"1 while while on", "i32 condition, at most 50 turns, after 0\n", "2 switch switch on",
                           "i32 condition, 3 bodies, after 1, in body 0 of 1\n", "grid 1, after 2, in body 0 of 2\n",
                           "grid 1, after 2, in body 2 of 2\n", "grid 1, after 1, 2, 3, 4\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  const std::string json = definition.dump(GraphDefinition::Format::kJson);
  EXPECT_NE(json.find("\"inside\": 2, \"body\": 2}"), std::string::npos) << json;
  const std::string dot = definition.dump(GraphDefinition::Format::kGraphviz);
  EXPECT_NE(dot.find("subgraph cluster_1_0 { label=\"while, body 0\"; n2; subgraph cluster_2_0"), std::string::npos)
      << dot;
}

TEST_P(ConditionalCaptures, TheTimelineHasEachTurn) {
  Capture capture(stream, "traced");
  const auto v = capture.parameter<std::int32_t>("v", 3);
  capture.while_node(
      stream, &x, [&](const Stream& s) { s.launch(module.kernel("put"), {}, &x, v); }, 2);
  const ExecutableGraph graph = capture.end().instantiate();
  device.start_timeline();
  x = 1;
  StepValues values = graph.values();
  values.set(v, 0);
  graph.launch(stream, values);
  stream.synchronize();
  int conditions = 0, launches = 0;
  for (const TimelineEntry& entry : device.stop_timeline()) {
    if (entry.kind != TimelineEntry::Kind::kNode) continue;
    EXPECT_EQ(entry.subject, "traced");
    EXPECT_EQ(entry.step, 1U);
    EXPECT_LE(entry.started_ns, entry.ended_ns);
    conditions += entry.name == "while" ? 1 : 0;
    launches += entry.name == "put" ? 1 : 0;
  }
  EXPECT_EQ(conditions, 2);
  EXPECT_EQ(launches, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, ConditionalCaptures,
                         ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
