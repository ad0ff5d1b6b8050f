// What can go wrong between a replay and its update, one test for each row of docs/hazards.md. Where a rule prevents
// it, the test sees that without the rule it happens.
#include <gtest/gtest.h>

#include "device/stream_impl.h"
#include "graph/executable.h"
#include "simulator/world.h"

namespace slipway::simulator {
namespace {

using internal::Rule;

constexpr std::uint64_t kSchedules = 200;
constexpr char kResettable[] = "sim:gates=resettable";

MakeWorld program(const std::string& name) {
  for (const Program& p : programs()) {
    if (p.name == name) return p.make;
  }
  throw std::logic_error("there is no program '" + name + "'");
}

void expect_well(const MakeWorld& make, std::uint64_t schedules = kSchedules) {
  EXPECT_EQ(search(make, schedules), "");
}
void expect_found(Rule rule, const MakeWorld& make, const std::vector<std::string>& words) {
  const Without without(rule);
  const std::string problem = search(make, 500);
  bool found = false;
  for (const std::string& w : words) found = found || problem.find(w) != std::string::npos;
  EXPECT_TRUE(found) << "without the rule: '" << problem << "'";
}
// Prevented by the rule.
void expect_prevented(Rule rule, const MakeWorld& make, const std::vector<std::string>& words) {
  expect_well(make);
  expect_found(rule, make, words);
}

template <class Call>
void expect_refused(ErrorCode code, const std::string& words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "expected " << name_of(code) << " with '" << words << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_FALSE(error.submitted()) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}
// The same for a thread of a simulation, whose checks end its schedule.
template <class Call>
void must_refuse(ErrorCode code, const std::string& words, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == code && std::string(error.what()).find(words) != std::string::npos) return;
    throw;
  }
  throw std::logic_error("'" + words + "' was not refused");
}
void must(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// One thread, one graph, and what it does with it.
template <class Body>
MakeWorld one_thread(const std::string& uri, bool with_operation, Body body, const InstantiateOptions& options = {}) {
  return [=] {
    auto world = std::make_unique<World>(uri);
    Steps& steps = world->steps("graph", with_operation, options);
    World& w = *world;
    w.simulation.add_thread("launches", [&w, &steps, body, on = w.stream("main")] { body(w, steps, on); });
    return world;
  };
}

TEST(Hazard, H01_a_gate_is_set_before_it_was_reset) {
  expect_prevented(Rule::kTrailingWait, program("resettable, two graphs"), {"(b)", "(c)"});
}
TEST(Hazard, H02_a_blocking_launch_waits_for_what_comes_after_it) {
  expect_prevented(Rule::kUpdateFirst, program("blocking"), {"deadlock"});
  expect_prevented(Rule::kUpdateFirst, program("resettable, blocking"), {"deadlock"});
}
TEST(Hazard, H03_the_wait_for_the_replay_stands_in_front_of_the_update) {
  expect_prevented(Rule::kWaitBehindUpdate, program("resettable, runs ahead"), {"deadlock, a cycle"});
}
TEST(Hazard, H04_arguments_are_rewritten_while_they_are_read) {
  expect_prevented(Rule::kTrailingWait, program("resettable, runs ahead"), {"(c)", "(b)"});
  expect_prevented(Rule::kWaitForSlot, program("runs ahead"), {"(c)"});
}
TEST(Hazard, H05_a_task_runs_before_its_arguments_are_rewritten) {
  expect_prevented(Rule::kGateInFront, program("resettable, runs ahead"), {"(a)", "(d)"});
  expect_prevented(Rule::kValuesBeforeGate, program("two threads launch"), {"(a)"});
}
TEST(Hazard, H06_an_operation_without_a_gate) {
  // As many gates as there are sources of values, on the tape and in the update.
  World world(kResettable);
  Steps& steps = world.steps("graph", true);
  const auto& layout = steps.graph.impl()->core->definition().serial;
  std::size_t waits = 0, resets = 0;
  for (std::size_t at = 0; at < layout.records.size();) {
    const auto& header = *reinterpret_cast<const internal::RecordHeader*>(layout.records.data() + at);
    waits += header.kind == internal::RecordKind::kWaitGate;
    resets += header.kind == internal::RecordKind::kResetGate;
    at += header.size_bytes;
  }
  EXPECT_EQ(waits, 2u);
  EXPECT_EQ(resets, 2u);
  EXPECT_EQ(layout.groups.size(), 2u);
}
TEST(Hazard, H07_two_graphs_share_the_update_stream) {
  expect_prevented(Rule::kOneUpdateAtATime, two_on_one_stream, {"deadlock, a cycle"});
}
TEST(Hazard, H08_two_graphs_update_at_once) {
  // There is one update stream, so updates are ordered: the checker's (e).
  auto world = program("resettable, two graphs")();
  Choices choices;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    choices.seed(seed);
    ASSERT_EQ(world->run(choices), "");
  }
  EXPECT_EQ(world->device.impl()->updates().recreated, 0u);
}
TEST(Hazard, H09_the_update_stream_is_the_replays) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:gates=resettable,streams=2");
    const Stream on = world->stream("main");
    Steps& steps = world->steps("pooled", false);
    World& w = *world;
    w.simulation.add_thread("launches", [&w, &steps, on] {
      steps.launch(on, 1);
      must(w.device.impl()->updates().recreated == 1, "the update stream was not made anew");
    });
    return world;
  };
  expect_well(make, 1);
  expect_found(Rule::kOtherStream, make, {"deadlock"});
  World alone("sim:gates=resettable,streams=1");
  Steps& steps = alone.steps("alone", false);
  const Stream on = alone.stream("main");
  expect_refused(ErrorCode::kUnavailable, "found no stream", [&] { steps.launch(on, 1); });
}
MakeWorld captures_meanwhile(const std::string& uri) {
  return [uri] {
    auto world = std::make_unique<World>(uri);
    Steps& steps = world->steps("graph", true);
    World& w = *world;
    w.simulation.add_thread("launches", [&steps, on = w.stream("main")] {
      for (std::int64_t i = 1; i <= 3; ++i) steps.launch(on, i);
    });
    w.simulation.add_thread("captures", [&w, on = w.stream("captured")] {
      Capture capture(on, "other");
      w.simulation.pause();
      on.launch(w.module.kernel("nothing"), {}, static_cast<std::int32_t*>(nullptr));
      w.simulation.pause();
      const GraphDefinition definition = capture.end();
      must(definition.node_count() == 1, "the capture has the work of others");
    });
    return world;
  };
}
TEST(Hazard, H10_an_update_is_captured) {
  for (const char* uri : {"sim:", kResettable, "sim:gates=resettable,streams=3"}) expect_well(captures_meanwhile(uri));
}
MakeWorld picky() {
  return [] {
    auto world = std::make_unique<World>(kResettable);
    World& w = *world;
    const Stream on = w.stream("main");
    struct Shared {
      ExecutableGraph graph;
      ScalarParameter<std::int64_t> value;
      Seen seen;
    };
    const auto s = std::make_shared<Shared>();
    Capture capture(on, "picky");
    s->value = capture.parameter<std::int64_t>("value");
    const Operation odd =
        capture.operation("odd", {s->value}, {OutputSpec::argument(ArgKind::kI64)}, [](OperationCall& call) {
          if (call.input<std::int64_t>(0) < 0) throw std::invalid_argument("below zero");
          call.set(0, call.input<std::int64_t>(0));
        });
    on.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{&s->seen}), odd.output<std::int64_t>(0));
    s->graph = capture.end().instantiate();
    w.simulation.add_graph(s->graph);
    w.count_steps = false;
    w.simulation.add_thread("launches", [s, on] {
      StepValues values = s->graph.values();
      for (const std::int64_t v : {1, -1, 2}) {
        values.set(s->value, v);
        if (v > 0) s->graph.launch(on, values);
        else must_refuse(ErrorCode::kInvalidArgument, "below zero", [&] { s->graph.launch(on, values); });
      }
      on.synchronize();
      must(s->seen.values == std::vector<std::int64_t>{1, 2}, "the refused values ran");
      s->seen.values.clear();
    });
    return world;
  };
}
TEST(Hazard, H11_the_host_fails_between_replay_and_update) {
  expect_prevented(Rule::kFallibleFirst, picky(), {"deadlock", "(f)"});
}
TEST(Hazard, H12_an_update_fails_half_way) {
  expect_prevented(Rule::kRescue, program("resettable, refused"), {"deadlock"});
  expect_prevented(Rule::kRezero, program("resettable, refused"), {"(a)", "(b)"});
}
TEST(Hazard, H13_a_half_written_task_runs) {
  // The second group is refused: what waits for it never runs in that step.
  expect_well(one_thread(kResettable, true, [](World& w, Steps& steps, const Stream& on) {
    w.count_steps = false;
    internal::sim_control(w.device.impl()->driver())->refuse_rewrite(1);
    const std::int64_t changed = static_cast<std::int64_t>(w.simulation.turns()) + 5;
    steps.graph.launch(on, steps.of(changed));
    must_refuse(ErrorCode::kInvalidArgument, "refused to rewrite", [&] { on.synchronize(); });
    must(steps.second.values.empty(), "a task that was not rewritten ran");
    steps.recover();
  }));
}
TEST(Hazard, H14_an_update_fails_on_the_device) {
  // One graph's update fails; the other's is queued behind it, and its replay does not wait for ever.
  expect_well([] {
    auto world = std::make_unique<World>(kResettable);
    world->count_steps = false;
    World& w = *world;
    w.before = [&w] { internal::sim_control(w.device.impl()->driver())->refuse_rewrite(1); };
    for (const std::string name : {"one", "two"}) {
      Steps& steps = w.steps(name, false);
      w.simulation.add_thread("launches " + name,
                              [&steps, on = w.stream("of " + name), value = std::int64_t{0}]() mutable {
                                try {
                                  for (int i = 0; i < 2; ++i) steps.graph.launch(on, steps.of(++value));
                                  on.synchronize();
                                } catch (const Error&) {
                                  // Told of the failure, at whatever call.
                                }
                                steps.recover();
                              });
    }
    return world;
  });
}
TEST(Hazard, H15_values_are_gone_before_they_are_used) {
  for (const char* uri : {"sim:", kResettable}) {
    expect_well(one_thread(uri, true, [](World&, Steps& steps, const Stream& on) {
      StepValues values = steps.graph.values();
      values.set(steps.value, std::int64_t{5});
      steps.expect(steps.graph.launch(on, values), 5);
      values.set(steps.value, std::int64_t{99});  // the step has its own by now
      values = StepValues();
    }));
  }
}
TEST(Hazard, H16_two_replays_with_no_update_between) {
  expect_well(one_thread(kResettable, true, [](World& w, Steps& steps, const Stream& on) {
    for (std::int64_t i = 1; i <= 3; ++i) {
      steps.launch(on, i);
      const internal::UpdateStream& updates = w.device.impl()->updates();
      must(updates.replays == updates.updates, "a replay owes its update");
    }
    must_refuse(ErrorCode::kUnsupported, "submitted together", [&] { (void)steps.open(on); });
  }));
  // Gates that count: the second waits for its own values, not for the first one's.
  expect_prevented(Rule::kContiguousGates, program("published backwards"), {"(a)", "(c)"});
}
TEST(Hazard, H17_two_updates_with_no_replay_between) {
  expect_well(one_thread("sim:", false, [](World&, Steps& steps, const Stream& on) {
    const Step step = steps.open(on);
    steps.publish(step, 3);
    must_refuse(ErrorCode::kFailedPrecondition, "published already", [&] { steps.graph.publish(step, steps.of(4)); });
  }));
  // An update that came first, and then its replay is refused: the gates that it sets are reset by recover().
  const auto make =
      one_thread("sim:gates=resettable,record_first=1", false, [](World& w, Steps& steps, const Stream& on) {
        w.count_steps = false;
        on.launch(w.module.kernel("fails"), {}, static_cast<std::int32_t*>(nullptr));
        try {
          steps.graph.launch(on, steps.of(static_cast<std::int64_t>(w.simulation.turns()) + 1));
        } catch (const Error&) {
          // At once, or only when its values were under way.
        }
        try {
          on.synchronize();
        } catch (const Error&) {
          // The kernel that failed.
        }
        steps.recover();
        on.recover();
        steps.graph.launch(on, steps.of(static_cast<std::int64_t>(w.simulation.turns()) + 2));
        on.synchronize();
      });
  expect_prevented(Rule::kRezero, make, {"(b)", "(d)", "set"});
}
TEST(Hazard, H18_nothing_changed_and_nobody_opens_the_gate) {
  expect_prevented(Rule::kSetUnchanged, program("resettable, two graphs"), {"deadlock"});
  World world(kResettable);
  Steps& steps = world.steps("same", true);
  const Stream on = world.stream("main");
  world.simulation.add_thread("launches", [&] {
    for (const std::int64_t value : {4, 4, 4, 5}) steps.launch(on, value);
    on.synchronize();
  });
  Choices choices;
  choices.seed(1);
  EXPECT_EQ(world.run(choices), "");
  EXPECT_EQ(steps.graph.counters().unchanged, 2u);
}
TEST(Hazard, H19_a_graph_with_gates_gets_no_values) {
  for (const char* uri : {"sim:", kResettable}) {
    World world(uri);
    Steps& steps = world.steps("graph", false);
    const Stream on = world.stream("main");
    expect_refused(ErrorCode::kInvalidArgument, "launched without values", [&] { steps.graph.launch(on); });
  }
}
TEST(Hazard, H20_an_update_of_a_graph_without_gates) {
  World world(kResettable);
  const Stream on = world.stream("main");
  Capture capture(on, "plain");
  on.launch(world.module.kernel("nothing"), {}, static_cast<std::int32_t*>(nullptr));
  const ExecutableGraph graph = capture.end().instantiate();
  world.simulation.add_thread("launches", [&] {
    graph.launch(on, graph.values());
    graph.launch(on);
    on.synchronize();
  });
  Choices choices;
  choices.seed(1);
  EXPECT_EQ(world.run(choices), "");
  EXPECT_EQ(world.device.impl()->updates().updates, 0u);
}
TEST(Hazard, H21_records_share_one_mapping) {
  // Two graphs of one shape, with values of their own, at once.
  for (const char* uri : {"sim:", kResettable}) {
    expect_well([uri] {
      auto world = std::make_unique<World>(uri);
      for (const std::int64_t own : {100, 200}) {
        Steps& steps = world->steps("graph " + std::to_string(own), true);
        world->simulation.add_thread("launches " + std::to_string(own), [&steps, own, on = world->stream("main")] {
          steps.launch(on, own);
          steps.launch(on, own + 1);
        });
      }
      return world;
    });
  }
}
TEST(Hazard, H22_the_first_replay_runs_with_what_was_captured) {
  for (const char* uri : {"sim:", kResettable}) {
    const auto first = [](World&, Steps& steps, const Stream& on) { steps.launch(on, 77); };
    std::string problem;
    const std::uint64_t count = search_all(one_thread(uri, false, first), 20000, problem);
    EXPECT_EQ(problem, "");
    EXPECT_GT(count, 3u);
  }
}
TEST(Hazard, H23_a_capture_begins_while_updates_are_under_way) {
  for (const char* uri : {"sim:", kResettable, "sim:gates=resettable,record_first=1"}) {
    expect_well(captures_meanwhile(uri));
  }
}
TEST(Hazard, H25_threads_update_at_once) {
  expect_prevented(Rule::kOneUpdateAtATime, two_on_one_stream, {"deadlock", "(e)"});
  expect_well(program("resettable, two threads launch"));
}
TEST(Hazard, H26_the_thread_that_updates_was_set_up_for_nothing) {
  expect_well(program("updater"));
  // A thread that never touched the device before.
  expect_well(program("published backwards"));
}
TEST(Hazard, H27_the_device_must_record_before_it_waits) {
  expect_prevented(Rule::kUpdateFirst, program("resettable, record first"),
                   {"values were seen in", "nobody had recorded"});
}
// A caller's lock that the one who publishes needs: given back while a launch waits.
MakeWorld locked_caller(bool gives_back) {
  return [gives_back] {
    auto world = std::make_unique<World>("sim:");
    Steps& steps = world->steps("graph", false);
    World& w = *world;
    struct Shared {
      internal::Mutex lock;
      Step step;
    };
    const auto shared = std::make_shared<Shared>();
    w.before = [shared] { shared->step = {}; };
    if (gives_back) {
      w.device.set_blocking_hooks([shared] { shared->lock.unlock(); }, [shared] { shared->lock.lock(); });
    }
    w.simulation.add_thread("waits", [&steps, shared, on = w.stream("main")] {
      const std::lock_guard lock(shared->lock);
      shared->step = steps.open(on);
      steps.graph.wait(shared->step);
    });
    w.simulation.add_thread("publishes", [&w, &steps, shared] {
      w.simulation.await([&] { return shared->step.number != 0; });
      const std::lock_guard lock(shared->lock);
      steps.publish(shared->step, 3);
    });
    return world;
  };
}
TEST(Hazard, H28_a_wait_under_a_lock_that_the_work_needs) {
  expect_well(locked_caller(true));
  const std::string problem = search(locked_caller(false), 50);
  EXPECT_NE(problem.find("waits for a lock that thread 'waits' holds"), std::string::npos) << problem;
}
TEST(Hazard, H29_replay_and_update_are_not_in_one_order) {
  auto world = program("resettable, runs ahead")();
  Choices choices;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    choices.seed(seed);
    ASSERT_EQ(world->run(choices), "");
  }
  EXPECT_GT(world->simulation.checker().began_first(), 50u);
  EXPECT_GT(world->simulation.checker().set_first(), 50u);
}
TEST(Hazard, H30_replays_of_a_graph_on_several_streams) {
  expect_prevented(Rule::kSerialSteps, program("two threads launch"), {"began"});
  expect_prevented(Rule::kTrailingWait, program("resettable, two threads launch"), {"(b)", "(c)"});
}
TEST(Hazard, H31_a_graph_is_dropped_with_work_under_way) {
  for (const char* uri : {"sim:", kResettable, "sim:gates=resettable,record_first=1"}) {
    expect_well(
        [uri] {
          auto world = std::make_unique<World>(uri);
          World& w = *world;
          const auto seen = std::make_shared<Seen>();
          w.simulation.add_thread("launches", [&w, seen, on = w.stream("main"), other = w.stream("captured")] {
            seen->values.clear();
            Capture capture(other, "short");
            const auto value = capture.parameter<std::int64_t>("value");
            other.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{seen.get()}), value);
            {
              const ExecutableGraph graph = capture.end().instantiate();
              StepValues values = graph.values();
              for (const std::int64_t v : {1, 2}) {
                values.set(value, v);
                graph.launch(on, values);
              }
            }
            on.synchronize();
          });
          w.check = [seen] { return seen->values == std::vector<std::int64_t>{1, 2} ? "" : "other values ran"; };
          return world;
        },
        100);
  }
}
TEST(Hazard, H32_memory_died_that_an_update_refers_to) {
  for (const char* uri : {"sim:", kResettable}) {
    World world(uri);
    const Stream on = world.stream("main");
    Memory memory = world.device.allocate(64);
    Capture capture(on, "dangling");
    const auto value = capture.parameter<std::int64_t>("value");
    on.launch(world.module.kernel("nothing"), {}, memory.address());
    Seen seen;
    on.launch(world.module.kernel("see"), {}, Argument::bytes_of(SeenBy{&seen}), value);
    const ExecutableGraph graph = capture.end().instantiate();
    memory = Memory();
    expect_refused(ErrorCode::kStaleAddress, "dangling", [&] { graph.launch(on, graph.values()); });
    EXPECT_EQ(world.device.impl()->updates().replays, 0u);
  }
}
TEST(Hazard, H33_values_need_more_scratch_than_there_is) {
  for (const char* uri : {kResettable}) {
    World world(uri);
    const Stream on = world.stream("main");
    Capture capture(on, "scratch");
    const auto value = capture.parameter<std::int64_t>("value", 16);
    const Operation sized = capture.operation("sized", {value}, {OutputSpec::scratch(64)}, [](OperationCall& call) {
      call.set_scratch(0, static_cast<std::uint64_t>(call.input<std::int64_t>(0)));
    });
    on.launch(world.module.kernel("nothing"), {}, sized.output_ref(0));
    const ExecutableGraph graph = capture.end().instantiate();
    StepValues values = graph.values();
    values.set(value, std::int64_t{65});
    expect_refused(ErrorCode::kOutOfRange, "declared at most 64", [&] { graph.launch(on, values); });
    EXPECT_EQ(world.device.impl()->updates().replays, 0u);
  }
}
TEST(Hazard, H34_an_update_of_another_shape) {
  World world(kResettable);
  Steps& one = world.steps("one", false);
  Steps& two = world.steps("two", true);
  const Stream on = world.stream("main");
  expect_refused(ErrorCode::kInvalidNode, "were given to graph", [&] { one.graph.launch(on, two.graph.values()); });
  EXPECT_EQ(world.device.impl()->updates().replays, 0u);
}
TEST(Hazard, H35_a_wait_without_a_limit) {
  const auto make = one_thread("sim:", true,
                               [](World& w, Steps& steps, const Stream& on) {
                                 w.count_steps = false;
                                 w.simulation.let_time_pass(true);
                                 const Step step = steps.open(on);
                                 must_refuse(ErrorCode::kTimeout,
                                             "gate 'values' was not opened within 500 ms by the thread that owed it",
                                             [&] { steps.graph.wait(step); });
                                 steps.recover();
                               },
                               {.watchdog = std::chrono::milliseconds(500)});
  expect_well(make, 20);
}
TEST(Hazard, H36_a_stream_goes_on_behind_a_failure) {
  for (const char* uri : {"sim:", kResettable}) {
    expect_well([uri] {
      auto world = std::make_unique<World>(uri);
      World& w = *world;
      const Stream on = w.stream("main");
      const auto seen = std::make_shared<Seen>();
      Capture capture(on, "failing");
      const auto value = capture.parameter<std::int64_t>("value");
      on.launch(w.module.kernel("fails"), {}, static_cast<std::int32_t*>(nullptr));
      on.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{seen.get()}), value);
      const auto graph = std::make_shared<ExecutableGraph>(capture.end().instantiate());
      w.simulation.add_thread("launches", [graph, on, seen, value, v = std::int64_t{0}]() mutable {
        StepValues values = graph->values();
        values.set(value, ++v);
        try {
          graph->launch(on, values);
        } catch (const Error& error) {
          must(error.code() == ErrorCode::kKernelFailed, "the launch was told of something else");
        }
        must_refuse(ErrorCode::kKernelFailed, "boom", [&] { on.synchronize(); });
        must(seen->values.empty(), "what stood behind the failure ran");
        graph->recover();
      });
      return world;
    });
  }
}
TEST(Hazard, H39_somebody_is_called_between_replay_and_update) {
  // A full ring makes the replay wait for room: before it is in, never behind it. The checker's (f).
  expect_well(one_thread(kResettable, true,
                         [](World& w, Steps& steps, const Stream& on) {
                           for (int i = 0; i < 520; ++i)
                             on.launch(w.module.kernel("nothing"), {}, static_cast<std::int32_t*>(nullptr));
                           steps.launch(on, 1);
                           steps.launch(on, 2);
                         }),
              5);
}
TEST(Hazard, H40_the_update_stream_had_failed_before) {
  expect_well([] {
    auto world = std::make_unique<World>(kResettable);
    World& w = *world;
    w.count_steps = false;
    Steps &bad = w.steps("bad", false), &good = w.steps("good", false);
    w.simulation.add_thread(
        "launches", [&w, &bad, &good, on = w.stream("main"), more = w.stream("more"), v = std::int64_t{0}]() mutable {
          internal::sim_control(w.device.impl()->driver())->refuse_rewrite(0);
          bad.graph.launch(on, bad.of(++v));
          must_refuse(ErrorCode::kInvalidArgument, "refused to rewrite", [&] { on.synchronize(); });
          const std::uint64_t replays = w.device.impl()->updates().replays;
          must_refuse(ErrorCode::kFailedPrecondition, "whose stream of updates has failed",
                      [&] { good.graph.launch(more, good.of(v)); });
          must(w.device.impl()->updates().replays == replays, "its replay was submitted");
          bad.recover();
          good.graph.launch(more, good.of(v));
          more.synchronize();
        });
    return world;
  });
}
TEST(Hazard, H41_a_step_is_aborted_while_it_waits) {
  const auto make = [] {
    auto world = std::make_unique<World>(kResettable);
    World& w = *world;
    w.count_steps = false;
    Steps& steps = w.steps("aborted", true);
    struct Shared {
      Step step;
      bool cancelled = false;
    };
    const auto shared = std::make_shared<Shared>();
    w.before = [shared] { *shared = {}; };
    w.simulation.add_thread("launches", [&w, &steps, shared, on = w.stream("main"), v = std::int64_t{0}]() mutable {
      shared->step = steps.graph.launch(on, steps.of(++v));
      w.simulation.await([&] { return shared->cancelled; });
      steps.recover();
      steps.graph.launch(on, steps.of(++v));
      on.synchronize();
    });
    w.simulation.add_thread("aborts", [&w, &steps, shared] {
      w.simulation.await([&] { return shared->step.number != 0; });
      w.simulation.pause();
      steps.graph.cancel(shared->step, "a test");
      shared->cancelled = true;
    });
    return world;
  };
  expect_prevented(Rule::kRezero, make, {"(a)", "(b)", "(d)", "set"});
}
TEST(Hazard, H42_something_is_freed_meanwhile) {
  for (const char* uri : {"sim:", kResettable}) {
    expect_well([uri] {
      auto world = std::make_unique<World>(uri);
      World& w = *world;
      Steps& steps = w.steps("graph", true);
      w.simulation.add_thread("launches", [&steps, on = w.stream("main")] {
        for (std::int64_t i = 1; i <= 3; ++i) steps.launch(on, i);
      });
      w.simulation.add_thread("drops", [&w] {
        for (int i = 0; i < 3; ++i) {
          const Memory memory = w.device.allocate(64);
          const Event event = w.device.create_event();
          w.simulation.pause();
        }
      });
      return world;
    });
  }
}
TEST(Hazard, H44_a_host_function_in_the_graph_waits_for_an_update) {
  World world("sim:");
  Steps& steps = world.steps("graph", false);
  const Stream on = world.stream("main");
  std::string told;
  world.simulation.add_thread("launches", [&] {
    on.host_function([&] { steps.graph.launch(on, steps.of(1)); }, "launches a graph");
    try {
      on.synchronize();
    } catch (const Error& error) {
      told = error.what();
    }
    on.recover();
  });
  Choices choices;
  choices.seed(1);
  EXPECT_EQ(world.run(choices), "");
  EXPECT_NE(told.find("is not allowed in a kernel or host function"), std::string::npos) << told;
}

}  // namespace
}  // namespace slipway::simulator
