// B19: a failed capture left its traces. B20: what was dropped while something else was captured. B24: threads that
// disturb a capture of another one. And captures that begin while updates of other graphs are under way.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_fixture.h"

namespace slipway::graph_tests {
namespace {

template <class Call>
void on_another_thread(Call&& call) {
  std::async(std::launch::async, std::forward<Call>(call)).get();
}

// Tells how often it was destroyed, and never twice for one construction.
struct Payload {
  explicit Payload(std::atomic<int>& count) : destroyed(&count) {}
  ~Payload() { destroyed->fetch_add(1); }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  std::atomic<int>* destroyed;
};

class Report : public GraphOn {
 protected:
  Report() : put(module.kernel("put")), side(device.create_stream({.name = "side"})) {}

  struct Footprint {
    std::uint64_t memory, staged;
    std::int64_t modules;
    bool operator==(const Footprint&) const = default;
  };
  Footprint footprint() {
    device.synchronize();
    const Counters c = device.counters();
    return {c.live_memory_bytes, c.staged_bytes, static_cast<std::int64_t>(c.modules_loaded - c.modules_unloaded)};
  }

  Kernel put;
  Stream side;
  std::int32_t x = 0;
};

// The body of the capture throws behind each of its operations in turn, a hundred times.
TEST_P(Report, B19_failing_captures_leave_nothing_behind) {
  static const bool registered = [] {
    register_opaque("report.nothing", [](const OpaqueCall&) {});
    return true;
  }();
  ASSERT_TRUE(registered);
  const Memory outside = device.allocate(64 << 10);
  const std::vector<std::byte> large(64 << 10);
  const Event fork = device.create_event(), join = device.create_event();
  const Generator generator(3);
  std::atomic<int> destroyed{0};
  ExecutableGraph child;
  {
    Capture capture(side, "child");
    const auto value = capture.parameter<std::int32_t>("value");
    side.launch(put, {}, &x, value);
    child = capture.end().instantiate();
  }
  std::vector<Memory> allocated;
  Capture* capturing = nullptr;
  const std::vector<std::pair<const char*, std::function<void()>>> operations = {
      {"launch", [&] { stream.launch(put, {}, &x, 1); }},
      {"small copy", [&] { stream.copy_to_device(outside.address(), large.data(), 64); }},
      {"large copy", [&] { stream.copy_to_device(outside.address(), large.data(), large.size()); }},
      {"fill", [&] { stream.fill(outside.address(), 1, 4, 10); }},
      {"allocation", [&] { allocated.push_back(device.allocate(4096)); }},
      {"module", [&] { stream.launch(load(device).kernel("put"), {}, &x, 2); }},
      {"host function", [&] { stream.host_function([p = std::make_shared<Payload>(destroyed)] {}); }},
      {"mark", [&] { stream.mark(fork); }},
      {"fork", [&] { side.wait(fork); }},
      {"launch beside", [&] { side.launch(put, {}, &x, 3); }},
      {"mark beside", [&] { side.mark(join); }},
      {"join", [&] { stream.wait(join); }},
      {"parameter", [&] { stream.launch(put, {}, &x, capturing->parameter<std::int32_t>("p", 4)); }},
      {"operation",
       [&] {
         const auto q = capturing->parameter<std::int32_t>("q");
         (void)capturing->operation("o", {q}, {OutputSpec::scratch(4096)},
                                    [p = std::make_shared<Payload>(destroyed)](OperationCall&) {});
       }},
      {"external",
       [&] { capturing->external(stream, "e", {}, [p = std::make_shared<Payload>(destroyed)](ExternalCall&) {}); }},
      {"opaque", [&] { capturing->opaque(stream, "report.nothing", 7); }},
      {"nested graph", [&] { child.launch(stream, child.values()); }},
      {"random numbers", [&] { (void)generator.take(stream, 5); }},
      {"save", [&] { save(stream, "s", outside.address(), 64, [](const Saved&) {}, {.beside = true}); }}};
  constexpr int kRounds = 100;
  const Footprint before = footprint();
  for (std::size_t last = 0; last < operations.size(); ++last) {
    const int rounds = last + 1 == operations.size() ? 5 : kRounds;  // makes a stream each time
    int boomed = 0;
    destroyed = 0;
    for (int round = 0; round < rounds; ++round) {
      try {
        Capture capture(stream, "fails");
        capturing = &capture;
        for (std::size_t i = 0; i <= last; ++i) operations[i].second();
        throw std::runtime_error("boom");
      } catch (const std::exception& error) {
        boomed += std::string(error.what()) == "boom";  // and nothing about the capture
      }
      allocated.clear();
    }
    EXPECT_EQ(boomed, rounds) << operations[last].first;
    EXPECT_EQ(capture_state(stream), CaptureState::kNone) << operations[last].first;
    EXPECT_EQ(capture_state(side), CaptureState::kNone) << operations[last].first;
    EXPECT_TRUE(footprint() == before) << operations[last].first;
    const int payloads = (last >= 6) + (last >= 13) + (last >= 14);
    EXPECT_EQ(destroyed.load(), payloads * rounds) << operations[last].first;
    EXPECT_EQ(generator.state().offset, 0u);
    // The failing call may go on without a graph, and the next capture is as good as any.
    std::int32_t y = 0;
    stream.launch(put, {}, &x, 10);
    side.launch(put, {}, &y, 11);
    device.synchronize();
    EXPECT_EQ(x, 10);
    EXPECT_EQ(y, 11);
    Capture capture(stream, "works");
    stream.launch(put, {}, &x, 12);
    const GraphDefinition definition = capture.end();
    EXPECT_EQ(definition.node_count(), 1u);
    definition.instantiate().launch(stream);
    stream.synchronize();
    EXPECT_EQ(x, 12);
  }
}

// An error of end() leaves as little behind as one of the body.
TEST_P(Report, B19_a_failed_end_leaves_nothing_behind) {
  const Event fork = device.create_event();
  std::atomic<int> destroyed{0};
  const Footprint before = footprint();
  for (int round = 0; round < 100; ++round) {
    Capture capture(stream, "fails");
    stream.host_function([p = std::make_shared<Payload>(destroyed)] {});
    stream.mark(fork);
    side.wait(fork);
    if (round % 2 == 0) {
      expect_error(ErrorCode::kFailedPrecondition, "was not joined back", [&] { (void)capture.end(); });
    } else {
      expect_error(ErrorCode::kFailedPrecondition, "a query", [&] { (void)stream.idle(); });
      expect_error(ErrorCode::kFailedPrecondition, "a query", [&] { (void)capture.end(); });
    }
    EXPECT_EQ(capture_state(side), CaptureState::kNone);
    side.launch(put, {}, &x, round);
  }
  EXPECT_TRUE(footprint() == before);
  EXPECT_EQ(destroyed.load(), 100);
  EXPECT_EQ(x, 99);
}

// Everything that one can drop, dropped by the thread that captures, by another one and by a callback, while work that
// uses it has not run. The capture does not notice, and each thing goes once, when that work has passed.
TEST_P(Report, B20_what_is_dropped_during_a_capture_goes_once) {
  enum class By { kThisThread, kAnotherThread, kCallback };
  for (const By by : {By::kThisThread, By::kAnotherThread, By::kCallback}) {
    const Footprint before = footprint();
    std::atomic<int> destroyed{0};
    std::int32_t y = 0, z = 0;
    struct Things {
      GraphDefinition definition;
      ExecutableGraph graph;
      Event event;
      Stream used;
      Memory memory;
      Module module;
      LaunchPlan plan;
    };
    auto things = std::make_unique<Things>();
    things->module = load(device);
    things->event = device.create_event();
    things->used = device.create_stream();
    things->plan = LaunchPlan::create(things->module.kernel("put"), {.shape = LaunchShape{}});
    {
      Capture capture(stream, "dropped");
      things->memory = device.allocate(4096);
      const auto n = capture.parameter<std::int32_t>("n");
      (void)capture.operation("o", {n}, {OutputSpec::scratch(1024)},
                              [](OperationCall& call) { call.set_scratch(0, 8); });
      stream.launch(things->module.kernel("put"), {}, &y, n);
      stream.host_function([p = std::make_shared<Payload>(destroyed)] {});
      things->definition = capture.end();
    }
    things->graph = things->definition.instantiate();
    {
      // On the very stream that is captured later, and on another: none of it runs before the release.
      testing::Hold hold(device);
      hold.hold(stream);
      hold.hold(things->used);
      StepValues values = things->graph.values();
      values.set(things->definition.parameter<std::int32_t>("n"), 7);
      things->graph.launch(stream, values);
      things->used.mark(things->event);
      things->plan.launch(things->used, &z, 8);
      const bool waits_for_callback = by == By::kCallback;
      std::promise<void> gone;
      Capture capture(stream, "stays");
      stream.launch(put, {}, &x, 1);
      const auto drop = [&things] { things.reset(); };
      if (by == By::kThisThread) drop();
      if (by == By::kAnotherThread) on_another_thread(drop);
      if (waits_for_callback) {
        side.host_function([&] {
          drop();
          gone.set_value();
        });
        ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
      }
      EXPECT_EQ(things, nullptr);
      (void)device.counters();  // collects what may go
      EXPECT_EQ(destroyed.load(), 0);
      stream.launch(put, {}, &x, 2);
      EXPECT_EQ(capture_state(stream), CaptureState::kActive);
      const GraphDefinition definition = capture.end();
      EXPECT_EQ(definition.node_count(), 2u);
      hold.release();
      definition.instantiate().launch(stream);
    }
    EXPECT_TRUE(footprint() == before);
    EXPECT_EQ(destroyed.load(), 1);
    EXPECT_EQ(x, 2);
    EXPECT_EQ(y, 7);
    EXPECT_EQ(z, 8);
  }
}

// A watchdog in another thread looks at everything, asks what it must not ask, and the capture stands.
TEST_P(Report, B24_questions_of_other_threads_spoil_no_capture) {
  const Event event = device.create_event();
  for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    Capture capture(stream, "watched", mode);
    stream.mark(event);
    std::atomic<bool> stop{false};
    std::atomic<int> rounds{0}, refusals{0};
    auto watchdog = std::async(std::launch::async, [&] {
      const Stream own = device.create_stream();
      const Event polled = device.create_event();
      std::int32_t y = 0;
      while (!stop.load()) {
        const Memory memory = device.allocate(64);
        own.launch(put, {}, &y, 1);
        own.mark(polled);
        while (!polled.query()) std::this_thread::yield();
        EXPECT_TRUE(own.idle());
        const std::function<void()> questions[] = {[&] { (void)stream.idle(); }, [&] { (void)event.query(); },
                                                   [&] { stream.synchronize(); }, [&] { device.synchronize(); }};
        for (const auto& ask : questions) {
          try {
            ask();
          } catch (const Error& error) {
            refusals += error.code() == ErrorCode::kFailedPrecondition;
          }
        }
        ++rounds;
      }
    });
    struct Stop {  // also when a submission is refused, or the watchdog would be waited for without end
      std::atomic<bool>& flag;
      ~Stop() { flag = true; }
    } const stops{stop};
    for (int i = 0; i < 200 || rounds.load() < 5; ++i) {
      stream.launch(put, {}, &x, i);
      if (i >= 200)
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // until the watchdog has had its turns
    }
    stop = true;
    watchdog.get();
    EXPECT_EQ(capture_state(stream), CaptureState::kActive);
    EXPECT_GE(refusals.load(), 4 * 5);
    const GraphDefinition definition = capture.end();
    EXPECT_GE(definition.node_count(), 201u);
    definition.instantiate().launch(stream);
    stream.synchronize();
    EXPECT_GE(x, 199);
  }
}

// Hazard 23: a capture begins while steps of other graphs wait for their values, on the stream that is captured, on
// others and on a helper thread. Publishing goes on inside, by this thread and by another.
TEST_P(Report, H23_a_capture_begins_while_updates_are_under_way) {
  std::int32_t y = 0, z = 0;
  const auto make = [&](std::int32_t* to, const InstantiateOptions& options) {
    Capture capture(side, "updated");
    const auto value = capture.parameter<std::int32_t>("value");
    side.launch(put, {}, to, value);
    return capture.end().instantiate(options);
  };
  const ExecutableGraph here = make(&y, {}), elsewhere = make(&z, {.updater = true}),
                        cut = make(&z, {.depth = 1, .tier = Tier::kCut});
  StepValues of_here = here.values();
  const Step first = here.launch_open(stream, Publisher::kOtherThread), second = here.launch_open(stream);
  elsewhere.launch(side, elsewhere.values());
  Capture capture(stream, "among updates");
  stream.launch(put, {}, &x, 1);
  elsewhere.launch(side, elsewhere.values());
  const Step opened = cut.launch_open(side, Publisher::kOtherThread);
  on_another_thread([&] {
    here.publish(first, here.values());
    cut.publish(opened, cut.values());
    cut.launch(side, cut.values());
  });
  here.publish(second, of_here);
  stream.launch(put, {}, &x, 2);
  const GraphDefinition definition = capture.end();
  EXPECT_EQ(definition.node_count(), 2u);
  here.wait(second);
  definition.instantiate().launch(stream);
  device.synchronize();
  EXPECT_EQ(x, 2);
  EXPECT_EQ(here.counters().published, 2u);
  EXPECT_EQ(cut.counters().published, 2u);
}

INSTANTIATE_TEST_SUITE_P(Captures, Report, ::testing::Values("cpu:inline", "cpu:workers=1"),
                         [](const auto& param) { return std::string(param.index == 0 ? "cpu_inline" : "cpu_1"); });

}  // namespace
}  // namespace slipway::graph_tests
