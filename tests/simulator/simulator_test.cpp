// The simulator itself: schedules are found again, deadlocks are told, and time passes only where it may.
#include <gtest/gtest.h>

#include <set>

#include "device/device_impl.h"
#include "simulator/world.h"

namespace slipway::simulator {
namespace {

class Programs : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Programs, GoWellInEachSchedule) {
  const Program& program = programs()[GetParam()];
  EXPECT_EQ(search(program.make, 400), "") << program.name;
}

INSTANTIATE_TEST_SUITE_P(Each, Programs, ::testing::Range<std::size_t>(0, programs().size()), [](const auto& test) {
  std::string name;
  for (const char c : std::string(programs()[test.param].name)) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
});

std::unique_ptr<World> one_step(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  Steps& steps = world->steps("small", false);
  world->simulation.add_thread("launches", [&steps, on = world->stream("main")] { steps.launch(on, 1); });
  return world;
}

TEST(Simulator, GoesThroughAllSchedulesOfASmallProgram) {
  for (const std::string uri : {"sim:", "sim:gates=resettable", "sim:gates=resettable,wait=before"}) {
    std::string problem;
    const std::uint64_t count = search_all([&] { return one_step(uri); }, 20000, problem);
    EXPECT_EQ(problem, "") << uri;
    EXPECT_GT(count, 5u) << uri;
  }
}

// Two threads that sleep for each other's lock: found, and each of the two ways to say which schedule finds it again.
std::unique_ptr<World> crossed_locks() {
  auto world = std::make_unique<World>("sim:");
  struct Locks {
    internal::Mutex a, b;
  };
  const auto locks = std::make_shared<Locks>();
  Simulation& simulation = world->simulation;
  const auto both = [&simulation, locks](internal::Mutex& first, internal::Mutex& second) {
    const std::lock_guard one(first);
    simulation.pause();
    const std::lock_guard two(second);
  };
  simulation.add_thread("left", [locks, both] { both(locks->a, locks->b); });
  simulation.add_thread("right", [locks, both] { both(locks->b, locks->a); });
  return world;
}

// Its threads hold what they wait for, for good: it stays, and leak checkers see that it is known.
void keep(std::unique_ptr<World> stuck) {
  static auto& all = *new std::vector<std::unique_ptr<World>>;
  all.push_back(std::move(stuck));
}

TEST(Simulator, NamesTheCycleAndFindsItAgain) {
  std::uint64_t seed = 1;
  std::string problem;
  Choices choices;
  std::vector<std::uint32_t> list;
  for (; seed < 100 && problem.empty(); ++seed) {
    auto world = crossed_locks();
    choices.seed(seed);
    problem = world->run(choices);
    list = choices.made();
    if (!problem.empty()) keep(std::move(world));
  }
  ASSERT_NE(problem.find("a cycle: thread 'left' waits for a lock that thread 'right' holds"), std::string::npos)
      << problem;
  EXPECT_NE(problem.find("seed " + std::to_string(seed - 1)), std::string::npos) << problem;
  for (const bool by_list : {false, true}) {
    auto world = crossed_locks();
    if (by_list) choices.list(list);
    else choices.seed(seed - 1);
    EXPECT_NE(world->run(choices).find("deadlock"), std::string::npos);
    keep(std::move(world));
  }
}

TEST(Simulator, SeedsDiffer) {
  std::set<std::vector<std::uint32_t>> seen;
  auto world = programs()[1].make();
  Choices choices;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    choices.seed(seed);
    ASSERT_EQ(world->run(choices), "");
    seen.insert(choices.made());
  }
  EXPECT_GT(seen.size(), 40u);
}

TEST(Simulator, TimePassesOnlyWhenNothingElseCanHappen) {
  World world("sim:wait_limit_ms=5000");
  Steps& steps = world.steps("late", false, {.watchdog = std::chrono::milliseconds(1000)});
  const Stream on = world.stream("main");
  std::string told;
  world.count_steps = false;
  world.simulation.let_time_pass(true);
  world.simulation.add_thread("launches", [&] {
    const Step step = steps.open(on);
    try {
      steps.graph.wait(step);
    } catch (const Error& error) {
      told = error.what();
    }
    steps.graph.recover();
  });
  Choices choices;
  choices.seed(1);
  EXPECT_EQ(world.run(choices), "");
  EXPECT_NE(told.find("gate 'values' was not opened within 1000 ms"), std::string::npos) << told;
  EXPECT_LT(world.simulation.time_ns(), 3'000'000'000);
}

// Without a test that drives it, the device runs by itself, in the order of its seed.
TEST(Simulator, RunsByItselfByItsSeed) {
  std::set<std::vector<std::int64_t>> orders;
  for (int seed = 0; seed < 20; ++seed) {
    const Device device = Device::open("sim:seed=" + std::to_string(seed));
    const Module module = device.load_table({kernel<&see>("see")});
    Seen seen;
    testing::Hold hold(device);
    for (std::int64_t s = 0; s < 3; ++s) {
      const Stream stream = device.create_stream();
      hold.hold(stream);
      for (std::int64_t i = 0; i < 2; ++i) {
        stream.launch(module.kernel("see"), {}, Argument::bytes_of(SeenBy{&seen}), s * 10 + i);
      }
    }
    EXPECT_TRUE(seen.values.empty());
    // From inside, so that several are ready at once.
    device.create_stream().host_function([&] { hold.release(); }, "releases");
    EXPECT_EQ(seen.values.size(), 6u);
    orders.insert(seen.values);
  }
  EXPECT_GT(orders.size(), 5u);
}

TEST(Simulator, RefusesOptionsThatDoNotFit) {
  for (const auto& [uri, words] :
       std::vector<std::pair<std::string, std::string>>{{"sim:gates=manual", "it takes counting or resettable"},
                                                        {"sim:record_first=1", "give gates=resettable too"},
                                                        {"sim:colour=1", "colour"}}) {
    try {
      Device::open(uri);
      ADD_FAILURE() << uri;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

void put(std::int32_t* out, std::int32_t value) { *out = value; }

// The graph whose update the device refused is gone, and cannot be recovered any more.
TEST(Simulator, ADroppedGraphDoesNotLeaveTheUpdatesFailed) {
  const Device device = Device::open("sim:gates=resettable,wait_limit_ms=5000");
  const Stream stream = device.create_stream();
  const Module module = device.load_table({kernel<&put>("put")});
  std::int32_t seen = 0;
  const auto make = [&] {
    Capture capture(stream);
    stream.launch(module.kernel("put"), {}, &seen, capture.parameter<std::int32_t>("value", 7));
    return capture.end().instantiate();
  };
  const ExecutableGraph other = make();
  {
    const ExecutableGraph graph = make();
    internal::sim_control(device.impl()->driver())->refuse_rewrite(0);
    graph.launch(stream, graph.values());
    EXPECT_THROW(stream.synchronize(), Error);
    stream.recover();
    EXPECT_THROW(other.launch(stream, other.values()), Error);  // it can still be recovered
  }
  other.launch(stream, other.values());
  stream.synchronize();
  EXPECT_EQ(seen, 7);
  device.synchronize();
}

}  // namespace
}  // namespace slipway::simulator
