// What a capture refuses, by name, and how it becomes invalid: the table "What a capture refuses" of docs/graphs.md,
// row by row.
#include <future>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Refusals : public GraphOn {
 protected:
  Refusals() : put(module.kernel("put")), other(device.create_stream({.name = "other"})) {}

  void work(const Stream& on) { on.launch(put, {}, &x, 1); }
  // Each call waits for work of the device.
  std::vector<std::pair<std::string, std::function<void()>>> waits() {
    return {{"a synchronize of a stream", [this] { other.synchronize(); }},
            {"a synchronize of the device", [this] { idle_device.synchronize(); }},
            {"waiting for an event", [this] { marked.synchronize(); }},
            {"waiting for a step", [this] { graph.wait(step); }},
            {"recovering a graph", [this] { graph.recover(); }},
            {"a reset of the device", [this] { idle_device.reset(); }},
            {"closing the device", [this] { idle_device.close(); }}};
  }
  void make_what_is_waited_for() {
    {
      Capture capture(other, "earlier");
      work(other);
      graph = capture.end().instantiate();
    }
    step = graph.launch(other);
    other.mark(marked);
    other.synchronize();
  }
  template <class Call>
  static void on_another_thread(Call&& call) {
    std::async(std::launch::async, std::forward<Call>(call)).get();
  }

  std::int32_t x = 0;
  Kernel put;
  Stream other;
  Event marked = device.create_event();
  ExecutableGraph graph;
  Step step;
  Device idle_device = device;
};

// The thread that captures may not wait for work, unless it says so, and what it was refused spoils nothing.
TEST_P(Refusals, WaitsOfTheThreadThatCaptures) {
  make_what_is_waited_for();
  for (const CaptureMode mode : {CaptureMode::kThreadLocal, CaptureMode::kGlobal}) {
    Capture capture(stream, "mine", mode);
    for (const auto& [what, call] : waits()) {
      if (what == "a synchronize of the device") continue;  // has a captured stream: below
      expect_error(ErrorCode::kFailedPrecondition, what + " waits for work", call);
      expect_error(ErrorCode::kFailedPrecondition, std::string("'mine' in the mode ") + name_of(mode), call);
    }
    {
      const CaptureModeScope relaxed(CaptureMode::kRelaxed);
      other.synchronize();
      marked.synchronize();
      graph.wait(step);
      {
        const CaptureModeScope again(CaptureMode::kThreadLocal);
        expect_error(ErrorCode::kFailedPrecondition, "waits for work", [&] { other.synchronize(); });
      }
      other.synchronize();
    }
    expect_error(ErrorCode::kFailedPrecondition, "waits for work", [&] { other.synchronize(); });
    EXPECT_EQ(capture_state(stream), CaptureState::kActive);
    work(stream);
    EXPECT_EQ(capture.end().node_count(), 1u);
  }
  Capture relaxed(stream, "relaxed", CaptureMode::kRelaxed);
  other.synchronize();
  marked.synchronize();
  graph.wait(step);
  work(stream);
  EXPECT_EQ(relaxed.end().node_count(), 1u);
  other.synchronize();
  EXPECT_EQ(CaptureModeScope::current(), CaptureMode::kGlobal);
}

// Other threads are held up by a global capture only, and can say that they know better.
TEST_P(Refusals, WaitsOfOtherThreads) {
  make_what_is_waited_for();
  for (const CaptureMode mode : {CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    Capture capture(stream, "theirs", mode);
    on_another_thread([this] {
      other.synchronize();
      marked.synchronize();
      graph.wait(step);
      graph.recover();
    });
    work(stream);
    EXPECT_EQ(capture.end().node_count(), 1u);
  }
  Capture capture(stream, "theirs", CaptureMode::kGlobal);
  on_another_thread([this] {
    for (const auto& [what, call] : waits()) {
      if (what == "a synchronize of the device") continue;
      expect_error(ErrorCode::kFailedPrecondition, "another thread captures 'theirs' in the mode Global", call);
    }
    EXPECT_TRUE(other.idle());
    EXPECT_TRUE(marked.query());
    const CaptureModeScope own(CaptureMode::kThreadLocal);
    other.synchronize();
    graph.launch(other);
    other.synchronize();
  });
  work(stream);
  EXPECT_EQ(capture.end().node_count(), 1u);
}

// What the calls that do not wait do in any mode: they are none of the capture's business.
TEST_P(Refusals, NothingElseIsRefused) {
  make_what_is_waited_for();
  const Device second = Device::open(GetParam());
  const Stream foreign = second.create_stream();
  Capture capture(stream, "mine", CaptureMode::kGlobal);
  work(stream);
  const Stream fresh = device.create_stream();
  const Event event = device.create_event();
  const Module loaded = load(device);
  const Memory memory = device.allocate(64);
  const HostMemory host = device.allocate_host(64);
  std::int32_t y = 0;
  fresh.launch(loaded.kernel("put"), {}, &y, 3);
  fresh.mark(event);
  other.wait(event);
  graph.launch(other);
  (void)fresh.idle();
  (void)event.query();
  (void)device.counters();
  foreign.synchronize();  // of another device
  {
    Capture inner(fresh, "inner");  // another capture beside it
    fresh.launch(put, {}, &y, 4);
    (void)inner.end().instantiate();
  }
  EXPECT_EQ(capture.end().node_count(), 1u);
  fresh.synchronize();
  other.synchronize();
  EXPECT_EQ(y, 3);
}

// Questions about what is captured have no answer. They spoil the capture of the thread that asks, and no other's.
TEST_P(Refusals, QuestionsAboutCapturedStreamsAndEvents) {
  const Event event = device.create_event({.timing = true}), before = device.create_event({.timing = true});
  stream.mark(before);
  stream.mark(event);
  stream.synchronize();
  const std::vector<std::pair<std::string, std::function<void()>>> questions = {
      {"synchronize", [&] { stream.synchronize(); }},
      {"a query", [&] { (void)stream.idle(); }},
      {"recover", [&] { stream.recover(); }},
      {"a hold", [&] { testing::Hold(device).hold(stream); }},
      {"a synchronize of its device", [&] { device.synchronize(); }},
      {"a query", [&] { (void)event.query(); }},
      {"waiting for it", [&] { event.synchronize(); }},
      {"asking for its time", [&] { (void)before.elapsed(event); }},
      {"asking for its time", [&] { (void)event.elapsed(before); }},
      {"marking it on a stream that is not captured", [&] { other.mark(event); }}};
  for (const auto& [what, ask] : questions) {
    Capture capture(stream, "asked");
    work(stream);
    stream.mark(event);
    on_another_thread([&] { expect_error(ErrorCode::kFailedPrecondition, what, ask); });
    EXPECT_EQ(capture_state(stream), CaptureState::kActive) << what;
    expect_error(ErrorCode::kFailedPrecondition, what, ask);
    EXPECT_EQ(capture_state(stream), CaptureState::kInvalid) << what;
    expect_error(ErrorCode::kFailedPrecondition, what, [&] { (void)capture.end(); });
    EXPECT_EQ(capture_state(stream), CaptureState::kNone);
    EXPECT_TRUE(event.query());  // its mark of before
  }
}

// From the first mistake to the end all is refused with that mistake, and then everything is as before.
TEST_P(Refusals, AnInvalidCaptureTellsItsFirstCause) {
  const Event event = device.create_event(), outside = device.create_event();
  stream.mark(outside);
  Capture capture(stream, "spoiled");
  const auto p = capture.parameter<std::int32_t>("p");
  stream.mark(event);
  expect_error(ErrorCode::kFailedPrecondition, "was not marked inside", [&] { stream.wait(outside); });
  const std::string cause = "was not marked inside";
  const auto refused = [&](auto&& call) { expect_error(ErrorCode::kFailedPrecondition, cause, call); };
  refused([&] { work(stream); });
  refused([&] { stream.launch(put, {}, &x, p); });
  refused([&] { stream.fill(host_address(&x), 0, 4, 1); });
  refused([&] { stream.copy_to_device(host_address(&x), &x, 4); });
  refused([&] { stream.host_function([] {}); });
  refused([&] { stream.mark(event); });
  refused([&] { stream.wait(event); });
  refused([&] { other.wait(event); });
  refused([&] { (void)capture.parameter<std::int32_t>("q"); });
  refused([&] { (void)capture.operation("o", {p}, {OutputSpec::grid()}, [](OperationCall&) {}); });
  refused([&] { capture.external(stream, "e", {p}, [](ExternalCall&) {}); });
  EXPECT_EQ(capture_state(other), CaptureState::kNone);
  refused([&] { (void)capture.end(); });
  expect_error(ErrorCode::kFailedPrecondition, "ended already", [&] { (void)capture.end(); });
  work(stream);
  stream.synchronize();
  EXPECT_EQ(x, 1);
}

TEST_P(Refusals, CapturesDoNotDependOnEachOther) {
  const Event event = device.create_event();
  Capture first(stream, "first"), second(other, "second");
  work(stream);
  stream.mark(event);
  expect_error(ErrorCode::kInvalidNode, "inside the capture 'first'", [&] { other.wait(event); });
  EXPECT_EQ(capture_state(stream), CaptureState::kActive);  // it was the other one's mistake
  expect_error(ErrorCode::kInvalidNode, "'second'", [&] { (void)second.end(); });
  {
    Capture third(other, "third");
    expect_error(ErrorCode::kInvalidNode, "another open capture has marked", [&] { other.mark(event); });
  }
  EXPECT_EQ(first.end().node_count(), 2u);
  {
    // Two at once, on streams and threads of their own.
    Capture one(stream, "one");
    work(stream);
    on_another_thread([&] {
      Capture two(other, "two");
      work(other);
      work(other);
      EXPECT_EQ(two.end().node_count(), 2u);
    });
    EXPECT_EQ(one.end().node_count(), 1u);
  }
}

TEST_P(Refusals, TheThreadThatBeganEndsIt) {
  auto capture = std::make_unique<Capture>(stream, "mine");
  work(stream);
  on_another_thread([&] {
    expect_error(ErrorCode::kFailedPrecondition, "end it on the thread that began it", [&] { (void)capture->end(); });
  });
  EXPECT_EQ(capture_state(stream), CaptureState::kActive);
  EXPECT_EQ(capture->end().node_count(), 1u);
  auto relaxed = std::make_unique<Capture>(stream, "anybody's", CaptureMode::kRelaxed);
  on_another_thread([&] {
    work(stream);
    EXPECT_EQ(relaxed->end().node_count(), 1u);
  });
  auto abandoned = std::make_unique<Capture>(stream, "abandoned");
  on_another_thread([&] { abandoned.reset(); });  // a destructor refuses nothing
  work(stream);
  stream.synchronize();
  EXPECT_EQ(x, 1);
}

TEST_P(Refusals, WorkBehindTheJoinIsNamed) {
  const Event fork = device.create_event(), join = device.create_event();
  const auto fork_and_join = [&] {
    stream.mark(fork);
    other.wait(fork);
    work(other);
    other.mark(join);
    stream.wait(join);
  };
  {
    Capture capture(stream, "late");
    fork_and_join();
    other.launch(module.kernel("append"), {}, &x, 1);
    expect_error(ErrorCode::kFailedPrecondition, "after it was last joined back, first the launch 'append'",
                 [&] { (void)capture.end(); });
  }
  {
    Capture capture(stream, "never");
    stream.mark(fork);
    other.wait(fork);
    expect_error(ErrorCode::kFailedPrecondition, "'other', which was not joined back", [&] { (void)capture.end(); });
  }
  Capture capture(stream, "twice");
  fork_and_join();
  work(other);
  other.mark(join);
  stream.wait(join);
  EXPECT_EQ(capture.end().node_count(), 8u);
  work(other);
  other.synchronize();
}

TEST_P(Refusals, WhatABudgetTells) {
  if (device.info().total_memory_bytes == 0) GTEST_SKIP() << "the device does not know how much memory it has";
  const std::uint64_t most = 0xFFFFFFF0U;
  Capture capture(stream, "large");
  const auto n = capture.parameter<std::int32_t>("n");
  for (std::uint64_t bytes = 0; bytes <= device.info().total_memory_bytes; bytes += most) {
    const Operation part = capture.operation("part " + std::to_string(bytes), {n}, {OutputSpec::scratch(most)},
                                             [](OperationCall& call) { call.set_scratch(0, 0); });
    (void)part;
  }
  stream.launch(put, {}, &x, n);
  const GraphDefinition large = capture.end();
  const std::uint64_t live = device.counters().live_memory_bytes;
  expect_error(ErrorCode::kOutOfMemory, "declare less scratch", [&] { (void)large.budget(); });
  expect_error(ErrorCode::kOutOfMemory, "graph 'large' takes", [&] { (void)large.instantiate(); });
  EXPECT_EQ(device.counters().live_memory_bytes, live);
  expect_error(ErrorCode::kInvalidArgument, "depth", [&] { (void)large.budget({.depth = 9}); });
}

TEST_P(Refusals, BudgetIsWhatIsTaken) {
  const Event fork = device.create_event(), join = device.create_event();
  Capture capture(stream, "small");
  const Memory own = device.allocate(1000);
  const auto n = capture.parameter<std::int32_t>("n");
  const Operation op =
      capture.operation("op", {n}, {OutputSpec::scratch(4096)}, [](OperationCall& call) { call.set_scratch(0, 16); });
  (void)op;
  stream.launch(put, {}, &x, n);
  stream.mark(fork);
  other.wait(fork);
  work(other);
  other.mark(join);
  stream.wait(join);
  const GraphDefinition definition = capture.end();
  const GraphBudget budget = definition.budget();
  EXPECT_EQ(budget.scratch_bytes, 4096u);
  EXPECT_EQ(budget.memory_bytes, 1000u);
  EXPECT_EQ(budget.streams, device.info().workers > 1 ? 1u : 0u);
  EXPECT_EQ(definition.budget({.serial = true}).streams, 0u);
  EXPECT_EQ(definition.budget({.serial = true}).tape_bytes, definition.tape_bytes());
  EXPECT_EQ(definition.budget({.depth = 4, .tier = Tier::kCut, .serial = true}).tape_bytes,
            4 * definition.tape_bytes());
  EXPECT_EQ(definition.budget({.depth = 4}).block_bytes, 2 * budget.block_bytes);
  EXPECT_EQ(budget.gates, 1u + 1u + 2u);  // values, the operation, the two marks that another branch waits for
  const std::uint64_t live = device.counters().live_memory_bytes;
  const ExecutableGraph made = definition.instantiate();
  EXPECT_EQ(device.counters().live_memory_bytes - live, budget.scratch_bytes);
}

INSTANTIATE_TEST_SUITE_P(Devices, Refusals, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
