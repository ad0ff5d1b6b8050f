// Work that is not Slipway's own: opaque commands and external operations by name, what others put on the native queue,
// and values shown to the host from inside a graph.
#include <cstring>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

struct Note {
  std::vector<std::int32_t>* list;
  std::int32_t value;
};

void register_once() {
  static const bool registered = [] {
    register_opaque("test.note", [](const OpaqueCall& call) {
      Note note{};
      ASSERT_EQ(call.payload.size(), sizeof note);
      std::memcpy(&note, call.payload.data(), sizeof note);
      note.list->push_back(note.value);
    });
    register_opaque("test.throws", [](const OpaqueCall&) { throw std::runtime_error("boom"); });
    register_external("test.twice", [](ExternalCall& call) {
      *reinterpret_cast<std::int32_t*>(call.input<std::uint64_t>(0)) = 2 * call.input<std::int32_t>(1);
    });
    return true;
  }();
  ASSERT_TRUE(registered);
}

class Commands : public GraphOn {
 protected:
  Commands() { register_once(); }
};

TEST_P(Commands, OpaqueCommandsRunInTheirPlaceOnEachReplay) {
  std::vector<std::int32_t> list;
  std::int32_t x = 0;
  ExecutableGraph graph;
  {
    Capture capture(stream, "opaque");
    const auto value = capture.parameter<std::int32_t>("value");
    stream.launch(module.kernel("put"), {}, &x, value);
    capture.opaque(stream, "test.note", Note{&list, 7});
    stream.host_function([&] { list.push_back(x); });
    capture.opaque(stream, "test.note", Note{&list, 8});
    const GraphDefinition definition = capture.end();
    EXPECT_NE(definition.dump().find("opaque test.note"), std::string::npos) << definition.dump();
    graph = definition.instantiate();
  }
  StepValues values = graph.values();
  for (int i = 0; i < 3; ++i) graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(list, (std::vector<std::int32_t>{7, 0, 8, 7, 0, 8, 7, 0, 8}));
  {
    // Inside another graph, and without a payload.
    Capture capture(stream, "outer");
    graph.launch(stream, values);
    const GraphDefinition outer = capture.end();
    EXPECT_NE(outer.dump().find("opaque test.note"), std::string::npos);
    graph = {};
    const ExecutableGraph whole = outer.instantiate();
    whole.launch(stream, whole.values());
    stream.synchronize();
  }
  EXPECT_EQ(list.size(), 12u);
}

TEST_P(Commands, NamesAreKnownOrRefused) {
  const auto nothing = [](const OpaqueCall&) {};
  expect_error(ErrorCode::kInvalidArgument, "'test.note' is registered already",
               [&] { register_opaque("test.note", nothing); });
  expect_error(ErrorCode::kInvalidArgument, "'test.note' is registered already",
               [&] { register_external("test.note", [](ExternalCall&) {}); });
  expect_error(ErrorCode::kInvalidArgument, "without a name", [&] { register_opaque("", nothing); });
  expect_error(ErrorCode::kInvalidArgument, "without a function", [&] { register_opaque("test.empty", nullptr); });
  const auto names = registered_commands();
  EXPECT_EQ(std::count(names.begin(), names.end(), "test.note"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "test.twice"), 1);
  std::int32_t x = 0;
  Capture capture(stream, "names");
  const auto to = capture.parameter<std::uint64_t>("to", reinterpret_cast<std::uint64_t>(&x));
  const auto value = capture.parameter<std::int32_t>("value", 21);
  expect_error(ErrorCode::kInvalidArgument, "no opaque command 'nobody'", [&] { capture.opaque(stream, "nobody"); });
  expect_error(ErrorCode::kInvalidArgument, "no opaque command 'test.twice'",
               [&] { capture.opaque(stream, "test.twice"); });
  expect_error(ErrorCode::kInvalidArgument, "test.note", [&] { capture.external(stream, "nobody", {to}); });
  const Stream elsewhere = device.create_stream();
  expect_error(ErrorCode::kInvalidArgument, "not part of the capture",
               [&] { capture.opaque(elsewhere, "test.note", Note{}); });
  capture.external(stream, "test.twice", {to, value});
  const GraphDefinition definition = capture.end();
  EXPECT_NE(definition.dump().find("external test.twice"), std::string::npos) << definition.dump();
  const ExecutableGraph graph = definition.instantiate();
  graph.launch(stream, graph.values());
  stream.synchronize();
  EXPECT_EQ(x, 42);
}

TEST_P(Commands, OneThatThrowsFailsItsStep) {
  Capture capture(stream, "throws");
  capture.opaque(stream, "test.throws");
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(stream);
  expect_error(ErrorCode::kKernelFailed, "test.throws", [&] { stream.synchronize(); });
  graph.recover();
}

// --- The native queue, as another library would use it ---

struct Foreign {
  std::vector<std::int32_t>* list;
  std::int32_t value;
  std::atomic<int>* destroyed;
};
void foreign_call(void* data) {
  const auto* foreign = static_cast<Foreign*>(data);
  foreign->list->push_back(foreign->value);
}
void foreign_destroy(void* data) {
  const std::unique_ptr<Foreign> foreign(static_cast<Foreign*>(data));
  foreign->destroyed->fetch_add(1);
}
int put_foreign(void* native, std::vector<std::int32_t>& list, std::int32_t value, std::atomic<int>& destroyed) {
  auto foreign = std::make_unique<Foreign>(Foreign{&list, value, &destroyed});
  auto* queue = static_cast<NativeQueue*>(native);
  const int refused = queue->enqueue(queue, &foreign_call, foreign.get(), &foreign_destroy);
  if (refused == 0) (void)foreign.release();
  return refused;
}

TEST_P(Commands, WhatOthersPutOnTheStreamIsCapturedToo) {
  std::vector<std::int32_t> list;
  std::atomic<int> destroyed{0};
  ASSERT_NE(stream.native_handle(), nullptr);
  // Outside a capture: in its place in the stream, once.
  stream.host_function([&] { list.push_back(1); });
  EXPECT_EQ(put_foreign(stream.native_handle(), list, 2, destroyed), 0);
  stream.host_function([&] { list.push_back(3); });
  stream.synchronize();
  EXPECT_EQ(list, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(destroyed.load(), 1);
  list.clear();
  void* const taken_before = stream.native_handle();
  {
    Capture capture(stream, "adopts");
    stream.host_function([&] { list.push_back(4); });
    EXPECT_EQ(put_foreign(taken_before, list, 5, destroyed), 0);
    stream.host_function([&] { list.push_back(6); });
    EXPECT_EQ(put_foreign(stream.native_handle(), list, 7, destroyed), 0);
    const GraphDefinition definition = capture.end();
    EXPECT_EQ(definition.node_count(), 4u);
    EXPECT_NE(definition.dump().find("foreign"), std::string::npos) << definition.dump();
    EXPECT_TRUE(list.empty());
    const ExecutableGraph graph = definition.instantiate();
    graph.launch(stream);
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(list, (std::vector<std::int32_t>{4, 5, 6, 7, 4, 5, 6, 7}));
    EXPECT_EQ(destroyed.load(), 1);
  }
  (void)device.counters();  // collects what has passed
  EXPECT_EQ(destroyed.load(), 3);
}

TEST_P(Commands, TheNativeQueueRefusesAndTheDataStaysTheCallers) {
  std::vector<std::int32_t> list;
  std::atomic<int> destroyed{0};
  {
    Capture capture(stream, "invalid");
    EXPECT_THROW(stream.synchronize(), Error);
    EXPECT_NE(put_foreign(stream.native_handle(), list, 1, destroyed), 0);
  }
  EXPECT_EQ(put_foreign(stream.native_handle(), list, 2, destroyed), 0);  // as before
  stream.synchronize();
  const Stream other = device.create_stream();
  int inside = 0;
  void* const native = other.native_handle();
  stream.host_function([&] { inside = put_foreign(native, list, 3, destroyed); });
  stream.synchronize();
  EXPECT_NE(inside, 0);  // a callback may not submit
  EXPECT_EQ(list, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(destroyed.load(), 1);
}

// --- Values from inside ---

TEST_P(Commands, ValuesAreSavedFromInside) {
  for (const bool beside : {false, true}) {
    std::int32_t x = 0;
    std::vector<std::pair<std::uint64_t, std::int32_t>> saved;
    Capture capture(stream, "saves");
    const auto value = capture.parameter<std::int32_t>("value");
    stream.launch(module.kernel("put"), {}, &x, value);
    save(stream, "x", host_address(&x), sizeof x,
         [&](const Saved& s) {
           EXPECT_EQ(s.name, "x");
           std::int32_t seen = 0;
           ASSERT_EQ(s.bytes.size(), sizeof seen);
           std::memcpy(&seen, s.bytes.data(), sizeof seen);
           saved.emplace_back(s.count, seen);
         },
         {.beside = beside});
    stream.launch(module.kernel("put"), {}, &x, -1);  // what was saved is what was there
    const GraphDefinition definition = capture.end();
    EXPECT_EQ(definition.budget().streams, beside && device.info().workers > 1 ? 1u : 0u);
    const ExecutableGraph graph = definition.instantiate();
    StepValues values = graph.values();
    for (std::int32_t i = 1; i <= 20; ++i) {
      values.set(value, 10 * i);
      graph.launch(stream, values);
    }
    stream.synchronize();
    ASSERT_EQ(saved.size(), 20u);
    for (std::int32_t i = 1; i <= 20; ++i) {
      EXPECT_EQ(saved[static_cast<std::size_t>(i) - 1], std::pair(static_cast<std::uint64_t>(i), 10 * i));
    }
  }
}

// Beside: what follows does not wait for the function, and the step does.
class CommandsBeside : public Commands {};  // where branches do not run one after the other
TEST_P(CommandsBeside, SavedHoldsNothingUp) {
  std::int32_t x = 0;
  std::atomic<int> went_on{0};
  bool seen_going_on = false;
  Capture capture(stream, "beside");
  save(stream, "x", host_address(&x), sizeof x, [&](const Saved&) { seen_going_on = becomes(went_on, 1); },
       {.beside = true});
  stream.launch(module.kernel("raise_flag"), {}, Argument::bytes_of(Flag{&went_on}));
  const ExecutableGraph graph = capture.end().instantiate();
  graph.wait(graph.launch(stream));
  EXPECT_TRUE(seen_going_on);
  stream.synchronize();
}

TEST_P(Commands, PrintsALine) {
  float x[3] = {1.5F, -2, 0.25F};
  std::int32_t n = 3;
  ::testing::internal::CaptureStdout();
  {
    Capture capture(stream, "prints");
    print(stream, "x", Tensor<float>{host_address(x)}, 3);
    print(stream, "n", Tensor<std::int32_t>{host_address(&n)}, 1, {.beside = true});
    const ExecutableGraph graph = capture.end().instantiate();
    for (int i = 0; i < 2; ++i) graph.wait(graph.launch(stream));
  }
  print(stream, "eager", Tensor<std::int32_t>{host_address(&n)}, 1);
  stream.synchronize();
  std::fflush(stdout);
  const std::string out = ::testing::internal::GetCapturedStdout();
  for (const char* line : {"x#1: 1.5 -2 0.25\n", "x#2: 1.5 -2 0.25\n", "n#1: 3\n", "n#2: 3\n", "eager#1: 3\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
}

TEST_P(Commands, SavingIsRefusedByName) {
  std::int32_t x = 0;
  expect_error(ErrorCode::kInvalidArgument, "'x' were to be saved by nothing",
               [&] { save(stream, "x", host_address(&x), 4, nullptr); });
  Capture capture(stream, "throws");
  save(stream, "x", host_address(&x), 4, [](const Saved&) { throw std::runtime_error("disk full"); });
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(stream);
  expect_error(ErrorCode::kKernelFailed, "disk full", [&] { stream.synchronize(); });
  graph.recover();
}

// Update groups have numbers in the order in which a replay comes to them, one for each gate, and there is no beginning
// and no end that could be nested or forgotten.
TEST_P(Commands, UpdateGroupsHaveNumbersAndDoNotNest) {
  std::int32_t x[3] = {};
  Capture capture(stream, "groups");
  const auto a = capture.parameter<std::int32_t>("a", 1), b = capture.parameter<std::int32_t>("b", 2);
  const auto twice = [](OperationCall& call) { call.set(0, 2 * call.input<std::int32_t>(0)); };
  const Operation inner = capture.operation("inner", {a}, {OutputSpec::argument(ArgKind::kI32)}, twice);
  const Operation outer =
      capture.operation("outer", {inner.output<std::int32_t>(0)}, {OutputSpec::argument(ArgKind::kI32)}, twice);
  const Kernel put = module.kernel("put");
  stream.launch(put, {}, &x[0], outer.output<std::int32_t>(0));  // before those that it is made of
  stream.launch(put, {}, &x[1], b);
  stream.launch(put, {}, &x[2], inner.output<std::int32_t>(0));
  stream.launch(put, {}, &x[1], a);  // the gate is passed already: no group of its own
  const GraphDefinition definition = capture.end();
  EXPECT_NE(definition.dump().find("3 update groups"), std::string::npos) << definition.dump();
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  values.set(a, 5);
  graph.launch(stream, values);
  stream.synchronize();
  EXPECT_EQ(x[0], 20);
  EXPECT_EQ(x[1], 5);
  EXPECT_EQ(x[2], 10);
}

INSTANTIATE_TEST_SUITE_P(Devices, Commands, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });
INSTANTIATE_TEST_SUITE_P(Devices, CommandsBeside, ::testing::Values("cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
