// Each rule of ordering is needed: without it a program fails in some schedule, and with it in none.
#include <gtest/gtest.h>

#include "simulator/world.h"

namespace slipway::simulator {
namespace {

using internal::Rule;

constexpr std::uint64_t kSchedules = 500;

MakeWorld program(const std::string& name) {
  for (const Program& p : programs()) {
    if (p.name == name) return p.make;
  }
  throw std::logic_error("there is no program '" + name + "'");
}

// `words`: one of them is in what the checker says.
void expect_needed(Rule rule, const MakeWorld& make, const std::vector<std::string>& words) {
  EXPECT_EQ(search(make, kSchedules), "");
  const Without without(rule);
  const std::string problem = search(make, kSchedules);
  bool found = false;
  for (const std::string& w : words) found = found || problem.find(w) != std::string::npos;
  EXPECT_TRUE(found) << "without the rule: '" << problem << "'";
  EXPECT_NE(problem.find("choices"), std::string::npos);
}

TEST(Rules, ValuesWaitForTheirSlot) {
  expect_needed(Rule::kWaitForSlot, program("runs ahead"), {"(c) its values were written over those of step"});
}
TEST(Rules, GatesOpenBehindTheValues) {
  expect_needed(Rule::kValuesBeforeGate, program("two threads launch"), {"(a)"});
}
TEST(Rules, GatesMoveOverContiguousSteps) {
  expect_needed(Rule::kContiguousGates, program("published backwards"), {"(a)", "(c)"});
}
TEST(Rules, StepsAreSerial) {
  expect_needed(Rule::kSerialSteps, program("two threads launch"), {"began while step", "began behind step"});
}
TEST(Rules, StepsAreSubmittedInOrder) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:");
    Steps& steps = world->steps("shared", false);
    const Stream on = world->stream("main");
    for (const std::int64_t thread : {1, 2}) {
      world->simulation.add_thread("launches " + std::to_string(thread),
                                   [&steps, thread, on] { steps.launch(on, thread); });
    }
    return world;
  };
  expect_needed(Rule::kSubmitInOrder, make, {"deadlock"});
}
TEST(Rules, AThreadDoesNotWaitForItsOwnUpdate) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:");
    Steps& steps = world->steps("owed", false);
    world->simulation.add_thread("owes", [&steps, on = world->stream("main")] {
      const Step step = steps.graph.launch_open(on);
      try {
        steps.graph.wait(step);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kWouldDeadlock) throw;
      }
      steps.publish(step, 1);
    });
    return world;
  };
  expect_needed(
      Rule::kRefuseOwnWait, make,
      {"deadlock, a cycle: thread 'owes' waits for step 1 of graph 'owed' to end; stream 'main' waits at gate 0 "
       "of graph 'owed' in step 1, which thread 'owes' launched"});
}
TEST(Rules, UpdateFirstWhereLaunchesBlock) {
  expect_needed(Rule::kUpdateFirst, program("blocking"), {"deadlock, a cycle: thread 'launches"});
  expect_needed(Rule::kUpdateFirst, program("resettable, blocking"), {"deadlock"});
}
TEST(Rules, UpdateFirstWhereTheDeviceRecordsFirst) {
  expect_needed(Rule::kUpdateFirst, program("resettable, record first"),
                {"values were seen in", "nobody had recorded"});
}
TEST(Rules, CancellingOpensGates) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:");
    world->count_steps = false;
    Steps& steps = world->steps("given up", false);
    world->simulation.add_thread("gives up", [&steps, on = world->stream("main")] {
      const Step step = steps.open(on);
      steps.graph.cancel(step, "nobody publishes it");
      steps.recover();
    });
    return world;
  };
  expect_needed(Rule::kCancelOpensGates, make, {"deadlock"});
}
TEST(Rules, TheCauseIsThereBeforeTheGatesOpen) {
  expect_needed(Rule::kCauseBeforeGates, program("cancelled"), {"(a)", "(c)"});
}
TEST(Rules, OneThreadPublishesAStep) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:");
    Steps& steps = world->steps("once", false);
    const auto step = std::make_shared<Step>();
    World& w = *world;
    w.before = [step] { *step = {}; };
    const auto publish = [&steps, step] {
      try {
        steps.publish(*step, 5);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kBusy && error.code() != ErrorCode::kFailedPrecondition) throw;
      }
    };
    w.simulation.add_thread("launches", [&steps, step, publish, on = w.stream("main")] {
      *step = steps.open(on);
      publish();
    });
    w.simulation.add_thread("publishes too", [&w, step, publish] {
      w.simulation.await([&] { return step->number != 0; });
      publish();
    });
    return world;
  };
  expect_needed(Rule::kOnePublisher, make, {"its values were written twice"});
}
TEST(Rules, BranchesWaitWhereTheyJoin) {
  expect_needed(Rule::kBranchesJoin, program("branches"), {"instead of", "values were seen"});
}

// --- Resettable gates ---

TEST(Rules, AWaitStandsInFrontOfEachGroup) {
  expect_needed(Rule::kGateInFront, program("resettable, runs ahead"), {"(a)", "(d)"});
}
TEST(Rules, AResetStandsBehindTheWait) {
  expect_needed(Rule::kResetBehindWait, program("resettable, runs ahead"), {"stays set behind its reset"});
}
TEST(Rules, TheUpdateStreamWaitsForTheReplay) {
  expect_needed(Rule::kTrailingWait, program("resettable, runs ahead"), {"(b)", "(c)"});
  expect_needed(Rule::kTrailingWait, program("resettable, two graphs, wait before"), {"(b)", "(c)"});
}
TEST(Rules, ItWaitsBehindTheUpdate) {
  expect_needed(
      Rule::kWaitBehindUpdate, program("resettable, runs ahead"),
      {"deadlock, a cycle: the update stream waits for step 1 of graph 'ahead' to end; stream 'main' waits at "
       "gate 0 of graph 'ahead' in step 1",
       "deadlock, a cycle: stream 'main' waits at gate 0 of graph 'ahead' in step 1; the update stream waits "
       "for step 1 of graph 'ahead' to end"});
}
TEST(Rules, OneUpdateAtATime) { expect_needed(Rule::kOneUpdateAtATime, two_on_one_stream, {"deadlock, a cycle"}); }
TEST(Rules, UpdatesHaveAQueueOfTheirOwn) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:gates=resettable,streams=2");
    const Stream on = world->stream("main");
    Steps& steps = world->steps("pooled", false);  // the second queue; the next is the first again
    world->simulation.add_thread("launches", [&steps, on] { steps.launch(on, 1); });
    return world;
  };
  expect_needed(Rule::kOtherStream, make, {"deadlock"});
}
TEST(Rules, WhatMayFailComesBeforeTheReplay) {
  const auto make = [] {
    auto world = std::make_unique<World>("sim:gates=resettable");
    World& w = *world;
    const Stream on = w.stream("main");
    const auto graph = std::make_shared<ExecutableGraph>();
    const auto value = std::make_shared<ScalarParameter<std::int64_t>>();
    const auto seen = std::make_shared<Seen>();
    Capture capture(on, "picky");
    *value = capture.parameter<std::int64_t>("value");
    const Operation odd =
        capture.operation("odd", {*value}, {OutputSpec::argument(ArgKind::kI64)}, [](OperationCall& call) {
          if (call.input<std::int64_t>(0) < 0) throw std::invalid_argument("below zero");
          call.set(0, call.input<std::int64_t>(0));
        });
    on.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{seen.get()}), odd.output<std::int64_t>(0));
    *graph = capture.end().instantiate();
    w.simulation.add_graph(*graph);
    w.count_steps = false;
    w.simulation.add_thread("launches", [graph, value, on, seen] {
      StepValues values = graph->values();
      for (const std::int64_t v : {1, -1, 2}) {
        values.set(*value, v);
        try {
          graph->launch(on, values);
        } catch (const Error& error) {
          if (error.submitted() || std::string(error.what()).find("below zero") == std::string::npos) throw;
        }
      }
      on.synchronize();
      seen->values.clear();
    });
    return world;
  };
  expect_needed(Rule::kFallibleFirst, make, {"deadlock", "(f)"});
}
TEST(Rules, AnUpdateThatFailsOpensWhatIsLeft) {
  expect_needed(Rule::kRescue, program("resettable, refused"), {"deadlock"});
}
TEST(Rules, GatesAreSetAlthoughNothingChanged) {
  expect_needed(Rule::kSetUnchanged, program("resettable, two graphs"), {"deadlock"});
}
TEST(Rules, RecoveringResetsTheGates) { expect_needed(Rule::kRezero, program("resettable, refused"), {"(a)", "(b)"}); }
TEST(Rules, GatesOfABodyArePassedInFront) {
  const std::vector<std::string> words{"deadlock",
                                       "(b)"};  // a second turn waits again; a body not taken resets nothing
  expect_needed(Rule::kBodyGatesInFront, program("resettable, while with a gate inside"), words);
  expect_needed(Rule::kBodyGatesInFront, program("resettable, if with a gate inside"), words);
}

}  // namespace
}  // namespace slipway::simulator
