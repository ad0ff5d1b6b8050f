// Launch hooks: who calls them, what they see, and what they may do.
#include "launch_fixture.h"

namespace slipway::launch_tests {
namespace {

class Hooks : public LaunchTest {};
INSTANTIATE_TEST_SUITE_P(On, Hooks, ::testing::Values("cpu:workers=1", "cpu:inline"), uri_name);

struct Seen {
  std::vector<std::string> log;
  LaunchHooks hooks(const std::string& who = "") {
    const auto write = [this, who](const char* what) {
      return [this, who, what](const LaunchInfo& info) {
        log.push_back(who + what + " " + info.kernel + " " + std::to_string(info.grid.x) + " " + info.stream + " " +
                      std::to_string(info.sequence) + (info.planned ? " planned" : " general"));
      };
    };
    return {write("enter"), write("exit"), false};
  }
};

TEST_P(Hooks, AnEmptyChainLeavesTheFastPathAlone) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
  for (int i = 0; i < 100; ++i) typed(stream, tensor(), 1U);
  EXPECT_EQ(added(), 100U);
  EXPECT_EQ(site.report().hits, 99U);
  { const LaunchHookHandle none; }
  {
    const LaunchHookHandle gone = device.add_launch_hooks({[](const LaunchInfo&) {}, {}, false});
  }
  for (int i = 0; i < 100; ++i) typed(stream, tensor(), 1U);
  EXPECT_EQ(added(), 100U);
  EXPECT_EQ(site.report().hits, 199U);
  EXPECT_EQ(device.counters().planned_launches, 200U);
}

TEST_P(Hooks, SeeEachLaunchOnceAndThePlansStay) {
  stream = device.create_stream({.priority = 0, .ring_bytes = 64 << 10, .name = "mine"});
  const CallSite site = CallSite::create(module.kernel("add_per_block"), one_block());
  const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
  const auto plan = LaunchPlan::create(module.kernel("add")).typed_grid<Tensor<std::uint32_t>, std::uint32_t>();
  typed(stream, tensor(), 1U);
  Seen seen;
  {
    const LaunchHookHandle handle = device.add_launch_hooks(seen.hooks());
    for (int i = 0; i < 10; ++i) typed(stream, tensor(), 1U);
    EXPECT_EQ(seen.log.size(), 20U);
    EXPECT_EQ(seen.log[0], "enter add_per_block 1 mine 0 planned");
    EXPECT_EQ(seen.log[1], "exit add_per_block 1 mine 2 planned");
    seen.log.clear();
    plan(stream, Extent{2, 1, 1}, tensor(), 1U);
    stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
    plan(stream, Extent{0, 1, 1}, tensor(), 1U);  // empty: nothing is submitted
    const std::vector<std::string> wanted = {"enter add 2 mine 0 planned", "exit add 2 mine 12 planned",
                                             "enter add 1 mine 0 general", "exit add 1 mine 13 general"};
    EXPECT_EQ(seen.log, wanted);
    // Streams that are made later are no exception.
    seen.log.clear();
    const Stream later = device.create_stream();
    typed(later, tensor(1), 1U);
    EXPECT_EQ(seen.log.size(), 2U);
    later.synchronize();
  }
  EXPECT_EQ(site.report().hits, 11U);
  EXPECT_EQ(site.report().general, 0U);
  EXPECT_EQ(added(), 11U + 2 + 1);
  seen.log.clear();
  typed(stream, tensor(), 1U);
  EXPECT_TRUE(seen.log.empty());
  EXPECT_EQ(site.report().hits, 12U);
}

TEST_P(Hooks, RunInOrderOfRegistrationAndLeaveInReverse) {
  Seen seen;
  LaunchHookHandle first = device.add_launch_hooks(seen.hooks("1 "));
  const LaunchHookHandle second = device.add_launch_hooks(seen.hooks("2 "));
  stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
  ASSERT_EQ(seen.log.size(), 4U);
  EXPECT_EQ(seen.log[0].substr(0, 7), "1 enter");
  EXPECT_EQ(seen.log[1].substr(0, 7), "2 enter");
  EXPECT_EQ(seen.log[2].substr(0, 6), "2 exit");
  EXPECT_EQ(seen.log[3].substr(0, 6), "1 exit");
  seen.log.clear();
  first.remove();
  first.remove();
  stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
  ASSERT_EQ(seen.log.size(), 2U);
  EXPECT_EQ(seen.log[0].substr(0, 7), "2 enter");
  stream.synchronize();
}

TEST_P(Hooks, WhatAHookThrowsReachesTheCallerWithOneOutcome) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
  typed(stream, tensor(), 1U);
  EXPECT_EQ(added(), 1U);
  bool throws = true;
  int calls = 0;
  const auto thrower = [&](const LaunchInfo&) {
    ++calls;
    if (throws) throw std::logic_error("from a hook");
  };
  const auto slipway_thrower = [&](const LaunchInfo&) {
    ++calls;
    if (throws) throw Error(ErrorCode::kInvalidArgument, "from a hook");
  };
  for (const bool ours : {false, true}) {
    for (const bool in_exit : {false, true}) {
      const std::function<void(const LaunchInfo&)> hook =
          ours ? std::function<void(const LaunchInfo&)>(slipway_thrower) : thrower;
      const LaunchHookHandle handle =
          device.add_launch_hooks(in_exit ? LaunchHooks{{}, hook, false} : LaunchHooks{hook, {}, false});
      throws = true;
      calls = 0;
      try {
        typed(stream, tensor(), 1U);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::exception& e) {
        EXPECT_NE(std::string(e.what()).find("from a hook"), std::string::npos);
      }
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(added(), in_exit ? 1U : 0U) << "out of enter it is not submitted, out of exit it was";
      throws = false;
      typed(stream, tensor(), 1U);
      EXPECT_EQ(added(), 1U);
    }
  }
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_EQ(site.report().general, 0U);
}

TEST_P(Hooks, ThatNeedTheGeneralPathGetItForTheirCalls) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
  const auto plan = LaunchPlan::create(module.kernel("add"), one_block()).typed<Tensor<std::uint32_t>, std::uint32_t>();
  typed(stream, tensor(), 1U);
  Seen seen;
  {
    LaunchHooks hooks = seen.hooks();
    hooks.needs_general = true;
    const LaunchHookHandle handle = device.add_launch_hooks(std::move(hooks));
    typed(stream, tensor(), 1U);
    plan(stream, tensor(), 1U);
    ASSERT_EQ(seen.log.size(), 4U);
    for (const std::string& line : seen.log) EXPECT_NE(line.find(" general"), std::string::npos) << line;
  }
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_EQ(site.report()[SiteReason::kHook], 1U);
  EXPECT_EQ(device.counters()[Reason::kHookNeedsGeneral], 1U) << "the plan's";
  typed(stream, tensor(), 1U);
  EXPECT_EQ(site.report().hits, 1U);
  EXPECT_EQ(added(), 4U);
}

TEST_P(Hooks, MayNotCallSlipway) {
  std::string said;
  const LaunchHookHandle handle =
      device.add_launch_hooks({[&](const LaunchInfo&) {
                                 try {
                                   stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
                                 } catch (const Error& e) {
                                   said = e.what();
                                 }
                               },
                               {},
                               false});
  stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
  EXPECT_EQ(added(), 1U);
  EXPECT_NE(said.find("FailedPrecondition"), std::string::npos) << said;
}

TEST_P(Hooks, SeeNothingOfACaptureAndItsReplays) {
  Seen seen;
  const LaunchHookHandle handle = device.add_launch_hooks(seen.hooks());
  Capture capture(stream);
  stream.launch(module.kernel("add"), LaunchShape{}, tensor(), 1U);
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(stream);
  EXPECT_EQ(added(), 1U);
  EXPECT_TRUE(seen.log.empty());
}

TEST_P(Hooks, MayOutliveTheirDevice) {
  LaunchHookHandle handle;
  {
    const Device other = Device::open(GetParam());
    handle = other.add_launch_hooks({[](const LaunchInfo&) {}, {}, false});
    EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"neither enter nor exit"},
                      [&] { (void)other.add_launch_hooks(LaunchHooks{}); }));
  }
  handle.remove();
}

}  // namespace
}  // namespace slipway::launch_tests
