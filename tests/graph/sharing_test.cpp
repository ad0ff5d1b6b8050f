// Graphs that share streams, threads and values; and whatever is dropped at whatever point of a step.
#include <algorithm>
#include <memory>
#include <optional>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

constexpr WaitLimit kLimit{10'000};

class Sharing : public GraphOn {
 protected:
  struct Appending {
    std::vector<std::int32_t> list;
    ScalarParameter<std::int32_t> value;
    ExecutableGraph graph;
  };
  std::unique_ptr<Appending> make(const std::string& name, std::size_t room, unsigned depth) {
    auto a = std::make_unique<Appending>();
    a->list.assign(room + 1, 0);
    Capture capture(stream, name);
    a->value = capture.parameter<std::int32_t>("value");
    stream.launch(module.kernel("append"), {}, a->list.data(), a->value);
    a->graph = capture.end().instantiate({.depth = depth});
    return a;
  }
  // Of each thread the values that it gave, in its own order.
  static void expect_each_in_order(const Appending& a, int threads, int each) {
    ASSERT_EQ(a.list[0], threads * each);
    std::vector<int> next(static_cast<std::size_t>(threads));
    for (int i = 1; i <= threads * each; ++i) {
      const std::int32_t v = a.list[static_cast<std::size_t>(i)];
      const auto thread = static_cast<std::size_t>(v / 10'000);
      ASSERT_LT(thread, next.size());
      ASSERT_EQ(v % 10'000, next[thread]++) << "thread " << thread;
    }
  }
};

// One executable is launched by several threads, each on a stream of its own, while others launch another on the same.
TEST_P(Sharing, ThreadsShareExecutablesAndStreams) {
  constexpr int kThreads = 3, kEach = 100;
  const auto one = make("one", kThreads * kEach, 2), two = make("two", kThreads * kEach, 3);
  std::vector<Stream> streams;
  for (int t = 0; t < kThreads; ++t) streams.push_back(device.create_stream());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      StepValues first = one->graph.values(), second = two->graph.values();
      for (std::int32_t i = 0; i < kEach; ++i) {
        first.set(one->value, t * 10'000 + i);
        one->graph.launch(streams[static_cast<std::size_t>(t)], first);
        second.set(two->value, t * 10'000 + i);
        two->graph.launch(streams[static_cast<std::size_t>(t + i) % kThreads], second);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device.synchronize(kLimit);
  expect_each_in_order(*one, kThreads, kEach);
  expect_each_in_order(*two, kThreads, kEach);
  EXPECT_EQ(one->graph.counters().published, static_cast<std::uint64_t>(kThreads * kEach));
}

// Launchers and publishers are different threads, for two executables on one stream.
TEST_P(Sharing, LaunchersAndPublishersAreDifferentThreads) {
  constexpr std::int32_t kSteps = 200;
  const auto one = make("one", kSteps, 2), two = make("two", kSteps, 4);
  std::atomic<std::int32_t> launched{0};
  std::vector<std::thread> publishers;
  for (Appending* a : {one.get(), two.get()}) {
    for (std::int32_t half = 0; half < 2; ++half) {  // each publishes every other step
      publishers.emplace_back([&, a, half] {
        StepValues values = a->graph.values();
        for (std::int32_t i = half; i < kSteps; i += 2) {
          while (launched.load() <= i) std::this_thread::yield();
          values.set(a->value, i);
          a->graph.publish({static_cast<std::uint64_t>(i) + 1}, values);
        }
      });
    }
  }
  for (std::int32_t i = 0; i < kSteps; ++i) {
    (void)one->graph.launch_open(stream, Publisher::kOtherThread);
    (void)two->graph.launch_open(stream, Publisher::kOtherThread);
    launched.store(i + 1);
  }
  for (std::thread& thread : publishers) thread.join();
  stream.synchronize(kLimit);
  expect_each_in_order(*one, 1, kSteps);
  expect_each_in_order(*two, 1, kSteps);
}

// Cancelling and recovering while other threads launch: each launch ends, with success or with a cancellation.
TEST_P(Sharing, CancellingRacesWithLaunching) {
  const auto one = make("one", 2000, 2);
  std::atomic<bool> stop{false};
  std::atomic<int> succeeded{0}, refused{0};
  std::atomic<std::uint64_t> last{0};
  std::thread launcher([&] {
    StepValues values = one->graph.values();
    for (std::int32_t i = 0; i < 300; ++i) {
      values.set(one->value, i);
      try {
        last = one->graph.launch(stream, values).number;
        ++succeeded;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
        ++refused;
      }
    }
    stop = true;
  });
  while (!stop) {
    if (last == 0) continue;
    one->graph.cancel({last}, "race");
    for (bool recovered = false; !recovered;) {
      try {
        one->graph.recover();
        recovered = true;
      } catch (const Error& error) {
        ASSERT_TRUE(error.code() == ErrorCode::kBusy || error.code() == ErrorCode::kCancelled) << error.what();
        std::this_thread::yield();
      }
    }
  }
  launcher.join();
  one->graph.recover();
  EXPECT_EQ(succeeded + refused, 300);
  EXPECT_LE(one->list[0], succeeded + refused);
  StepValues values = one->graph.values();
  values.set(one->value, 7);
  const std::int32_t before = one->list[0];
  one->graph.launch(stream, values);
  stream.synchronize(kLimit);
  EXPECT_EQ(one->list[0], before + 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, Sharing, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

// --- Dropping ---

// Everything that a step needs or touches, each of which may go at any time.
struct Rig {
  explicit Rig(const std::string& uri) : device(Device::open(uri)), impl(device->impl()) {
    stream = device->create_stream();
    other = device->create_stream();
    event = device->create_event();
    module = load(*device);
    put = module->kernel("put");
    memory = device->allocate(64);
    token = std::make_shared<int>(0);
    Capture c(*stream, "dropped");
    value = c.parameter<std::int32_t>("value", 0);
    stream->host_function([t = token, this] {
      (void)t;
      inside = 1;
      for (int i = 0; i < 10'000 && stand != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const Operation twice = c.operation(
        "twice", {value}, {OutputSpec::argument(ArgKind::kI32), OutputSpec::scratch(64)}, [](OperationCall& call) {
          call.set(0, 2 * call.input<std::int32_t>(0));
          call.set_scratch(1, 64);
        });
    stream->launch(*put, {}, twice.output_ref(1), value);
    stream->launch(*put, {}, *memory, twice.output<std::int32_t>(0));
    stream->copy_to_host(&seen, memory->address(), 4);
    stream->host_function([this] { done = 1; });
    definition = c.end();
    graph = definition->instantiate({.depth = 2});
    values = graph->values();
    values->set(value, 21);
    capture.emplace(*other, "under way", CaptureMode::kRelaxed);
    other->launch(*put, {}, *memory, 1);
  }

  std::optional<Device> device;
  std::weak_ptr<internal::DeviceImpl> impl;
  std::optional<Stream> stream, other;
  std::optional<Event> event;
  std::optional<Module> module;
  std::optional<Kernel> put;
  std::optional<Memory> memory;
  std::optional<GraphDefinition> definition;
  std::optional<ExecutableGraph> graph;
  std::optional<StepValues> values;
  std::optional<Capture> capture;
  std::shared_ptr<int> token;
  ScalarParameter<std::int32_t> value;
  std::atomic<int> inside{0}, stand{0}, done{0};
  std::int32_t seen = 0;
};

struct Dropped {
  const char* name;
  void (*drop)(Rig&);
};
// clang-format off
const Dropped kDropped[] = {
    {"nothing", [](Rig&) {}},
    {"definition", [](Rig& r) { r.definition.reset(); }},
    {"executable", [](Rig& r) { r.graph.reset(); }},
    {"definition and executable", [](Rig& r) { r.definition.reset(); r.graph.reset(); }},
    {"stream", [](Rig& r) { r.stream.reset(); }},
    {"event", [](Rig& r) { r.event.reset(); }},
    {"memory", [](Rig& r) { r.memory.reset(); }},
    {"module", [](Rig& r) { r.module.reset(); }},
    {"module and kernel", [](Rig& r) { r.module.reset(); r.put.reset(); }},
    {"device handle", [](Rig& r) { r.device.reset(); }},
    {"capture", [](Rig& r) { r.capture.reset(); }},
    {"step values", [](Rig& r) { r.values.reset(); }},
    {"token", [](Rig& r) { r.token.reset(); }},
};
enum class Stage { kNotLaunched, kOpen, kRunning, kBehindAHold, kPassed };
// clang-format on

void run(const std::string& uri, const Dropped& dropped, Stage stage) {
  const auto begin = std::chrono::steady_clock::now();
  std::weak_ptr<int> token;
  std::weak_ptr<internal::DeviceImpl> device;
  {
    Rig r(uri + ",wait_limit_ms=30000");
    token = r.token;
    device = r.impl;
    std::optional<Stream> stream(*r.stream);
    std::optional<testing::Hold> hold;
    std::optional<Step> step;
    if (stage == Stage::kBehindAHold) hold.emplace(*r.device).hold(*stream);
    r.stand = stage == Stage::kRunning ? 1 : 0;
    if (stage == Stage::kOpen) step = r.graph->launch_open(*stream);
    else if (stage != Stage::kNotLaunched) r.graph->launch(*stream, *r.values);
    if (stage != Stage::kNotLaunched) stream->mark(*r.event);
    if (stage == Stage::kRunning) {
      ASSERT_TRUE(becomes(r.inside, 1));
    }
    if (stage == Stage::kPassed) stream->synchronize(kLimit);
    dropped.drop(r);
    if (!r.stream) stream.reset();  // the last handle
    r.stand = 0;
    hold.reset();
    bool runs = stage != Stage::kNotLaunched;
    if (step && r.graph && r.values) {
      r.graph->publish(*step, *r.values);
    } else if (step) {
      runs = false;
      if (r.graph) r.graph->cancel(*step, "its values were dropped");
      expect_error(ErrorCode::kCancelled, "dropped", [&] { stream->synchronize(kLimit); });
      stream->recover();
      if (r.graph) r.graph->recover();
    }
    if (stage == Stage::kNotLaunched && stream && r.graph && r.values && r.memory) {
      r.graph->launch(*stream, *r.values);
      runs = true;
    }
    if (runs && stream) stream->synchronize(kLimit);
    if (runs) {
      EXPECT_TRUE(becomes(r.done, 1));
      EXPECT_EQ(r.seen, 42);
    }
    if (stream && !r.memory) {
      expect_error(ErrorCode::kStaleAddress, "dropped", [&] { r.graph->launch(*stream, *r.values); });
    }
    if (stream && r.put && r.memory) {  // the device works as before
      stream->launch(*r.put, {}, *r.memory, 5);
      std::int32_t back = 0;
      stream->copy_to_host(&back, r.memory->address(), 4);
      stream->synchronize(kLimit);
      EXPECT_EQ(back, 5);
    }
  }
  // Helper threads hold the executable until they see that it was dropped.
  for (int i = 0; i < 5000 && (!token.expired() || !device.expired()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(token.expired()) << "what a captured host function owned was leaked";
  EXPECT_TRUE(device.expired()) << "the device was leaked";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

class Dropping : public ::testing::TestWithParam<std::string> {};

TEST_P(Dropping, AnythingAtAnyPointOfAStep) {
  for (const Stage stage : {Stage::kNotLaunched, Stage::kOpen, Stage::kRunning, Stage::kBehindAHold, Stage::kPassed}) {
    if (stage == Stage::kRunning && GetParam() == "cpu:inline") continue;  // it runs inside the launch
    for (const Dropped& dropped : kDropped) {
      SCOPED_TRACE(std::string(dropped.name) + ", stage " + std::to_string(static_cast<int>(stage)));
      try {
        run(GetParam(), dropped, stage);
      } catch (const Error& error) {
        FAIL() << error.what();
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Dropping, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
