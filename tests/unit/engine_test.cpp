// What src/engine promises: progress and those who wait for it, lanes run by workers or in-line, host functions,
// launches that several workers share, and no wake-up ever lost.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/thread_id.h"
#include "device/driver.h"
#include "engine/engine.h"
#include "engine/lane_event.h"
#include "engine/walker.h"
#include "unit/engine_fixture.h"

namespace slipway::internal {
namespace {

// --- Progress ---

TEST(Progress, WaitReturnsAtOnceForWhatHasCome) {
  Progress progress;
  EXPECT_TRUE(progress.wait(0, 0, 0));
  progress.advance(5);
  EXPECT_EQ(progress.completed(), 5U);
  EXPECT_TRUE(progress.wait(5, 0, 0));
  EXPECT_TRUE(progress.wait(3, kFarAway, 0));
}

TEST(Progress, WaitGivesUpAtItsDeadline) {
  for (const std::int64_t spin_ns : {std::int64_t{0}, kMillisecond}) {
    Progress progress;
    const std::int64_t deadline = now_ns() + 10 * kMillisecond;
    EXPECT_FALSE(progress.wait(1, spin_ns, deadline));
    EXPECT_GE(now_ns(), deadline);
    Freed freed;
    progress.announce(1, freed);  // nobody waits any more
    EXPECT_TRUE(progress.wait(1, 0, 0));
  }
}

TEST(Progress, AnnounceWakesThreadsThatWaitForLessOrAsMuch) {
  Progress progress;
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (const std::uint64_t sequence : {3, 4, 5}) {
    threads.emplace_back([&, sequence] {
      EXPECT_TRUE(progress.wait(sequence, 0, now_ns() + kFarAway));
      EXPECT_GE(progress.completed(), sequence);
      woken.fetch_add(1);
    });
  }
  Freed freed;
  progress.announce(4, freed);
  threads[0].join();
  threads[1].join();
  EXPECT_FALSE(progress.wait(5, 0, now_ns() + kMillisecond));
  EXPECT_EQ(woken.load(), 2);
  progress.announce(5, freed);
  threads[2].join();
  EXPECT_TRUE(freed.empty());
}

TEST(Progress, AnnounceFreesThoseThatWaitForIt) {
  struct Waiter final : Resumable {
    void resume() override { order->push_back(number); }
    std::vector<int>* order = nullptr;
    int number = 0;
  };
  constexpr int kWaiters = 7;  // more than have their place in Freed
  std::vector<int> order;
  std::array<Waiter, kWaiters + 1> waiters;
  Progress progress;
  int blocked = 0;
  const auto block = [&] { ++blocked; };
  for (int i = 0; i <= kWaiters; ++i) {
    Waiter& waiter = waiters[static_cast<std::size_t>(i)];
    waiter.order = &order;
    waiter.number = i;
    EXPECT_TRUE(progress.add_waiter(i < kWaiters ? 1 + static_cast<std::uint64_t>(i % 2) : 3, &waiter, block));
  }
  Freed freed;
  progress.announce(2, freed);
  EXPECT_TRUE(order.empty());
  resume_all(freed);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(freed.empty());
  EXPECT_FALSE(progress.add_waiter(2, waiters.data(), block));
  EXPECT_EQ(blocked, kWaiters + 1);
  progress.announce(9, freed);
  resume_all(freed);
  EXPECT_EQ(order.back(), kWaiters);
  EXPECT_EQ(order.size(), std::size_t{kWaiters + 1});
}

TEST(Progress, NoWakeUpIsLost) {
  Progress there, back;
  constexpr std::uint64_t kRounds = 2000;
  std::thread other([&] {
    Freed freed;
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      ASSERT_TRUE(there.wait(i, i % 3 * 1000, now_ns() + kFarAway)) << i;
      back.announce(i, freed);
    }
  });
  Freed freed;
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    there.announce(i, freed);
    ASSERT_TRUE(back.wait(i, i % 5 * 1000, now_ns() + kFarAway)) << i;
  }
  other.join();
}

TEST(Progress, DeadlinesRacingAnnouncementsStayWhole) {
  for (int round = 0; round < 300; ++round) {
    Progress progress;
    std::thread announcer([&] {
      Freed freed;
      const std::int64_t at = now_ns() + 20'000;
      while (now_ns() < at) cpu_relax();
      progress.announce(1, freed);
    });
    const bool came = progress.wait(1, 0, now_ns() + 20'000);
    EXPECT_TRUE(!came || progress.completed() == 1U);
    announcer.join();
    EXPECT_TRUE(progress.wait(1, 0, 0));
  }
}

TEST(Progress, FailureRangesTellTheirCause) {
  Progress progress;
  EXPECT_TRUE(progress.failure_of(1).ok());
  progress.open_failure(5, Status(ErrorCode::kKernelFailed, "first"));
  EXPECT_TRUE(progress.failure_of(4).ok());
  EXPECT_EQ(progress.failure_of(5).details().sentence, "first");
  EXPECT_EQ(progress.failure_of(1'000'000).details().sentence, "first");
  progress.close_failure(7);
  EXPECT_EQ(progress.failure_of(7).details().sentence, "first");
  EXPECT_TRUE(progress.failure_of(8).ok());
  progress.open_failure(10, Status(ErrorCode::kDeviceLost, "second"));
  EXPECT_TRUE(progress.failure_of(9).ok());
  EXPECT_EQ(progress.failure_of(10).code(), ErrorCode::kDeviceLost);
  EXPECT_EQ(progress.failure_of(6).details().sentence, "first");
}

TEST(Progress, ManyFailuresKeepBoundedMemoryAndTheLatestOnes) {
  Progress progress;
  progress.close_failure(3);  // nothing is open
  for (std::uint64_t i = 1; i <= 200; ++i) {
    progress.open_failure(10 * i, Status(ErrorCode::kKernelFailed, std::to_string(i)));
    progress.close_failure(10 * i + 4);
  }
  EXPECT_EQ(progress.failure_of(2000).details().sentence, "200");
  EXPECT_EQ(progress.failure_of(1504).details().sentence, "150");
  EXPECT_TRUE(progress.failure_of(1505).ok());
}

// --- An engine with the executor of the fixture ---

struct Workers {
  unsigned workers;
  std::int64_t spin_ns;
};

class EngineOf : public ::testing::TestWithParam<Workers> {
 protected:
  EngineOf() {
    EngineOptions options;
    options.workers = GetParam().workers;
    options.spin_ns = GetParam().spin_ns;
    engine_ = std::make_unique<Engine>(options, &walk<TestExecutor>, &executor_);
  }
  ~EngineOf() override {
    EXPECT_TRUE(engine_->shut_down(now_ns() + kFarAway));
    engine_->for_each_lane([&](Lane& lane) { discard_lane(lane, executor_.environment()); });
  }

  TestLane lane(int priority = 0) { return TestLane(*engine_, rules_, priority); }
  void release(Progress& progress, std::uint64_t sequence) {
    Freed freed;
    progress.announce(sequence, freed);
    resume_all(freed);
  }

  WaitRules rules_;
  TestExecutor executor_;
  std::unique_ptr<Engine> engine_;
};

std::string name_of_case(const ::testing::TestParamInfo<Workers>& of) {
  if (of.param.workers == 0) return "inline";
  return "workers" + std::to_string(of.param.workers) + "_spin" + std::to_string(of.param.spin_ns);
}

constexpr Workers kThreaded[] = {{1, 0}, {1, 50'000}, {2, 0}, {2, 50'000}, {3, 1'000}};
INSTANTIATE_TEST_SUITE_P(Inline, EngineOf, ::testing::Values(Workers{0, 0}), name_of_case);
INSTANTIATE_TEST_SUITE_P(Threaded, EngineOf, ::testing::ValuesIn(kThreaded), name_of_case);

class EngineWithWorkers : public EngineOf {};
INSTANTIATE_TEST_SUITE_P(, EngineWithWorkers, ::testing::ValuesIn(kThreaded), name_of_case);

TEST_P(EngineOf, RunsManyLanesEachInItsOrder) {
  constexpr int kLanes = 40;  // more than there are polled slots
  constexpr int kEach = 300;  // more than a turn, and more than the ring holds
  std::vector<TestLane> lanes;
  std::vector<int> next(kLanes, 0);  // no atomics: a lane's records are ordered with one another
  std::vector<Work> work(static_cast<std::size_t>(kLanes) * kEach);
  std::atomic<int> wrong{0};
  for (int i = 0; i < kLanes; ++i) lanes.push_back(lane(i % 3 - 1));
  for (int k = 0; k < kEach; ++k) {
    for (int i = 0; i < kLanes; ++i) {
      Work& w = work[static_cast<std::size_t>(i * kEach + k)];
      w.run = [&, i, k](Lane&) {
        if (next[static_cast<std::size_t>(i)]++ != k) wrong.fetch_add(1);
      };
      lanes[static_cast<std::size_t>(i)].launch(w);
    }
  }
  for (TestLane& l : lanes) ASSERT_TRUE(l.synchronize());
  EXPECT_EQ(wrong.load(), 0);
  for (const int n : next) EXPECT_EQ(n, kEach);
}

TEST_P(EngineOf, NoWakeUpIsLost) {
  TestLane l = lane();
  std::atomic<int> ran{0};
  Work work{[&](Lane&) { ran.fetch_add(1); }};
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds; ++i) {
    l.launch(work);
    ASSERT_TRUE(l.synchronize()) << i;
    ASSERT_EQ(ran.load(), i + 1);
    // From time to time the workers come to rest, or are about to.
    if (i % 8 == 7) std::this_thread::sleep_for(std::chrono::microseconds(i % 128));
  }
}

TEST_P(EngineOf, NoWakeUpIsLostBetweenTwoLanes) {
  TestLane a = lane(), b = lane();
  constexpr int kRounds = 1000;
  for (int i = 0; i < kRounds; ++i) {
    const std::uint64_t from_a = a.mark();
    b.wait_for(a.lane().progress(), from_a);
    const std::uint64_t from_b = b.mark();
    a.wait_for(b.lane().progress(), from_b);
    if (i % 16 == 15) {
      ASSERT_TRUE(a.synchronize()) << i;
    }
  }
  ASSERT_TRUE(a.synchronize());
  ASSERT_TRUE(b.synchronize());
}

TEST_P(EngineOf, SubmittersInManyThreads) {
  constexpr int kThreads = 4, kRounds = 300;
  std::vector<TestLane> lanes;
  for (int i = 0; i < kThreads; ++i) lanes.push_back(lane());
  std::atomic<int> ran{0};
  Work work{[&](Lane&) { ran.fetch_add(1); }};
  std::vector<std::thread> threads;
  for (TestLane& l : lanes) {
    threads.emplace_back([&work, &l] {
      for (int i = 0; i < kRounds; ++i) {
        for (int k = 0; k <= i % 7; ++k) l.launch(work);
        ASSERT_TRUE(l.synchronize()) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int expected = 0;
  for (int i = 0; i < kRounds; ++i) expected += i % 7 + 1;
  EXPECT_EQ(ran.load(), kThreads * expected);
}

TEST_P(EngineOf, ALaneThatWaitsHoldsUpNobody) {
  Progress gate;
  TestLane waits = lane(), goes_on = lane();
  std::atomic<bool> passed{false};
  Work after{[&](Lane&) { passed = true; }}, other{[](Lane&) {}};
  waits.wait_for(gate, 1);
  waits.launch(after);
  const std::uint64_t end = waits.mark();
  goes_on.launch(other);
  ASSERT_TRUE(goes_on.synchronize());
  EXPECT_FALSE(passed);
  EXPECT_FALSE(waits.lane().progress().wait(end, 0, now_ns() + kMillisecond));
  release(gate, 1);
  ASSERT_TRUE(waits.lane().progress().wait(end, 0, now_ns() + kFarAway));
  EXPECT_TRUE(passed);
}

TEST_P(EngineOf, ChainsOfLanesEndWithoutDeepCalls) {
  constexpr std::size_t kLanes = 2000;
  Progress gate;
  std::vector<TestLane> lanes;
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes.push_back(lane());
    if (i == 0) lanes[i].wait_for(gate, 1);
    else lanes[i].wait_for(lanes[i - 1].lane().progress(), lanes[i - 1].lane().submitted());
    lanes[i].mark();
  }
  release(gate, 1);
  ASSERT_TRUE(lanes.back().lane().progress().wait(lanes.back().lane().submitted(), 0, now_ns() + kFarAway));
}

TEST_P(EngineOf, AFailureDiscardsTheRestAndIsToldOfItsMarks) {
  TestLane l = lane();
  int after = 0;
  auto owned = std::make_shared<int>(1);
  Work good{[](Lane&) {}}, bad{[](Lane&) { throw std::runtime_error("no good"); }}, late{[&](Lane&) { ++after; }};
  Progress gate;
  l.launch(good);
  l.wait_for(gate, 1);  // so that all of it is submitted before anything fails
  const std::uint64_t before = l.mark();
  l.launch(bad);
  l.launch(late);
  l.host([owned] { ADD_FAILURE() << "it was discarded"; });
  const std::uint64_t behind = l.mark();
  release(gate, 1);
  ASSERT_TRUE(l.lane().progress().wait(behind, 0, now_ns() + kFarAway));
  EXPECT_EQ(after, 0);
  EXPECT_EQ(owned.use_count(), 1) << "a discarded host function keeps what it captured";
  EXPECT_TRUE(l.lane().failed());
  EXPECT_NE(l.lane().slow_flags() & kSlowFailed, 0U);
  EXPECT_TRUE(l.lane().progress().failure_of(before).ok());
  const Status cause = l.lane().progress().failure_of(behind);
  ASSERT_FALSE(cause.ok());
  EXPECT_EQ(cause.code(), ErrorCode::kKernelFailed);
  EXPECT_EQ(cause.details().sequence, 4U);
  EXPECT_EQ(cause.details().name, "work");
  EXPECT_NE(cause.details().sentence.find("no good"), std::string::npos);

  // Another lane that waits for that mark fails too.
  TestLane other = lane();
  other.wait_for(l.lane().progress(), behind);
  ASSERT_TRUE(other.synchronize());
  EXPECT_TRUE(other.lane().failed());

  l.lane().recover();
  EXPECT_FALSE(l.lane().failed());
  l.launch(late);
  ASSERT_TRUE(l.synchronize());
  EXPECT_EQ(after, 1);
  EXPECT_TRUE(l.lane().progress().failure_of(l.lane().submitted()).ok());
}

TEST_P(EngineOf, ARecycledLaneBeginsHealthyAndCountsOn) {
  Lane* first = nullptr;
  std::uint64_t submitted = 0;
  {
    TestLane l = lane(1);
    Work bad{[](Lane&) { throw 7; }};
    l.launch(bad);
    ASSERT_TRUE(l.synchronize());
    ASSERT_TRUE(l.lane().failed());
    first = &l.lane();
    submitted = first->submitted();
    engine_->release_lane(first);
  }
  TestLane l = lane(-1);
  EXPECT_EQ(&l.lane(), first);
  EXPECT_FALSE(l.lane().failed());
  EXPECT_EQ(l.lane().slow_flags() & kSlowFailed, 0U);
  EXPECT_EQ(l.lane().priority(), -1);
  EXPECT_EQ(l.lane().base, submitted);
  int ran = 0;
  Work work{[&](Lane&) { ++ran; }};
  l.launch(work);
  ASSERT_TRUE(l.synchronize());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(l.lane().progress().failure_of(submitted).ok()) << "what failed before stays failed";
  TestLane fresh = lane();
  EXPECT_NE(&fresh.lane(), first) << "a lane has one owner";
}

TEST_P(EngineOf, HostFunctionsRunInOrderWithTheLane) {
  TestLane l = lane();
  std::vector<int> order;  // no lock: the lane orders them
  Work work{[&](Lane&) { order.push_back(static_cast<int>(order.size())); }};
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0) l.launch(work);
    else
      l.host([&order] {
        EXPECT_TRUE(t_in_callback);
        order.push_back(static_cast<int>(order.size()));
      });
  }
  ASSERT_TRUE(l.synchronize());
  ASSERT_EQ(order.size(), 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(EngineOf, AHostFunctionThatThrowsFailsItsLane) {
  TestLane l = lane();
  l.host([] { throw std::runtime_error("it broke"); }, "callback");
  l.host([] { ADD_FAILURE() << "it was discarded"; });
  ASSERT_TRUE(l.synchronize());
  const Status cause = l.lane().failure();
  ASSERT_FALSE(cause.ok());
  EXPECT_EQ(cause.details().name, "callback");
  EXPECT_NE(cause.details().sentence.find("it broke"), std::string::npos);
}

TEST_P(EngineWithWorkers, ASlowHostFunctionHoldsUpItsOwnLaneOnly) {
  TestLane slow = lane(), other = lane();
  std::atomic<bool> go{false};
  slow.host([&] {
    while (!go) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
  Work work{[](Lane&) {}};
  other.launch(work);
  EXPECT_TRUE(other.synchronize());
  EXPECT_FALSE(slow.synchronize(kMillisecond));
  go = true;
  EXPECT_TRUE(slow.synchronize());
}

// --- Launches that several workers share ---

struct Sum {
  std::atomic<std::uint64_t> total{0};
  std::atomic<int> chunks{0};
  std::uint64_t throw_at = UINT64_MAX;
  static void run(void* context, std::uint64_t begin, std::uint64_t end) {
    Sum& sum = *static_cast<Sum*>(context);
    sum.chunks.fetch_add(1);
    for (std::uint64_t i = begin; i < end; ++i) {
      if (i == sum.throw_at) throw std::runtime_error("chunk");
      sum.total.fetch_add(i, std::memory_order_relaxed);
    }
  }
};

void spread(Engine& engine, Sum& sum, std::uint64_t total, std::uint64_t chunk) {
  SpreadJob job;
  job.run = &Sum::run;
  job.context = &sum;
  job.total = total;
  job.chunk = chunk;
  engine.spread(job);
}

TEST_P(EngineOf, SpreadRunsEachPieceOnce) {
  TestLane l = lane();
  constexpr int kRounds = 500;
  std::vector<Sum> sums(kRounds);
  std::vector<Work> work(kRounds);
  for (std::size_t i = 0; i < kRounds; ++i) {
    work[i].run = [&, i](Lane&) { spread(*engine_, sums[i], 1 + i, 1 + i / 8); };
    l.launch(work[i]);
    if (i % 32 == 31) {
      ASSERT_TRUE(l.synchronize());
    }
  }
  ASSERT_TRUE(l.synchronize());
  for (std::size_t i = 0; i < kRounds; ++i) EXPECT_EQ(sums[i].total.load(), i * (i + 1) / 2) << i;
}

TEST_P(EngineOf, SpreadFromManyLanesAtOnce) {
  constexpr std::size_t kLanes = 4, kRounds = 200;
  std::vector<TestLane> lanes;
  std::vector<Sum> sums(kLanes);
  std::vector<Work> work(kLanes);
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes.push_back(lane());
    work[i].run = [&, i](Lane&) { spread(*engine_, sums[i], 100, 7); };
  }
  for (std::size_t k = 0; k < kRounds; ++k) {
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i].launch(work[i]);
  }
  for (TestLane& l : lanes) ASSERT_TRUE(l.synchronize());
  for (const Sum& sum : sums) EXPECT_EQ(sum.total.load(), kRounds * 4950);
}

TEST_P(EngineOf, SpreadPassesAnExceptionOnAndBeginsNoFurtherChunk) {
  TestLane l = lane();
  for (int round = 0; round < 50; ++round) {
    Sum sum;
    sum.throw_at = static_cast<std::uint64_t>(round);
    Work work{[&](Lane&) { spread(*engine_, sum, 1'000'000, 1); }};
    l.launch(work);
    ASSERT_TRUE(l.synchronize());
    ASSERT_TRUE(l.lane().failed());
    EXPECT_NE(l.lane().failure().details().sentence.find("chunk"), std::string::npos);
    EXPECT_LT(sum.chunks.load(), 1'000'000);
    l.lane().recover();
  }
}

// --- Priorities, and the end ---

// A lane at a gate, behind which it says its name.
// --- A worker with nothing else to run ---

class Staying : public ::testing::Test {
 protected:
  void open_engine(std::int64_t spin_ns) {
    if (available_processors() == 1) GTEST_SKIP() << "on one processor nothing spins";
    EngineOptions options;
    options.spin_ns = spin_ns;
    engine_ = std::make_unique<Engine>(options, &walk<TestExecutor>, &executor_);
    lane_ = std::make_unique<TestLane>(*engine_, rules_);
    lane_->launch(before_);
    lane_->wait_for(gate_, 1);
    end_ = lane_->mark();
    for (int i = 0; i < 5000 && !reached_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(reached_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  void TearDown() override {
    if (!engine_) return;
    ASSERT_TRUE(lane_->lane().progress().wait(end_, 0, now_ns() + kFarAway));
    EXPECT_TRUE(engine_->shut_down(now_ns() + kFarAway));
  }
  // Announces what the lane waits for; true: it was there to be resumed.
  bool open_gate() {
    Freed freed;
    gate_.announce(1, freed);
    const bool freed_any = !freed.empty();
    resume_all(freed);
    return freed_any;
  }

  static constexpr std::int64_t kLong = 20'000 * kMillisecond;
  WaitRules rules_;
  TestExecutor executor_;
  Progress gate_;
  std::atomic<bool> reached_{false};
  Work before_{[&](Lane&) { reached_ = true; }};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TestLane> lane_;
  std::uint64_t end_ = 0;
};

TEST_F(Staying, WhoEndsTheWaitFindsNobodyToResume) {
  open_engine(kLong);
  if (!engine_) return;
  EXPECT_FALSE(open_gate());
}

TEST_F(Staying, ItLeavesTheLaneForOthers) {
  open_engine(kLong);
  if (!engine_) return;
  TestLane other(*engine_, rules_);
  std::atomic<bool> ran{false};
  Work work{[&](Lane&) { ran = true; }};
  const std::int64_t begin = now_ns();
  other.launch(work);
  ASSERT_TRUE(other.synchronize());
  EXPECT_TRUE(ran);
  EXPECT_LT(now_ns() - begin, kLong / 2);
  EXPECT_TRUE(open_gate()) << "the lane was left, and is resumed";
}

TEST_F(Staying, ItLeavesTheLaneForOthersThatArePolled) {
  if (available_processors() == 1) GTEST_SKIP() << "on one processor nothing spins";
  EngineOptions options;
  options.spin_ns = kLong;
  engine_ = std::make_unique<Engine>(options, &walk<TestExecutor>, &executor_);
  TestLane other(*engine_, rules_);
  Work work{[](Lane&) {}};
  other.launch(work);
  ASSERT_TRUE(other.synchronize());  // and is looked at from here on
  lane_ = std::make_unique<TestLane>(*engine_, rules_);
  lane_->wait_for(gate_, 1);
  end_ = lane_->mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::int64_t begin = now_ns();
  other.launch(work);
  ASSERT_TRUE(other.synchronize());
  EXPECT_LT(now_ns() - begin, kLong / 2);
  (void)open_gate();
}

TEST_F(Staying, ItGivesUpWhenNothingComes) {
  open_engine(kMillisecond);
  if (!engine_) return;
  for (int i = 0; i < 5000 && lane_->lane().state() != LaneState::kBlocked; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(lane_->lane().state(), LaneState::kBlocked);
  EXPECT_TRUE(open_gate());
}

TEST(Engine, ReadyLanesRunByPriority) {
  TestExecutor executor;
  const WaitRules rules;
  EngineOptions options;
  options.spin_ns = 0;
  Engine engine(options, &walk<TestExecutor>, &executor);
  std::vector<int> order;
  std::vector<Work> work(6);
  std::vector<TestLane> lanes;
  TestLane busy(engine, rules);
  std::atomic<bool> go{false}, started{false};
  Work hold{[&](Lane&) {
    started = true;
    while (!go) std::this_thread::yield();
  }};
  busy.launch(hold);  // the one worker is taken while the others become ready
  while (!started) std::this_thread::yield();
  for (const int priority : {1, 0, -1, 1, 0, -1}) {
    Work& w = work[lanes.size()];
    w.run = [&order, priority](Lane&) { order.push_back(priority); };
    lanes.emplace_back(engine, rules, priority);
    lanes.back().launch(w);
  }
  go = true;
  for (TestLane& l : lanes) ASSERT_TRUE(l.synchronize());
  EXPECT_EQ(order, (std::vector<int>{-1, -1, 0, 0, 1, 1}));
  EXPECT_TRUE(engine.shut_down(now_ns() + kFarAway));
}

TEST(Engine, ShutDownLeavesALaneWhereItIsAndItsPayloadsAreGivenUp) {
  TestExecutor executor;
  const WaitRules rules;
  Engine engine(EngineOptions{}, &walk<TestExecutor>, &executor);
  auto owned = std::make_shared<int>(0);
  Progress never;
  TestLane l(engine, rules);
  l.wait_for(never, 1);
  l.host([owned] {});
  l.host([owned] {});
  EXPECT_EQ(owned.use_count(), 3);
  EXPECT_TRUE(engine.shut_down(now_ns() + kFarAway));
  engine.for_each_lane([&](Lane& lane) { discard_lane(lane, executor.environment()); });
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(Engine, ShutDownSaysWhenAThreadIsStillBusy) {
  // Leaked, as the contract asks: the worker may touch all of it.
  auto* const executor = new TestExecutor;
  auto* const rules = new WaitRules;
  auto* const engine = new Engine(EngineOptions{}, &walk<TestExecutor>, executor);
  static std::atomic<bool> go{false}, started{false}, ended{false};
  static Work work{[](Lane&) {
    started = true;
    while (!go) std::this_thread::sleep_for(std::chrono::microseconds(100));
    ended = true;
  }};
  auto* const l = new TestLane(*engine, *rules);
  l->launch(work);
  while (!started) std::this_thread::yield();
  EXPECT_FALSE(engine->shut_down(now_ns() + 5 * kMillisecond));
  go = true;
  while (!ended) std::this_thread::yield();
  // Reachable, and never destroyed: no leak to the sanitizer.
  static std::vector<void*>* volatile kept = nullptr;
  kept = new std::vector<void*>{executor, rules, engine, l};
  EXPECT_EQ(kept->size(), 4U);
}

// --- Host thread and events ---

TEST(HostThread, StopFinishesTheOneThatRunsAndDropsTheRest) {
  HostThread thread;
  std::atomic<bool> started{false}, go{false};
  std::atomic<int> done{0};
  auto owned = std::make_shared<int>(0);
  const auto count = [&](Status) { done.fetch_add(1); };
  ASSERT_TRUE(thread.start().ok());
  thread.post(std::make_unique<HostFunction>(HostFunction{[&] {
                                                            started = true;
                                                            while (!go) std::this_thread::yield();
                                                          },
                                                          "first"}),
              1, count);
  thread.post(std::make_unique<HostFunction>(HostFunction{[owned] { ADD_FAILURE() << "dropped"; }, "second"}), 2,
              count);
  while (!started) std::this_thread::yield();
  EXPECT_FALSE(thread.stop(now_ns() + kMillisecond));
  go = true;
  EXPECT_TRUE(thread.stop(now_ns() + kFarAway));
  EXPECT_EQ(done.load(), 1);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(HostThread, StopWithoutWorkIsNothing) {
  HostThread thread;
  EXPECT_TRUE(thread.stop(0));
}

TEST(LaneEvent, TellsItsLastMarkAndItsFailure) {
  TestExecutor executor;
  const WaitRules rules;
  EngineOptions options;
  options.workers = 0;
  Engine engine(options, &walk<TestExecutor>, &executor);
  LaneStream stream(engine, engine.acquire_lane(kRingBytes, 0, rules), rules);
  LaneEvent event({}, rules);
  Status cause;
  EXPECT_EQ(event.state(cause), EventState::kPassed) << "without a mark there is nothing to wait for";
  EventRecord record{};
  EXPECT_FALSE(event.prepare_wait(record));

  event.marked(stream, 3);
  EXPECT_EQ(event.state(cause), EventState::kPending);
  EXPECT_TRUE(event.prepare_wait(record));
  EXPECT_EQ(record.mark_source, &stream.lane().progress());
  EXPECT_EQ(record.mark, 3U);
  const Status timeout = event.wait(now_ns() + kMillisecond);
  EXPECT_EQ(timeout.code(), ErrorCode::kTimeout);
  EXPECT_NE(timeout.details().sentence.find("3 submissions"), std::string::npos) << timeout.details().sentence;

  stream.lane().progress().advance(3);
  EXPECT_EQ(event.state(cause), EventState::kPassed);
  EXPECT_TRUE(event.wait(0).ok());
  stream.lane().progress().open_failure(2, Status(ErrorCode::kKernelFailed, "why"));
  EXPECT_EQ(event.state(cause), EventState::kFailed);
  EXPECT_EQ(cause.details().sentence, "why");
  EXPECT_TRUE(engine.shut_down(0));
}

TEST(LaneHold, ReleaseFreesTheLanesAtIt) {
  TestExecutor executor;
  const WaitRules rules;
  Engine engine(EngineOptions{}, &walk<TestExecutor>, &executor);
  LaneHold hold;
  EventRecord record{};
  ASSERT_TRUE(hold.prepare_wait(record));
  Status cause;
  EXPECT_EQ(hold.state(cause), EventState::kPending);
  std::vector<TestLane> lanes;
  std::atomic<int> passed{0};
  Work work{[&](Lane&) { passed.fetch_add(1); }};
  for (int i = 0; i < 20; ++i) {
    lanes.emplace_back(engine, rules);
    lanes.back().wait_for(*static_cast<Progress*>(record.mark_source), record.mark);
    lanes.back().launch(work);
  }
  EXPECT_EQ(passed.load(), 0);
  hold.release();
  for (TestLane& l : lanes) ASSERT_TRUE(l.synchronize());
  EXPECT_EQ(passed.load(), 20);
  EXPECT_EQ(hold.state(cause), EventState::kPassed);
  hold.release();  // again is nothing
  EXPECT_TRUE(engine.shut_down(now_ns() + kFarAway));
}

}  // namespace
}  // namespace slipway::internal
