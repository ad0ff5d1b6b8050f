// Operations applied several times, and values that kernels were not specialised for.
#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Operations : public GraphOn {};

TEST_P(Operations, EqualInputsAreEvaluatedOnce) {
  std::int32_t out[3]{}, calls = 0;
  Capture capture(stream);
  const auto a = capture.parameter<std::int32_t>("a"), b = capture.parameter<std::int32_t>("b"),
             c = capture.parameter<std::int32_t>("c");
  const Operation square =
      capture.operation("square", {a}, {OutputSpec::argument(ArgKind::kI32)}, [&calls](OperationCall& call) {
        ++calls;
        call.set(0, call.input<std::int32_t>(0) * call.input<std::int32_t>(0));
      });
  const Operation of_b = capture.apply(square, {b}), of_c = capture.apply(of_b, {c});
  stream.launch(module.kernel("put"), {}, &out[0], square.output<std::int32_t>(0));
  stream.launch(module.kernel("put"), {}, &out[1], of_b.output<std::int32_t>(0));
  stream.launch(module.kernel("put"), {}, &out[2], of_c.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  struct Case {
    std::int32_t a, b, c, calls;
  };
  for (const Case& x : {Case{2, 2, 2, 1}, Case{2, 3, 2, 2}, Case{2, 3, 3, 2}, Case{2, 3, 4, 3}, Case{5, 5, 6, 2}}) {
    calls = 0;
    values.set(a, x.a);
    values.set(b, x.b);
    values.set(c, x.c);
    const std::uint64_t before = graph.counters().operation_calls;
    graph.launch(stream, values);
    stream.synchronize();
    EXPECT_EQ(out[0], x.a * x.a);
    EXPECT_EQ(out[1], x.b * x.b);
    EXPECT_EQ(out[2], x.c * x.c);
    EXPECT_EQ(calls, x.calls) << x.a << " " << x.b << " " << x.c;
    EXPECT_EQ(graph.counters().operation_calls - before, static_cast<std::uint64_t>(x.calls));
  }
}

TEST_P(Operations, ApplyingAgainIsChecked) {
  Capture capture(stream, "g");
  const auto a = capture.parameter<std::int32_t>("a");
  const auto f = capture.parameter<float>("f");
  const Operation twice = capture.operation("twice", {a}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); });
  expect_error(ErrorCode::kInvalidArgument, "'twice' was applied to inputs of other types",
               [&] { (void)capture.apply(twice, {f}); });
  expect_error(ErrorCode::kInvalidArgument, "it has 1 inputs", [&] { (void)capture.apply(twice, {a, a}); });
  const Stream second = device.create_stream();
  Capture other(second, "other");
  const auto b = other.parameter<std::int32_t>("b");
  expect_error(ErrorCode::kInvalidNode, "another capture", [&] { (void)other.apply(twice, {b}); });
}

// What is known at the launch is refused before anything is submitted; what an operation finds leaves the step open.
TEST_P(Operations, ValuesThatKernelsWereNotSpecialisedForAreRefused) {
  const Kernel put = module.kernel("put", parse_signature("tensor<i32>, i32 range=0..10"));
  std::int32_t direct = -1, computed = -1;
  Capture capture(stream, "ranged");
  const auto n = capture.parameter<std::int32_t>("n", 1);
  const Operation twice = capture.operation("twice", {n}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); });
  stream.launch(put, {}, &direct, n);
  stream.launch(put, {}, &computed, twice.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(n, 5);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(direct, 5);
  EXPECT_EQ(computed, 10);

  values.set(n, 11);
  const std::uint64_t before = stream.submitted();
  expect_error(ErrorCode::kInvalidArgument, "'n' of graph 'ranged'", [&] { graph.launch(stream, values); });
  EXPECT_EQ(stream.submitted(), before);

  values.set(n, 6);
  std::uint64_t step = 0;
  try {
    graph.launch(stream, values);
    ADD_FAILURE() << "12 was taken";
  } catch (const Error& error) {
    EXPECT_TRUE(error.submitted());
    EXPECT_NE(std::string(error.what()).find("12, and the kernel was specialised for 0 to 10"), std::string::npos)
        << error.what();
    step = graph.counters().launches;
  }
  graph.cancel({step}, "too long");
  expect_error(ErrorCode::kCancelled, "too long", [&] { stream.synchronize(); });
  graph.recover();
  values.set(n, 2);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(computed, 4);
}

TEST_P(Operations, ScratchIsTheExecutablesOwnAndBounded) {
  std::int32_t seen[2]{};
  Capture capture(stream, "scratchy");
  const auto n = capture.parameter<std::int32_t>("n", 1);
  const Operation plan = capture.operation("plan", {n}, {OutputSpec::scratch(64), OutputSpec::argument(ArgKind::kI32)},
                                           [](OperationCall& call) {
                                             const auto value = call.input<std::int32_t>(0);
                                             call.set_scratch(0, static_cast<std::uint64_t>(value) * 4);
                                             call.set(1, value);
                                           });
  const Operation again = capture.apply(plan, {n});
  stream.launch(module.kernel("put"), {}, plan.output_ref(0), plan.output<std::int32_t>(1));
  stream.launch(module.kernel("put"), {}, again.output_ref(0), 100);
  stream.launch(module.kernel("sum"), {}, &seen[0], plan.output_ref(0), again.output_ref(0));
  const GraphDefinition definition = capture.end();
  const std::uint64_t before = device.counters().live_memory_bytes;
  {
    const ExecutableGraph a = definition.instantiate(), b = definition.instantiate();
    EXPECT_EQ(device.counters().live_memory_bytes, before + 4 * 64);
    StepValues values = a.values();
    for (const std::int32_t value : {3, 16}) {
      values.set(n, value);
      a.launch(stream, values);
      stream.synchronize();
      EXPECT_EQ(seen[0], value + 100);  // two scratches, although the second evaluation was taken over
    }
    values.set(n, 17);
    std::uint64_t step = 0;
    try {
      a.launch(stream, values);
      ADD_FAILURE() << "68 bytes were given";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
      EXPECT_NE(std::string(error.what()).find("68 bytes of scratch and has declared at most 64"), std::string::npos)
          << error.what();
      step = a.counters().launches;
    }
    a.cancel({step}, "too much");
    expect_error(ErrorCode::kCancelled, "too much", [&] { stream.synchronize(); });
    a.recover();
  }
  // The watchdog's thread may hold it for a moment.
  for (int i = 0; i < 5000 && device.counters().live_memory_bytes != before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    device.synchronize();
  }
  EXPECT_EQ(device.counters().live_memory_bytes, before);
}

INSTANTIATE_TEST_SUITE_P(Devices, Operations, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
