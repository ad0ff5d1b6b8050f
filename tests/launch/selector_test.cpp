// Selectors: what they refuse, and tuning, whose trials nobody may notice.
#include <chrono>
#include <cstring>
#include <thread>

#include "launch_fixture.h"

namespace slipway::launch_tests {
namespace {

class Selector : public LaunchTest {};
INSTANTIATE_TEST_SUITE_P(On, Selector, ::testing::Values("cpu:workers=1", "cpu:inline"), uri_name);

constexpr auto kFarSlower = std::chrono::milliseconds(30);  // than any pause of a busy machine within a few trials
std::atomic<int> g_slow_runs{0}, g_fast_runs{0};
void slow_double(std::uint32_t* x) {
  g_slow_runs.fetch_add(1);
  std::this_thread::sleep_for(kFarSlower);
  *x *= 2;
}
void fast_double(std::uint32_t* x) {
  g_fast_runs.fetch_add(1);
  *x *= 2;
}
void failing_double(std::uint32_t*) { throw std::runtime_error("this variant does not work"); }
// Writes 1 into its half, 2 where the counter behind it was not 0 on entry.
std::atomic<int> g_dirty_runs{0};
void left_half(std::uint32_t* x) {
  if (x[2] != 0) g_dirty_runs.fetch_add(1);
  x[0] = x[2] == 0 ? 1 : 2;
  ++x[2];
  std::this_thread::sleep_for(kFarSlower);
}
void right_half(std::uint32_t* x) {
  if (x[2] != 0) g_dirty_runs.fetch_add(1);
  x[1] = x[2] == 0 ? 1 : 2;
  ++x[2];
}

KernelSelector tuned(const Device& device, std::initializer_list<KernelDef> kernels) {
  const Module module = device.load_table(kernels);
  std::vector<Candidate> candidates;
  PlanOptions plan;
  plan.shape = LaunchShape{};
  for (const KernelDef& k : kernels) candidates.push_back({module.kernel(k.name), plan});
  return KernelSelector::create("tuned", std::move(candidates), tune());
}

TEST_P(Selector, TuningChoosesTheFasterAndAppliesInPlaceWorkOnce) {
  g_slow_runs = g_fast_runs = 0;
  const auto selector = tuned(device, {kernel<&slow_double>("slow"), kernel<&fast_double>("fast")});
  const CallSite site = CallSite::create(selector);
  word(0) = 1;
  word(1) = 77;  // of the same block, and nobody's business
  const std::uint64_t bytes = device.counters().live_memory_bytes;
  site.launch(stream, tensor());
  stream.synchronize();
  EXPECT_EQ(word(0), 2U);
  EXPECT_EQ(selector.chosen(), std::optional<std::size_t>(1));
  EXPECT_EQ(g_slow_runs, 4) << "three trials, and one before them";
  EXPECT_EQ(site.state(), SiteState::kPlanned);
  for (int i = 1; i < 10; ++i) site.launch(stream, tensor());
  stream.synchronize();
  EXPECT_EQ(word(0), 1024U);
  EXPECT_EQ(word(1), 77U);
  EXPECT_EQ(g_slow_runs, 4);
  EXPECT_EQ(g_fast_runs, 4 + 10);
  EXPECT_EQ(site.state(), SiteState::kFinalized);
  EXPECT_EQ(site.report().general, 1U);
  EXPECT_EQ(device.counters().live_memory_bytes, bytes) << "the copies are gone";
  Capture capture(stream);
  site.launch(stream, tensor());
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(word(0), 2048U);
}

TEST_P(Selector, TrialsBeginOnFreshMemoryAndLeaveNothing) {
  const auto selector = tuned(device, {kernel<&left_half>("left"), kernel<&right_half>("right")});
  const CallSite site = CallSite::create(selector);
  g_dirty_runs = 0;
  site.launch(stream, tensor());
  stream.synchronize();
  EXPECT_EQ(g_dirty_runs, 0) << "each trial begins as the call would";
  EXPECT_EQ(selector.chosen(), std::optional<std::size_t>(1));
  EXPECT_EQ(word(0), 0U) << "only the winner's half is written";
  EXPECT_EQ(word(1), 1U) << "the counter was 0 when it began";
  EXPECT_EQ(word(2), 1U);
}

TEST_P(Selector, WorkBeforeTheCallCountsInItsTrials) {
  const auto selector = tuned(device, {kernel<&left_half>("left"), kernel<&right_half>("right")});
  const CallSite site = CallSite::create(selector);
  stream.fill(tensor(2).address, 5, 4, 1);
  site.launch(stream, tensor());
  stream.synchronize();
  EXPECT_EQ(word(1), 2U);
  EXPECT_EQ(word(2), 6U);
}

TEST_P(Selector, ACandidateThatFailsIsLeftOut) {
  const auto selector = tuned(device, {kernel<&failing_double>("failing"), kernel<&fast_double>("fast")});
  const CallSite site = CallSite::create(selector);
  word(0) = 3;
  site.launch(stream, tensor());
  stream.synchronize();
  EXPECT_EQ(word(0), 6U);
  EXPECT_EQ(selector.chosen(), std::optional<std::size_t>(1));
  const CallSite hopeless =
      CallSite::create(tuned(device, {kernel<&failing_double>("a"), kernel<&failing_double>("b")}));
  EXPECT_TRUE(fails(ErrorCode::kKernelFailed, {"no candidate"}, [&] { hopeless.launch(stream, tensor()); }));
  stream.synchronize();  // nothing was launched there
}

TEST_P(Selector, NothingIsTriedWhileCapturingNorOnForeignMemory) {
  const auto selector = tuned(device, {kernel<&fast_double>("first"), kernel<&slow_double>("second")});
  const CallSite site = CallSite::create(selector);
  word(0) = 1;
  Capture capture(stream);
  site.launch(stream, tensor());
  const ExecutableGraph graph = capture.end().instantiate();
  EXPECT_FALSE(selector.chosen().has_value());
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(word(0), 2U);
  g_slow_runs = 0;
  std::uint32_t foreign = 1;
  site.launch(stream, &foreign);
  stream.synchronize();
  EXPECT_EQ(foreign, 2U);
  EXPECT_EQ(g_slow_runs, 0);
  EXPECT_EQ(selector.chosen(), std::optional<std::size_t>(0));
}

TEST_P(Selector, RefusesWhatDoesNotFitTogether) {
  const auto create = [&](std::vector<Candidate> candidates) {
    (void)KernelSelector::create("bad", std::move(candidates));
  };
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"'bad'", "no candidates"}, [&] { create({}); }));
  const Kernel other_kinds = device.load_table({kernel<&fast_double>("one")}).kernel("one");
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"'one'", "same kinds"}, [&] {
    create({candidate("add"), {other_kinds, one_block()}});
  }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"shape or grid of its own"}, [&] {
    create({candidate("add"), {module.kernel("add"), PlanOptions{}}});
  }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"empty handle"}, [&] { create({Candidate{}}); }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"no function"},
                    [&] { (void)KernelSelector::per_call("bad", {candidate("add")}, {}); }));
  EXPECT_TRUE(fails(ErrorCode::kOutOfRange, {"candidate 2", "has 2"}, [&] { two().choose(2); }));
  EXPECT_TRUE(fails(ErrorCode::kInvalidArgument, {"0 trials"}, [&] { (void)tune({.trials = 0}); }));
  const auto wild = KernelSelector::per_call("wild", {candidate("add")},
                                             [](const KernelSelector&, const SiteCallView&) { return std::size_t{9}; });
  const CallSite site = CallSite::create(wild);
  EXPECT_TRUE(fails(ErrorCode::kOutOfRange, {"candidate 9"}, [&] { site.launch(stream, tensor(), 1U); }));
  EXPECT_EQ(added(), 0U);
}

TEST_P(Selector, FixedArgumentsTellVariantsApart) {
  Candidate by_two = candidate("add"), by_three = candidate("add");
  by_two.plan.fixed = {{1, Argument(2U)}};
  by_three.plan.fixed = {{1, Argument(3U)}};
  const auto selector = KernelSelector::create("constants", {by_two, by_three});
  const CallSite site = CallSite::create(selector);
  const auto typed = site.typed<Tensor<std::uint32_t>>();
  for (std::size_t i = 0; i < 2; ++i) {
    for (int again = 0; again < 3; ++again) {
      typed(stream, tensor());
      EXPECT_EQ(added(), i == 0 && again >= 0 ? 2U : 3U);
      if (again == 0) selector.choose(i);
    }
    if (i == 0) selector.choose(1);
  }
}

TEST_P(Selector, ReplacedKernelsAreUnloaded) {
  const std::uint64_t before = device.counters().modules_unloaded;
  Module own = device.load_table({kernel<&add>("add")});
  const auto selector = KernelSelector::create("own", {{own.kernel("add"), one_block()}});
  own = Module();
  const CallSite site = CallSite::create(selector);
  site.launch(stream, tensor(), 1U);
  EXPECT_EQ(added(), 1U);
  EXPECT_EQ(device.counters().modules_unloaded, before);
  selector.replace({candidate("add_hundred")});
  EXPECT_EQ(device.counters().modules_unloaded, before + 1) << "the site gave its plan up";
  site.launch(stream, tensor(), 1U);
  EXPECT_EQ(added(), 100U);
}

}  // namespace
}  // namespace slipway::launch_tests
