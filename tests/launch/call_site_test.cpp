// One test for each row of the table of states in docs/launching.md, which names them.
#include "launch_fixture.h"

namespace slipway::launch_tests {
namespace {

class Site : public LaunchTest {};
INSTANTIATE_TEST_SUITE_P(On, Site, ::testing::Values("cpu:workers=1", "cpu:inline"), uri_name);

// Launches with 1, and says how much that added: 1 by `add`, 100 by `add_hundred`.
#define EXPECT_LAUNCH(site, adds)                    \
  do {                                               \
    (site).launch(stream, tensor(), 1U);             \
    EXPECT_EQ(added(), static_cast<unsigned>(adds)); \
  } while (false)

TEST_P(Site, EmptyToFinalizedByOneCallOfASettledSite) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_EQ(site.state(), SiteState::kEmpty);
  EXPECT_EQ(site.report().promotions, 0U);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_LAUNCH(site, 1);
  const SiteReport report = site.report();
  EXPECT_EQ(report.promotions, 1U);
  EXPECT_EQ(report.planned, 1U);
  EXPECT_EQ(report.hits, 1U);
  EXPECT_EQ(report.general, 0U);
  EXPECT_EQ(report.kernel, "add");
}

TEST_P(Site, EmptyToOpaqueWhereTheChoiceIsMadeForEachCall) {
  std::size_t next = 0;
  const auto selector =
      KernelSelector::per_call("alternating", {candidate("add"), candidate("add_hundred")},
                               [&](const KernelSelector&, const SiteCallView&) { return next++ % 2; });
  const CallSite site = CallSite::create(selector);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kOpaque);
  EXPECT_LAUNCH(site, 100);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kOpaque);
  EXPECT_EQ(site.report()[SiteReason::kPerCallChoice], 3U);
  EXPECT_EQ(site.report().promotions, 0U);
}

TEST_P(Site, BoundWhileNothingIsChosen) {
  const CallSite site = CallSite::create(two());
  for (int i = 0; i < 3; ++i) EXPECT_LAUNCH(site, 1);  // the first candidate that fits
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_EQ(site.report()[SiteReason::kNotSettled], 3U);
  EXPECT_EQ(site.report().general, 3U);
  EXPECT_NE(site.explain().find("never left the general path, because: the selector 'two' has not chosen among its 2"),
            std::string::npos)
      << site.explain();
}

TEST_P(Site, BoundToPlannedAfterTheGeneralRunThatChose) {
  int asked = 0;
  const auto selector = KernelSelector::create("choosing", {candidate("add"), candidate("add_hundred")},
                                               [&](const KernelSelector& s, const SiteCallView& call) -> std::size_t {
                                                 EXPECT_EQ(call.arguments.size(), 2U);
                                                 if (++asked == 2) s.choose(1);
                                                 return s.chosen().value_or(0);
                                               });
  const CallSite site = CallSite::create(selector);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_LAUNCH(site, 100);
  EXPECT_EQ(site.state(), SiteState::kPlanned);
  EXPECT_EQ(site.report().planned, 0U);
  EXPECT_LAUNCH(site, 100);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(site.report().general, 2U);
}

// A plan cannot fix a tensor, but the general path can pass one.
Candidate unplannable(const Candidate& candidate, Tensor<std::uint32_t> tensor) {
  Candidate c = candidate;
  c.plan.fixed = {{0, Argument(tensor)}};
  return c;
}

TEST_P(Site, BoundToNegativeWhereThePlanIsRefused) {
  const CallSite site =
      CallSite::create(KernelSelector::create("fixed tensor", {unplannable(candidate("add"), tensor())}));
  for (int i = 0; i < 3; ++i) {
    site.launch(stream, 7U);
    EXPECT_EQ(added(), 7U);
    EXPECT_EQ(site.state(), SiteState::kNegative);
  }
  EXPECT_EQ(site.report()[SiteReason::kPlanRefused], 1U) << "it was tried once";
  EXPECT_EQ(site.report().general, 3U);
  EXPECT_NE(site.explain().find("is a tensor"), std::string::npos) << site.explain();
}

TEST_P(Site, BoundStaysWhereThePlanFailsForOnce) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  testing::fail_next_planned_launch(site, ErrorCode::kOutOfMemory, false, false);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_EQ(site.report()[SiteReason::kPlanFailed], 1U);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
}

TEST_P(Site, FinalizedToBoundWhenAnotherKernelIsChosen) {
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  selector.choose(0);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  selector.choose(0);  // no change
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  selector.choose(1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_LAUNCH(site, 100);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  selector.choose(0);  // and the other way
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.report().demotions, 2U);
  EXPECT_EQ(site.report()[SiteReason::kChoiceChanged], 2U);
  EXPECT_EQ(site.report().promotions, 3U);
}

TEST_P(Site, FinalizedToBoundWhenTheChoiceIsOpenedAgain) {
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  selector.choose(1);
  EXPECT_LAUNCH(site, 100);
  selector.unsettle();
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kBound);
}

TEST_P(Site, NegativeToBoundWhenAnotherKernelIsChosen) {
  const auto selector = KernelSelector::create(
      "mixed", {unplannable(candidate("add"), tensor()), unplannable(candidate("add_hundred"), tensor())});
  const CallSite site = CallSite::create(selector);
  selector.choose(0);
  site.launch(stream, 1U);
  EXPECT_EQ(added(), 1U);
  EXPECT_EQ(site.state(), SiteState::kNegative);
  selector.choose(1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  site.launch(stream, 1U);
  EXPECT_EQ(added(), 100U);
  EXPECT_EQ(site.state(), SiteState::kNegative);
  EXPECT_EQ(site.report()[SiteReason::kPlanRefused], 2U) << "the mark is the kernel's that it was made for";
}

TEST_P(Site, FinalizedToNegativeByACallThatWouldFailAgain) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_LAUNCH(site, 1);
  testing::fail_next_planned_launch(site, ErrorCode::kUnsupported, false, true);
  EXPECT_LAUNCH(site, 1);  // once, by the general path
  EXPECT_EQ(site.state(), SiteState::kNegative);
  EXPECT_EQ(site.report()[SiteReason::kCallRefused], 1U);
  EXPECT_EQ(site.report().demotions, 1U);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kNegative);
  EXPECT_EQ(site.report().general, 2U);
}

TEST_P(Site, FinalizedStaysAfterACallThatFailedForOnce) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_LAUNCH(site, 1);
  testing::fail_next_planned_launch(site, ErrorCode::kInternal, false, false);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_EQ(site.report()[SiteReason::kCallFailed], 1U);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.report().general, 1U);
  EXPECT_EQ(site.report().promotions, 1U);
}

TEST_P(Site, NothingRunsAgainOnceItMayHaveBeenSubmitted) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_LAUNCH(site, 1);
  for (const bool stable : {false, true}) {
    testing::fail_next_planned_launch(site, ErrorCode::kInternal, true, stable);
    EXPECT_TRUE(fails(ErrorCode::kInternal, {"made to fail"}, [&] { site.launch(stream, tensor(), 1U); }));
    EXPECT_EQ(added(), 0U);
    EXPECT_EQ(site.state(), SiteState::kFinalized);
    EXPECT_EQ(site.report().general, 0U);
  }
}

TEST_P(Site, FinalizedStaysWhenOneCallMissesAGuard) {
  const auto selector = KernelSelector::create("by alignment", {candidate("add", kAligned), candidate("add_hundred")});
  const CallSite site = CallSite::create(selector);
  selector.choose(0);
  const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
  for (int i = 0; i < 2; ++i) {
    EXPECT_LAUNCH(site, 1);
    site.launch(stream, tensor(1), 1U);  // 4 bytes further: the other candidate takes it
    EXPECT_EQ(added(1), 100U);
    typed(stream, tensor(1), 1U);
    EXPECT_EQ(added(1), 100U);
    typed(stream, tensor(), 1U);
    EXPECT_EQ(added(), 1U);
    EXPECT_EQ(site.state(), SiteState::kFinalized);
  }
  EXPECT_EQ(site.report()[SiteReason::kGuard], 4U);
  const CallSite alone = CallSite::create(candidate("add", kSmall).kernel, one_block());
  EXPECT_LAUNCH(alone, 1);
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"11", "10"}, [&] { alone.launch(stream, tensor(), 11U); }));
  EXPECT_EQ(added(), 0U);
  EXPECT_LAUNCH(alone, 1);
  EXPECT_EQ(alone.state(), SiteState::kFinalized);
}

TEST_P(Site, FinalizedStaysDuringOneCallDetours) {
  const CallSite site = CallSite::create(module.kernel("add_per_block"), one_block());
  const auto detour = [&](Detour why, std::optional<LaunchShape> shape) {
    const Argument arguments[] = {Argument(tensor()), Argument(1U)};
    site.launch_detour(stream, why, shape, arguments);
  };
  detour(Detour::kProfilingRun, std::nullopt);  // before there is a plan
  EXPECT_EQ(added(), 1U);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_LAUNCH(site, 1);
  detour(Detour::kProfilingRun, std::nullopt);
  detour(Detour::kBenchmarkRun, std::nullopt);
  LaunchShape three;
  three.grid.x = 3;
  detour(Detour::kUnknownOptions, three);
  EXPECT_EQ(added(), 5U);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_LAUNCH(site, 1);
  const SiteReport report = site.report();
  EXPECT_EQ(report[SiteReason::kProfilingRun], 2U);
  EXPECT_EQ(report[SiteReason::kBenchmarkRun], 1U);
  EXPECT_EQ(report[SiteReason::kUnknownOptions], 1U);
  EXPECT_EQ(report.general, 4U);
  EXPECT_EQ(report.promotions, 1U);
}

TEST_P(Site, NeverPlannedForAReasonOfItsOwn) {
  CallSiteOptions options;
  options.never_because = "its results are compared with another run's";
  const CallSite site = CallSite::create(module.kernel("add"), one_block(), options);
  for (int i = 0; i < 3; ++i) EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_EQ(site.report()[SiteReason::kNeverPlanned], 3U);
  EXPECT_NE(site.explain().find("never left the general path, because: its results are compared"), std::string::npos);
}

TEST_P(Site, NegativeWhereTheSchemaIsAnother) {
  for (const char* schema : {"tensor, i32", "tensor", "tensor, u32, u32"}) {
    CallSiteOptions options;
    options.schema = parse_signature(schema);
    const CallSite site = CallSite::create(module.kernel("add"), one_block(), options);
    EXPECT_LAUNCH(site, 1);
    EXPECT_LAUNCH(site, 1);
    EXPECT_EQ(site.state(), SiteState::kNegative) << schema;
    EXPECT_EQ(site.report()[SiteReason::kSchemaConflict], 1U) << schema;
  }
  CallSiteOptions options;
  options.schema = parse_signature("inout tensor<u32>, u32");
  const CallSite site = CallSite::create(module.kernel("add"), one_block(), options);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
}

TEST_P(Site, HeldBackMakesNoPlanAndKeepsOne) {
  const KernelSelector selector = two();
  selector.choose(0);
  selector.hold_back(true);
  const CallSite site = CallSite::create(selector);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kBound);
  EXPECT_EQ(site.report()[SiteReason::kHeldBack], 1U);
  selector.hold_back(false);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  selector.hold_back(true);
  EXPECT_LAUNCH(site, 1);
  EXPECT_EQ(site.report().hits, 1U);
}

TEST_P(Site, ABadGridPoisonsNothing) {
  const CallSite site = CallSite::create(module.kernel("add_per_block"), PlanOptions{});
  const auto typed = site.typed_grid<Tensor<std::uint32_t>, std::uint32_t>();
  const Argument arguments[] = {Argument(tensor()), Argument(1U)};
  for (int i = 0; i < 3; ++i) {
    for (const Extent bad : {Extent{-1, 1, 1}, Extent{1, 65536, 1}, Extent{std::int64_t{1} << 40, 1, 1}}) {
      EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"grid."}, [&] { typed(stream, bad, tensor(), 1U); }));
      EXPECT_TRUE(
          fails(ErrorCode::kInvalidArgument, {"grid."}, [&] { site.launch_arguments(stream, bad, arguments); }));
    }
    typed(stream, Extent{0, 1, 1}, tensor(), 1U);
    EXPECT_EQ(added(), 0U);
    typed(stream, Extent{3, 1, 1}, tensor(), 1U);
    site.launch_arguments(stream, Extent{2, 2, 1}, arguments);
    EXPECT_EQ(added(), 7U);
    EXPECT_EQ(site.state(), SiteState::kFinalized);
  }
  EXPECT_EQ(site.report().promotions, 1U);
  EXPECT_EQ(site.report().demotions, 0U);
}

TEST_P(Site, AGridRuleIsPartOfThePlan) {
  const std::vector<std::string> names = {"out", "by"};
  for (const bool function : {false, true}) {
    PlanOptions options;
    options.grid = function ? GridRule::function([](const GridArguments& a) {
      return Extent{12 / a[1], 1, 1};
    })
                            : GridRule::expression("12 / by", names);
    const CallSite site = CallSite::create(module.kernel("add_per_block"), options);
    const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
    if (!function) {
      EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"by zero"}, [&] { typed(stream, tensor(), 0U); }));
    }
    for (int i = 0; i < 3; ++i) {
      typed(stream, tensor(), 3U);
      site.launch(stream, tensor(), 4U);
      EXPECT_EQ(added(), 24U);
      if (!function) {
        EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"by zero"}, [&] { typed(stream, tensor(), 0U); }));
      }
      const Argument arguments[] = {Argument(tensor()), Argument(2U)};
      site.launch_detour(stream, Detour::kBenchmarkRun, std::nullopt, arguments);
      EXPECT_EQ(added(), 12U);
      EXPECT_EQ(site.state(), SiteState::kFinalized);
    }
    EXPECT_EQ(site.report().promotions, 1U);
    EXPECT_EQ(site.report().hits, 5U);
  }
}

TEST_P(Site, AGridOfEachCallAndFixedArgumentsGoTogether) {
  PlanOptions options;
  options.fixed = {{1, Argument(2U)}};
  const CallSite site = CallSite::create(module.kernel("add_per_block"), options);
  const auto typed = site.typed_grid<Tensor<std::uint32_t>>();
  for (std::int64_t blocks = 1; blocks <= 4; ++blocks) {
    typed(stream, Extent{blocks, 1, 1}, tensor());
    EXPECT_EQ(added(), 2U * static_cast<unsigned>(blocks));
  }
  EXPECT_EQ(site.report().hits, 3U);
}

TEST_P(Site, AnEmptyBlockRunsNothingWhereverTheGridComesFrom) {
  for (const bool ruled : {false, true}) {
    PlanOptions options;
    options.block = {0, 1, 1};
    if (ruled) options.grid = GridRule::expression("by", {"out", "by"});
    const CallSite site = CallSite::create(module.kernel("add_per_block"), options);
    for (int i = 0; i < 3; ++i) {
      if (ruled) site.typed<Tensor<std::uint32_t>, std::uint32_t>()(stream, tensor(), 3U);
      else site.typed_grid<Tensor<std::uint32_t>, std::uint32_t>()(stream, Extent{3, 1, 1}, tensor(), 3U);
      EXPECT_EQ(added(), 0U);
    }
    EXPECT_EQ(site.state(), SiteState::kFinalized);
  }
}

TEST_P(Site, AWrongCallIsRefusedAndChangesNothing) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_LAUNCH(site, 1);
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"expected 2", "got 1"}, [&] { site.launch(stream, tensor()); }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"grid"},
                    [&] { site.launch_arguments(stream, Extent{}, std::span<const Argument>()); }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"u32"}, [&] { site.launch(stream, tensor(), -1); }));
  EXPECT_TRUE(
      fails(ErrorCode::kInvalidArgument, {"argument 1"}, [&] { (void)site.typed<Tensor<std::uint32_t>, float>(); }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"typed()"},
                    [&] { (void)site.typed_grid<Tensor<std::uint32_t>, std::uint32_t>(); }));
  EXPECT_EQ(added(), 0U);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  const Device other = Device::open(GetParam());
  EXPECT_TRUE(
      fails(ErrorCode::kInvalidArgument, {"stream"}, [&] { site.launch(other.create_stream(), tensor(), 1U); }));
  EXPECT_LAUNCH(site, 1);
}

TEST_P(Site, AGraphsParameterTakesTheGeneralPathOfThatCapture) {
  const CallSite site = CallSite::create(module.kernel("add"), one_block());
  EXPECT_LAUNCH(site, 1);
  Capture capture(stream);
  const auto by = capture.parameter<std::uint32_t>("by", 5);
  site.launch(stream, tensor(), by);
  site.launch(stream, tensor(1), 1U);
  const ExecutableGraph graph = capture.end().instantiate();
  EXPECT_EQ(added(), 0U);
  EXPECT_EQ(site.report()[SiteReason::kGraphParameter], 1U);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  StepValues values = graph.values();
  values.set(by, 9U);
  graph.launch(stream, values);
  EXPECT_EQ(added(), 9U);
  EXPECT_EQ(added(1), 1U);
}

TEST_P(Site, AFrozenPlanStaysWithItsKernel) {
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  EXPECT_TRUE(fails(ErrorCode::kFailedPrecondition, {"no plan to freeze"}, [&] { (void)site.freeze(); }));
  selector.choose(0);
  EXPECT_LAUNCH(site, 1);
  const LaunchPlan frozen = site.freeze();
  selector.choose(1);
  frozen.launch(stream, tensor(), 1U);
  EXPECT_EQ(added(), 1U);
  EXPECT_LAUNCH(site, 100);
}

TEST_P(Site, AfterAResetANewKernelIsPlanned) {
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  selector.choose(0);
  EXPECT_LAUNCH(site, 1);
  stream.synchronize();
  device.reset();
  stream = device.create_stream();
  memory = device.allocate(64);
  word(0) = 0;
  EXPECT_TRUE(fails(ErrorCode::kStaleContext, {"reset"}, [&] { site.launch(stream, tensor(), 1U); }));
  module = device.load_table({kernel<&add>("add"), kernel<&add_hundred>("add_hundred")});
  selector.replace({candidate("add_hundred")});
  EXPECT_LAUNCH(site, 100);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
}

TEST_P(Site, ReportsAddUp) {
  const std::vector<SiteReport> before = site_reports(device);
  EXPECT_TRUE(before.empty());
  CallSiteOptions options;
  options.name = "second";
  const CallSite first = CallSite::create(module.kernel("add"), one_block());
  const CallSite second = CallSite::create(two(), options);
  for (int i = 0; i < 4; ++i) first.launch(stream, tensor(), 1U);
  second.launch(stream, tensor(), 1U);
  stream.synchronize();
  const std::vector<SiteReport> reports = site_reports(device);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].name, "add");
  EXPECT_EQ(reports[1].name, "second");
  const SiteReport total = total_of(reports);
  EXPECT_EQ(total.hits, 3U);
  EXPECT_EQ(total.planned, 1U);
  EXPECT_EQ(total.general, 1U);
  EXPECT_EQ(total[SiteReason::kNotSettled], 1U);
  EXPECT_EQ(device.counters().planned_launches, 4U);
  EXPECT_EQ(device.counters().general_launches, 1U);
  EXPECT_EQ(reports[0].schema_hash, schema_hash(module.kernel("add").signature()));
  EXPECT_NE(reports[0].schema_hash, schema_hash(parse_signature("tensor, i32")));
}

}  // namespace
}  // namespace slipway::launch_tests
