// Update plans: validated once, resolved in each step.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

struct Lengths {
  std::int64_t values[4];
};
inline void put_lengths(std::int64_t* out, Lengths lengths) { std::copy_n(lengths.values, 4, out); }
inline void put_both(float* out, float scale, bool on) { out[0] = on ? scale : -1; }

// Two applications of 'attention' and one of 'scaling', each with launches that take what it computes.
class Plans : public ::testing::Test {
 protected:
  Plans() : device(Device::open("cpu:inline")), stream(device.create_stream()) {
    module =
        device.load_table({kernel<&put>("put"), kernel<&put_lengths>("put_lengths"), kernel<&put_both>("put_both")});
    memory = device.allocate(1024);
    Capture capture(stream, "model");
    const auto length = capture.parameter<std::int32_t>("length", 1),
               other = capture.parameter<std::int32_t>("other", 2);
    const auto lengths = capture.parameter<Lengths>("lengths");
    const auto scale = capture.parameter<float>("scale", 1), unused = capture.parameter<float>("unused", 7);
    const auto on = capture.parameter<bool>("on", true);
    const auto out = capture.parameter<const float*>("out", nullptr);
    const auto attend = [this](OperationCall& call) {
      ++evaluations;
      if (refuse) throw std::runtime_error("refused");
      call.set(0, call.input<std::int32_t>(0) * 10);
      call.set(1, call.input<Lengths>(1));
    };
    const Operation first =
        capture.operation("attention.default", {length, lengths},
                          {OutputSpec::argument(ArgKind::kI32), OutputSpec::bytes(sizeof(Lengths), 8)}, attend);
    const Operation second = capture.apply(first, {other, lengths});
    const Operation scaling = capture.operation(
        "scaling", {scale, on, out, first.output<std::int32_t>(0)}, {OutputSpec::argument(ArgKind::kF32)},
        [](OperationCall& call) { call.set(0, call.input<float>(0) + (call.input<const float*>(2) ? 0.5F : 0)); });
    stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(0), first.output<std::int32_t>(0));
    stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(1), second.output<std::int32_t>(0));
    stream.launch(module.kernel("put_lengths"), {}, memory.tensor<std::int64_t>(8), first.output<Lengths>(1));
    stream.launch(module.kernel("put_both"), {}, memory.tensor<float>(4), scaling.output<float>(0), on);
    (void)unused;
    definition = capture.end();
    graph = definition.instantiate();
    values = graph.values();
  }

  static UpdateEntry attention(UpdateSource length, UpdateSource lengths) {
    return {"attention", {{"length", std::move(length)}, {"lengths", std::move(lengths)}}};
  }
  static UpdateEntry scaling(UpdateSource scale) { return {"scaling.out", {{"scale", std::move(scale)}}}; }
  static UpdateSource list_of(std::initializer_list<UpdateValue> items) {
    return UpdateSource::constant(UpdateValue::list(items));
  }
  BoundUpdatePlan three(UpdateSource length = UpdateSource::input(0), UpdateSource lengths = UpdateSource::input(1),
                        UpdateSource scale = UpdateSource::input(2)) {
    return UpdatePlan({attention(length, lengths), attention(UpdateSource::constant(4), lengths), scaling(scale)})
        .bind(definition);
  }
  void refuses(const std::string& words, std::vector<UpdateEntry> entries) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] { UpdatePlan(std::move(entries)).bind(definition); });
  }
  std::int32_t number(std::size_t at) const { return reinterpret_cast<const std::int32_t*>(memory.address())[at]; }
  float real(std::size_t at) const { return reinterpret_cast<const float*>(memory.address())[at]; }
  std::int64_t length_at(std::size_t at) const {
    return reinterpret_cast<const std::int64_t*>(memory.address())[8 + at];
  }

  Device device;
  Stream stream;
  Module module;
  Memory memory;
  GraphDefinition definition;
  ExecutableGraph graph;
  StepValues values;
  int evaluations = 0;
  bool refuse = false;
};

const UpdateValue kFour = UpdateValue::list({1, 2, 3, 4});

TEST_F(Plans, InputsConstantsNoneAndListsReachTheirParameters) {
  const BoundUpdatePlan plan =
      three(UpdateSource::input(2),
            UpdateSource::list({UpdateSource::input(0),
                                UpdateSource::constant(UpdateValue::list({20, UpdateValue::list({30})})),
                                UpdateSource::list({UpdateSource::input(1)})}),
            UpdateSource::constant(2.5));
  const std::array<UpdateValue, 3> inputs{10, 40, 6};
  EXPECT_TRUE(plan.resolve(inputs, values));
  graph.launch(stream, values);
  EXPECT_EQ(number(0), 60);
  EXPECT_EQ(number(1), 40);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(length_at(i), std::int64_t(10 * (i + 1)));
  EXPECT_EQ(real(4), 2.5F);
  // none: an absent list, and the null address
  const BoundUpdatePlan absent =
      UpdatePlan({attention(UpdateSource::constant(1), UpdateSource::none()),
                  attention(UpdateSource::constant(1), UpdateSource::none()),
                  {"scaling", {{"out", UpdateSource::none()}, {"on", UpdateSource::constant(false)}}}})
          .bind(definition);
  EXPECT_TRUE(absent.resolve({}, values));
  graph.launch(stream, values);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(length_at(i), 0);
  EXPECT_EQ(real(4), -1.0F);
  // strings are padded with zeros, addresses are inputs
  const BoundUpdatePlan text = UpdatePlan({attention(UpdateSource::constant(1), UpdateSource::constant("abc")),
                                           attention(UpdateSource::constant(1), UpdateSource::constant("abc")),
                                           {"scaling",
                                            {{"out", UpdateSource::input(0)},
                                             {"on", UpdateSource::constant(true)},
                                             {"scale", UpdateSource::input(1)}}}})
                                   .bind(definition);
  EXPECT_TRUE(text.resolve(std::array<UpdateValue, 2>{memory.address(), 3U}, values));
  graph.launch(stream, values);
  EXPECT_EQ(length_at(0), 0x636261);
  EXPECT_EQ(length_at(1), 0);
  EXPECT_EQ(real(4), 3.5F);
}

TEST_F(Plans, ReadFromJsonAreThePlansOfCode) {
  const auto plan = UpdatePlan::from_json(R"( [
    {"op": "attention.out", "updates": {"length": {"kind": "input", "index": 0},
        "lengths": {"kind": "list", "items": [{"kind": "constant", "value": [1, [2]]}, {"kind": "input", "index": 1}]}}},
    {"op": "attention", "updates": {"length": {"kind": "constant", "value": -3}}},
    {"op": "scaling", "updates": {"scale": {"kind": "constant", "value": 1e-1}, "out": {"kind": "none"},
        "on": {"kind": "constant", "value": true}}}])");
  ASSERT_EQ(plan.entries().size(), 3U);
  EXPECT_EQ(plan.entries()[0].operation, "attention.out");
  const BoundUpdatePlan bound = plan.bind(definition);
  EXPECT_TRUE(bound.resolve(std::array<UpdateValue, 2>{5, UpdateValue::list({3, 4})}, values));
  graph.launch(stream, values);
  EXPECT_EQ(number(0), 50);
  EXPECT_EQ(number(1), -30);
  EXPECT_EQ(length_at(3), 4);
  EXPECT_EQ(real(4), 0.1F);
  EXPECT_EQ(UpdatePlan::from_json(R"([{"op":"\u00e4\ud83d\ude00","updates":{}}])").entries()[0].operation, "ä😀");
}

TEST_F(Plans, ThatDoNotFitTheGraphAreRefused) {
  const auto input = UpdateSource::input(0);
  refuses("there is none, and the graph has 3 operations", {});
  refuses("it has 2 entries for 3 operations", {attention(input, input), scaling(input)});
  refuses("entry 1 ('scaling.out') stands where the graph has the operation 'attention.default'",
          {attention(input, input), scaling(input), attention(input, input)});
  refuses("entry 2 ('scaling') updates nothing", {attention(input, input), attention(input, input), {"scaling", {}}});
  refuses("key 'width' of entry 2 ('scaling') is no parameter of the operation; it takes: scale, on, out",
          {attention(input, input), attention(input, input), {"scaling", {{"width", input}}}});
  // what another operation computes is no key
  refuses("key 'attention.default.0'",
          {attention(input, input), attention(input, input), {"scaling", {{"attention.default.0", input}}}});
  refuses("takes input -1", {attention(input, input), attention(input, input), scaling(UpdateSource::input(-1))});
  refuses("has a tensor as a constant", {attention(input, input),
                                         attention(input, input),
                                         {"scaling", {{"out", UpdateSource::constant(memory.address())}}}});
  refuses("got a string for the parameter 'scale', which is f32",
          {attention(input, input), attention(input, input), scaling(UpdateSource::constant("wide"))});
  refuses("got none for the parameter 'on', which is bool",
          {attention(input, input), attention(input, input), {"scaling", {{"on", UpdateSource::none()}}}});
  refuses("got a list for the parameter 'scale'",
          {attention(input, input), attention(input, input), scaling(UpdateSource::list({input}))});
  // one parameter has one value in a step
  refuses("key 'lengths' of entry 1 ('attention') gives the parameter 'lengths', to which key 'lengths' of entry 0",
          {attention(input, UpdateSource::input(1)), attention(input, UpdateSource::input(2)), scaling(input)});
  expect_error(ErrorCode::kOutOfRange, "got a list of 3 numbers, 24 bytes, and the parameter 'lengths' has 32", [&] {
    UpdatePlan({attention(input, list_of({1, 2, 3})), attention(input, list_of({1, 2, 3})), scaling(input)})
        .bind(definition);
  });
}

TEST_F(Plans, ThatAreNoneAreRefusedWithTheirPlace) {
  const std::pair<const char*, const char*> table[] = {
      {"{}", "an update plan has to be a list of entries"},
      {"[3]", "line 1, column 2: an entry has to be an object"},
      {R"([{"op": 7, "updates": {}}])", "'op' has to be a string"},
      {R"([{"op": "a", "updates": []}])", "'updates' has to be an object"},
      {R"([{"updates": {}}])", "lacks the member 'op'"},
      {"[{\"op\": \"a\", \"updates\":\n {\"k\": 3}}]", "line 2, column 8: a source has to be an object"},
      {R"([{"op": "a", "updates": {"k": {"kind": "input", "index": -1}}}])",
       "the index of an input has to be an integer"},
      {R"([{"op": "a", "updates": {"k": {"kind": "input", "index": 1.5}}}])",
       "the index of an input has to be an integer"},
      {R"([{"op": "a", "updates": {"k": {"kind": "input", "index": true}}}])",
       "the index of an input has to be an integer"},
      {R"([{"op": "a", "updates": {"k": {"kind": "constant", "value": {"tensor": 1}}}}])", "an object is no constant"},
      {R"([{"op": "a", "updates": {"k": {"kind": "list", "items": 3}}}])",
       "the items of a list source have to be a list"},
      {R"([{"op": "a", "updates": {"k": {"kind": "magic"}}}])", "'magic' is no kind of source"},
      {R"([{"op": "a", "updates": {"k": {"kind": "none"}, "k": {"kind": "none"}}}])", "has the member 'k' twice"},
      {"[", "expected a value"},
      {"[] 1", "behind its end"},
      {"[01]", "expected a value"},
      {"[1.]", "expected a value"},
      {"[123456789012345678901]", "does not fit 64 signed bits"},
      {"[1e999]", "beyond a double"},
      {"[\"a", "does not end"},
      {"[\"\\x\"]", "escape that JSON does not know"},
      {"[\"\\ud800\"]", "half of a surrogate pair"},
      {"[\"\n\"]", "control character"},
  };
  for (const auto& [text, words] : table) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::kInvalidArgument, words, [text = text] { (void)UpdatePlan::from_json(text); });
  }
  expect_error(ErrorCode::kInvalidArgument, "nested more than 32 deep",
               [] { (void)UpdatePlan::from_json(std::string(100, '[')); });
}

TEST_F(Plans, ResolvingRefusesBeforeAnythingIsSet) {
  const BoundUpdatePlan plan = three();
  ASSERT_TRUE(plan.resolve(std::array<UpdateValue, 3>{1, kFour, 1.5}, values));
  const auto refuses_inputs = [&](ErrorCode code, const std::string& words, std::vector<UpdateValue> inputs) {
    expect_error(code, words, [&] { (void)plan.resolve(inputs, values); });
  };
  refuses_inputs(ErrorCode::kOutOfRange,
                 "key 'scale' of entry 2 ('scaling.out') of the update plan for graph 'model' "
                 "takes input 2, and the call has 2 inputs",
                 {2, kFour});
  refuses_inputs(ErrorCode::kInvalidArgument, "got a string for the parameter 'length', which is i32",
                 {"2", kFour, 1.5});
  refuses_inputs(ErrorCode::kInvalidArgument, "got a bool for the parameter 'length'", {true, kFour, 1.5});
  refuses_inputs(ErrorCode::kInvalidArgument, "got a float for the parameter 'length'", {2.0, kFour, 1.5});
  refuses_inputs(ErrorCode::kInvalidArgument, "got none for the parameter 'scale'", {2, kFour, {}});
  refuses_inputs(ErrorCode::kOutOfRange, "'length' (i32) cannot hold", {std::int64_t{1} << 40, kFour, 1.5});
  refuses_inputs(ErrorCode::kOutOfRange, "'length' (i32) cannot hold", {~std::uint64_t{0}, kFour, 1.5});
  refuses_inputs(ErrorCode::kOutOfRange, "got a list of 2 numbers", {2, UpdateValue::list({1, 2}), 1.5});
  refuses_inputs(ErrorCode::kInvalidArgument, "got a list with a bool", {2, UpdateValue::list({1, 2, 3, true}), 1.5});
  refuses_inputs(ErrorCode::kInvalidArgument, "got an integer for the parameter 'lengths'", {2, 3, 1.5});
  refuses_inputs(ErrorCode::kOutOfRange, "got a string of 33 bytes", {2, std::string(33, 'x'), 1.5});
  refuses_inputs(ErrorCode::kOutOfRange, "'scale' (f32) cannot hold", {2, kFour, 1e300});
  graph.launch(stream, values);
  EXPECT_EQ(number(0), 10);
  EXPECT_EQ(real(4), 1.5F);
  StepValues none;
  expect_error(ErrorCode::kInvalidNode, "values of another graph", [&] { (void)plan.resolve({}, none); });
}

TEST_F(Plans, OneEntryIsCopiedToAllOperationsAndCountsAreChecked) {
  Capture capture(stream, "twice");
  const auto a = capture.parameter<std::int32_t>("n"), b = capture.parameter<std::int32_t>("m", 9);
  const Operation first = capture.operation("plus", {a}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) + 1); });
  const Operation second = capture.apply(first, {b});
  stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(0), first.output<std::int32_t>(0));
  stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(1), second.output<std::int32_t>(0));
  const GraphDefinition twice = capture.end();
  const ExecutableGraph both = twice.instantiate();
  StepValues step = both.values();
  std::vector<UpdateEntry> one{{"plus", {{"n", UpdateSource::input(0)}}}};
  const BoundUpdatePlan plan = UpdatePlan(one).bind(twice);
  one.clear();  // the plan has copies
  EXPECT_EQ(plan.entry_count(), 2U);
  EXPECT_TRUE(plan.resolve(std::array<UpdateValue, 1>{41}, step));
  both.launch(stream, step);
  EXPECT_EQ(number(0), 42);  // the key stands for what each was applied to
  EXPECT_EQ(number(1), 42);
  expect_error(ErrorCode::kInvalidArgument, "it has 3 entries for 2 operations", [&] {
    UpdatePlan(std::vector<UpdateEntry>{{"plus", {}}, {"plus", {}}, {"plus", {}}}).bind(twice);
  });
  refuses("entry 2 ('attention') stands where the graph has the operation 'scaling'",
          {attention(UpdateSource::input(0), UpdateSource::input(1))});
}

TEST_F(Plans, WithoutEntriesUpdateNothing) {
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 3);
  stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(0), n);
  const GraphDefinition plain = capture.end();
  StepValues step = plain.instantiate().values();
  EXPECT_FALSE(UpdatePlan().bind(plain).resolve(std::array<UpdateValue, 1>{41}, step));
  expect_error(ErrorCode::kInvalidArgument, "it has 1 entries for 0 operations", [&] {
    UpdatePlan(std::vector<UpdateEntry>{{"x", {{"n", UpdateSource::input(0)}}}}).bind(plain);
  });
  expect_error(ErrorCode::kInvalidArgument, "empty handle", [&] { (void)BoundUpdatePlan().resolve({}, step); });
}

TEST_F(Plans, ValuesStayAndEveryGateIsOpenedInEachStep) {
  ASSERT_TRUE(three().resolve(std::array<UpdateValue, 3>{1, kFour, 1.5}, values));
  graph.launch(stream, values);
  const int before = evaluations;
  const BoundUpdatePlan less = UpdatePlan({{"attention", {{"length", UpdateSource::input(0)}}},
                                           {"attention", {{"lengths", UpdateSource::constant(kFour)}}},
                                           {"scaling", {{"on", UpdateSource::constant(true)}}}})
                                   .bind(definition);
  for (int step = 5; step < 9; ++step) {
    EXPECT_TRUE(less.resolve(std::array<UpdateValue, 1>{step}, values));
    const Step launched = graph.launch(stream, values);
    EXPECT_TRUE(graph.passed(launched));
    EXPECT_EQ(number(0), 10 * step);
    EXPECT_EQ(number(1), 40);  // from the first plan
    EXPECT_EQ(real(4), 1.5F);  // likewise
    EXPECT_EQ(length_at(2), 3);
  }
  EXPECT_EQ(evaluations, before + 2 * 4);
  // nothing is given, and every gate opens all the same
  EXPECT_TRUE(graph.passed(graph.launch(stream, values)));
  // a refusal of an operation leaves the step open; the same values publish it again
  refuse = true;
  EXPECT_TRUE(less.resolve(std::array<UpdateValue, 1>{7}, values));
  const Step open = graph.launch_open(stream);
  expect_error(ErrorCode::kInvalidArgument, "refused", [&] { graph.publish(open, values); });
  refuse = false;
  graph.publish(open, values);
  EXPECT_EQ(number(0), 70);
}

TEST_F(Plans, OnlyIntegersThatArriveExactlyAreConsumed) {
  const auto in = [](std::int64_t i) { return UpdateSource::input(i); };
  const UpdateSource lengths = UpdateSource::list({in(6), in(3), UpdateSource::constant(1), in(4)});
  EXPECT_EQ(three(in(5), lengths, in(2)).consumed_integers(), (std::vector<std::size_t>{3, 4, 5, 6}));
  // one that is rounded to a float as well is not, nor a list that is given whole
  EXPECT_EQ(three(in(5), lengths, in(4)).consumed_integers(), (std::vector<std::size_t>{3, 5, 6}));
  EXPECT_EQ(three(in(5), in(0), in(4)).consumed_integers(), (std::vector<std::size_t>{5}));
}

}  // namespace
}  // namespace slipway::graph_tests
