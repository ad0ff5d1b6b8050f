// What src/base promises: URIs, sleeping and waking, the fences of both kinds, thread numbers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/biased_mutex.h"
#include "base/clock.h"
#include "base/dynamic_library.h"
#include "base/fence.h"
#include "base/parker.h"
#include "base/status.h"
#include "base/thread_id.h"
#include "base/uri.h"
#include "base/wait.h"
#include "slipway/version.h"

namespace slipway::internal {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kFarAway = 30'000 * kMillisecond;

Uri uri(std::string_view text) {
  Result<Uri> result = Uri::parse(text);
  EXPECT_TRUE(result.ok()) << text;
  return result.take();
}

void expect_refused(const Status& status, const std::vector<std::string>& words) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_NE(status.details().sentence.find(word), std::string::npos)
        << "'" << word << "' is missing in: " << status.details().sentence;
  }
}

// --- URIs ---

TEST(Uri, DriverAlone) {
  const Uri u = uri("cpu");
  EXPECT_EQ(u.text(), "cpu");
  EXPECT_EQ(u.driver(), "cpu");
  EXPECT_TRUE(u.allow_only({}).ok());
  EXPECT_EQ(u.number("workers", 7, 1, 9).take(), 7);
  EXPECT_FALSE(u.flag("inline").take());
  EXPECT_FALSE(u.text("affinity").has_value());
}

TEST(Uri, OptionsOfAllKinds) {
  const Uri u = uri("cpu:workers=3,inline,affinity=0-3,offset=-5,on=1,off=0,empty=");
  EXPECT_EQ(u.driver(), "cpu");
  EXPECT_EQ(u.number("workers", 1, 1, 64).take(), 3);
  EXPECT_EQ(u.number("offset", 0, -9, 9).take(), -5);
  EXPECT_TRUE(u.flag("inline").take());
  EXPECT_TRUE(u.flag("on").take());
  EXPECT_FALSE(u.flag("off").take());
  EXPECT_EQ(u.text("affinity"), "0-3");
  EXPECT_EQ(u.text("empty"), "");
  EXPECT_TRUE(u.allow_only({"workers", "inline", "affinity", "offset", "on", "off", "empty"}).ok());
}

TEST(Uri, ColonWithoutOptionsIsTheDriverAlone) { EXPECT_EQ(uri("null:").driver(), "null"); }

TEST(Uri, ValueMayHoldAnEqualsSign) { EXPECT_EQ(uri("opencl:options=-DA=1").text("options"), "-DA=1"); }

TEST(Uri, RefusesMissingDriver) {
  expect_refused(Uri::parse("").status(), {"''", "no driver"});
  expect_refused(Uri::parse(":workers=2").status(), {"':workers=2'", "no driver"});
}

TEST(Uri, RefusesOptionWithoutName) {
  expect_refused(Uri::parse("cpu:=2").status(), {"'cpu:=2'", "without a name"});
  expect_refused(Uri::parse("cpu:inline,,workers=2").status(), {"without a name"});
  expect_refused(Uri::parse("cpu:,").status(), {"without a name"});
}

TEST(Uri, RefusesOptionGivenTwice) {
  expect_refused(Uri::parse("cpu:workers=2,workers=2").status(), {"'workers'", "twice"});
  expect_refused(Uri::parse("cpu:inline,inline=0").status(), {"'inline'", "twice"});
}

TEST(Uri, RefusesUnknownOptionNamingTheKnownOnes) {
  expect_refused(uri("cpu:wrkers=2").allow_only({"workers", "inline"}), {"'wrkers'", "cpu knows: workers, inline"});
}

TEST(Uri, RefusesBadNumbers) {
  for (const std::string bad : {"", "x", "2x", " 2", "0", "9", "-1", "1e3", "0x2", "99999999999999999999"}) {
    const Uri u = uri("cpu:workers=" + bad);
    expect_refused(u.number("workers", 1, 1, 8).status(), {"'workers'", "'" + bad + "'", "from 1 to 8"});
  }
  expect_refused(uri("cpu:workers").number("workers", 1, 1, 8).status(), {"'workers'", "''"});
  EXPECT_EQ(uri("cpu:workers=8").number("workers", 1, 1, 8).take(), 8);
  EXPECT_EQ(uri("cpu:workers=1").number("workers", 3, 1, 8).take(), 1);
}

TEST(Uri, RefusesBadFlags) {
  for (const std::string bad : {"", "2", "yes", "true", "-1"}) {
    expect_refused(uri("cpu:inline=" + bad).flag("inline").status(), {"'inline'", "'" + bad + "'", "0 or 1"});
  }
}

// --- Errors ---

TEST(Error, WhatBeginsWithTheName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const Error error(static_cast<ErrorCode>(code), "a sentence");
    EXPECT_EQ(error.code(), static_cast<ErrorCode>(code));
    EXPECT_EQ(std::string(error.what()), std::string(name_of(error.code())) + ": a sentence");
    EXPECT_TRUE(names.insert(name_of(error.code())).second) << name_of(error.code());
    EXPECT_STRNE(name_of(error.code()), "Unknown");
  }
  EXPECT_STREQ(name_of(static_cast<ErrorCode>(250)), "Unknown");
}

TEST(Error, CarriesTheDetailsOfItsStatus) {
  ErrorDetails details;
  details.code = ErrorCode::kKernelFailed;
  details.sentence = "it threw";
  details.name = "add";
  details.sequence = 7;
  details.submitted = true;
  details.stable = true;
  try {
    Status(details).throw_if_error();
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    const Error copy = error;
    EXPECT_EQ(copy.code(), ErrorCode::kKernelFailed);
    EXPECT_EQ(copy.name(), "add");
    EXPECT_EQ(copy.sequence(), 7U);
    EXPECT_TRUE(copy.submitted());
    EXPECT_TRUE(copy.stable());
  }
  EXPECT_NO_THROW(Status().throw_if_error());
}

TEST(Version, TextAndNumberAgree) {
  EXPECT_EQ(runtime_version(), SLIPWAY_VERSION);
  EXPECT_EQ(runtime_version_string(), std::to_string(SLIPWAY_VERSION_MAJOR) + "." +
                                          std::to_string(SLIPWAY_VERSION_MINOR) + "." +
                                          std::to_string(SLIPWAY_VERSION_PATCH));
}

TEST(DynamicLibrary, OpensAndFinds) {
  Result<DynamicLibrary> result = DynamicLibrary::open("libc.so.6");
  ASSERT_TRUE(result.ok());
  const DynamicLibrary library = result.take();
  EXPECT_NE(library.symbol("getpid"), nullptr);
  EXPECT_EQ(library.symbol("slipway_there_is_no_such_function"), nullptr);
  EXPECT_EQ(DynamicLibrary().symbol("getpid"), nullptr);
}

TEST(DynamicLibrary, SaysWhyNot) {
  const Status status = DynamicLibrary::open("/there/is/no/such.so").status();
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(status.details().sentence.find("/there/is/no/such.so"), std::string::npos);
}

// --- Sleeping and waking ---

TEST(Parker, WakeBeforeParkCountsOnce) {
  Parker parker;
  parker.unpark();
  parker.unpark();
  EXPECT_TRUE(parker.park(now_ns() + kFarAway));
  EXPECT_FALSE(parker.park(now_ns() + kMillisecond));
}

TEST(Parker, DeadlinePasses) {
  Parker parker;
  const std::int64_t deadline = now_ns() + 20 * kMillisecond;
  EXPECT_FALSE(parker.park(deadline));
  EXPECT_GE(now_ns(), deadline);
}

TEST(Parker, PastDeadlineReturnsAtOnce) {
  Parker parker;
  EXPECT_FALSE(parker.park(0));
  EXPECT_FALSE(parker.park(-1));
  EXPECT_FALSE(parker.park(now_ns()));
  parker.unpark();
  EXPECT_TRUE(parker.park(0));  // a wake-up that came before counts even then
}

TEST(Parker, WorksAfterATimeout) {
  Parker parker;
  EXPECT_FALSE(parker.park(now_ns() + kMillisecond));
  parker.unpark();
  EXPECT_TRUE(parker.park(kNoDeadline));
}

TEST(Parker, PingPongHandsOverWhatWasWritten) {
  Parker mine, theirs;
  int value = 0;  // no atomic: the parkers alone order it, which the thread sanitizer checks
  constexpr int kRounds = 2000;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(theirs.park(now_ns() + kFarAway));
      EXPECT_EQ(value, 2 * i + 1);
      ++value;
      mine.unpark();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++value;
    theirs.unpark();
    ASSERT_TRUE(mine.park(now_ns() + kFarAway));
    EXPECT_EQ(value, 2 * i + 2);
  }
  other.join();
}

TEST(Parker, AnyNumberOfWakers) {
  Parker parker;
  std::atomic<int> given{0};
  constexpr int kEach = 500;
  const auto waker = [&] {
    for (int i = 0; i < kEach; ++i) {
      given.fetch_add(1);
      parker.unpark();
    }
  };
  std::thread first(waker), second(waker);
  int woken = 0;
  while (given.load() < 2 * kEach && woken <= 2 * kEach) {
    if (parker.park(now_ns() + 5 * kMillisecond)) ++woken;
  }
  first.join();
  second.join();
  EXPECT_LE(woken, 2 * kEach);
}

TEST(Processors, AtLeastOne) {
  EXPECT_GE(available_processors(), 1U);
  cpu_relax();
}

// --- Fences ---

// Two threads meet again and again: each stores its own word and reads the other's. Both reading the old value
// is what the fences exclude.
void dekker(bool asymmetric) {
  constexpr int kRounds = 20'000;
  struct Slot {
    std::atomic<int> frequent{0}, rare{0};
    int seen_by_frequent = -1, seen_by_rare = -1;
  };
  std::vector<Slot> slots(kRounds);
  std::atomic<int> arrived{0};
  const auto meet = [&](int round) {
    arrived.fetch_add(1);
    for (int spins = 0; arrived.load() < 2 * (round + 1); ++spins) {
      cpu_relax();
      if (spins > 1000) std::this_thread::yield();
    }
  };
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      Slot& s = slots[static_cast<std::size_t>(i)];
      meet(i);
      for (int delay = 0; delay < i % 11; ++delay) cpu_relax();
      s.seen_by_frequent = store_then_load(s.frequent, 1, s.rare, asymmetric);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    Slot& s = slots[static_cast<std::size_t>(i)];
    meet(i);
    for (int delay = 0; delay < i % 7; ++delay) cpu_relax();
    s.seen_by_rare = store_then_load_rare(s.rare, 1, s.frequent, asymmetric);
  }
  other.join();
  int both = 0, neither = 0;
  for (const Slot& s : slots) {
    both += s.seen_by_frequent == 1 && s.seen_by_rare == 1;
    neither += s.seen_by_frequent == 0 && s.seen_by_rare == 0;
  }
  EXPECT_EQ(neither, 0) << "of " << kRounds << " rounds; both saw the other in " << both;
}

TEST(Fence, SymmetricOneSideSeesTheOther) { dekker(false); }

TEST(Fence, AsymmetricOneSideSeesTheOther) {
  if (!asymmetric_fences()) GTEST_SKIP() << "skipped: this system has no membarrier(2)";
  dekker(true);
}

TEST(Fence, TheAnswerNeverChanges) {
  const bool first = asymmetric_fences();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(asymmetric_fences(), first); });
  for (std::thread& t : threads) t.join();
}

// --- Threads ---

TEST(ThreadId, EveryThreadHasItsOwnForEver) {
  const std::uint64_t mine = thread_id();
  EXPECT_GE(mine, 1U);
  EXPECT_EQ(thread_id(), mine);
  std::set<std::uint64_t> seen{mine};
  for (int i = 0; i < 50; ++i) {
    std::uint64_t theirs = 0;
    std::thread([&] {
      EXPECT_EQ(t_fast_thread_id, 0U);
      theirs = thread_id();
      EXPECT_EQ(t_fast_thread_id, theirs);
    }).join();
    EXPECT_TRUE(seen.insert(theirs).second) << theirs << " was given twice";
  }
}

// --- A biased mutex ---

TEST(BiasedMutex, BelongsToItsFirstThreadUntilAnotherComes) {
  BiasedMutex mutex;
  for (int i = 0; i < 3; ++i) {
    mutex.lock();
    mutex.unlock();
    ASSERT_TRUE(mutex.try_lock());
    mutex.unlock();
    EXPECT_TRUE(mutex.enter(thread_id(), BiasedMutex::Inside::kBriefly));
    EXPECT_TRUE(mutex.is_inside_briefly());
    mutex.leave();
    EXPECT_FALSE(mutex.is_inside_briefly());
  }
  EXPECT_FALSE(mutex.is_shared());
  std::thread([&] {
    EXPECT_FALSE(mutex.enter(thread_id(), BiasedMutex::Inside::kBriefly));
    EXPECT_FALSE(mutex.is_shared()) << "only a lock takes the bias away";
    mutex.lock();
    mutex.unlock();
  }).join();
  EXPECT_TRUE(mutex.is_shared());
  EXPECT_FALSE(mutex.enter(thread_id(), BiasedMutex::Inside::kBriefly)) << "it never comes back";
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.is_inside_briefly());
  mutex.unlock();
}

TEST(BiasedMutex, IsWaitedForWhileItsOwnerIsInside) {
  BiasedMutex mutex;
  mutex.lock();
  std::atomic<int> tried{0};
  std::atomic<bool> has_it{false}, may_go{false};
  std::thread other([&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock());
    tried = 1;
    mutex.lock();
    has_it = true;
    while (!may_go) std::this_thread::yield();
    mutex.unlock();
  });
  while (tried == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(has_it);
  mutex.unlock();
  while (!has_it) std::this_thread::yield();
  EXPECT_FALSE(mutex.try_lock());
  may_go = true;
  mutex.lock();  // with that of the other one: the bias is gone
  mutex.unlock();
  other.join();
}

class BiasedMutexWith : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Fences, BiasedMutexWith, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "asymmetric" : "symmetric"; });

// Many owners: now and then one has seen that it is the owner, and has not entered yet.
TEST_P(BiasedMutexWith, TheBiasIsTakenAwayAtAnyMoment) {
  const bool asymmetric = GetParam() && asymmetric_fences();  // where there are any
  constexpr int kRounds = 30000;
  std::deque<BiasedMutex> mutexes;
  for (int i = 0; i < kRounds; ++i) mutexes.emplace_back(asymmetric);
  std::atomic<int> ready{-1}, taken{-1}, inside{0}, violations{0};
  const std::int64_t end = now_ns() + 2'000'000'000;  // on a machine that does other things
  const auto visit = [&](BiasedMutex& mutex, int pauses) {
    mutex.lock();
    if (inside.fetch_add(1, std::memory_order_relaxed) != 0) violations.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < pauses; ++i) cpu_relax();
    inside.fetch_sub(1, std::memory_order_relaxed);
    mutex.unlock();
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; ready.load(std::memory_order_acquire) < round; ++i) {
        if (i % 64 == 63) std::this_thread::yield();
        else cpu_relax();
      }
      if (ready.load(std::memory_order_relaxed) == kRounds) return;
      // Looking at it leaves its cache line with both processors, so that the owner's store takes long.
      BiasedMutex& mutex = mutexes[static_cast<std::size_t>(round)];
      for (int i = round % 64; i > 0; --i) (void)mutex.is_shared();
      visit(mutex, 4);
      taken.store(round, std::memory_order_release);
    }
  });
  for (int round = 0; round < kRounds && now_ns() < end; ++round) {
    BiasedMutex& mutex = mutexes[static_cast<std::size_t>(round)];
    visit(mutex, 0);
    ready.store(round, std::memory_order_release);
    for (int i = 0; taken.load(std::memory_order_acquire) < round; ++i) {
      visit(mutex, 16);
      if (i % 64 == 63) std::this_thread::yield();  // the other one may have no processor
    }
  }
  ready.store(kRounds, std::memory_order_release);
  other.join();
  EXPECT_EQ(violations.load(), 0);
}

// The bias is taken away at every moment of the owner's, and what the mutex guards stays whole.
TEST(BiasedMutex, NobodyIsInsideWithAnother) {
  constexpr int kRounds = 300, kEach = 200;
  for (int round = 0; round < kRounds; ++round) {
    BiasedMutex mutex;
    std::uint64_t guarded = 0;  // no atomic: a race is seen, by tsan and in the sum
    std::atomic<int> begun{0};
    const auto add = [&] {
      mutex.lock();
      const std::uint64_t before = guarded;
      guarded = before + 1;
      mutex.unlock();
    };
    std::vector<std::thread> others;
    for (int i = 0; i < 2; ++i) {
      others.emplace_back([&, i] {
        while (begun.load(std::memory_order_relaxed) < (round % kEach) * (i + 1) / 2) cpu_relax();
        for (int k = 0; k < kEach; ++k) {
          if (k % 8 != 0 || !mutex.try_lock()) {
            add();
            continue;
          }
          ++guarded;
          mutex.unlock();
        }
      });
    }
    for (int k = 0; k < kEach; ++k) {
      add();
      begun.store(k + 1, std::memory_order_relaxed);
    }
    for (std::thread& t : others) t.join();
    ASSERT_EQ(guarded, 3u * kEach) << round;
  }
}

TEST(ThreadId, CallbacksHideItAndNest) {
  const std::uint64_t mine = thread_id();
  EXPECT_FALSE(t_in_callback);
  {
    const CallbackScope outer;
    EXPECT_TRUE(t_in_callback);
    EXPECT_EQ(t_fast_thread_id, 0U);
    EXPECT_EQ(thread_id(), mine);
    EXPECT_EQ(t_fast_thread_id, 0U) << "asking inside a callback must not open the fast path";
    {
      const CallbackScope inner;
      EXPECT_TRUE(t_in_callback);
    }
    EXPECT_TRUE(t_in_callback);
    EXPECT_EQ(t_fast_thread_id, 0U);
  }
  EXPECT_FALSE(t_in_callback);
  EXPECT_EQ(t_fast_thread_id, mine);
}

TEST(ThreadId, FirstAskedInsideACallback) {
  std::thread([] {
    std::uint64_t inside = 0;
    {
      const CallbackScope scope;
      inside = thread_id();
      EXPECT_GE(inside, 1U);
    }
    EXPECT_EQ(t_fast_thread_id, 0U);
    EXPECT_EQ(thread_id(), inside);
    EXPECT_EQ(t_fast_thread_id, inside);
  }).join();
}

// --- What callers of a wait may hook in ---

TEST(BlockingScope, CallsLeaveThenEnter) {
  WaitRules rules;
  std::make_unique<BlockingScope>(rules).reset();  // no hooks: nothing happens
  std::string calls;
  auto hooks = std::make_shared<BlockingHooks>();
  hooks->leave = [&] { calls += "leave "; };
  hooks->enter = [&] { calls += "enter "; };
  rules.set_hooks(hooks);
  {
    const BlockingScope scope(rules);
    EXPECT_EQ(calls, "leave ");
    rules.set_hooks(nullptr);  // the scope keeps the pair that it began with
  }
  EXPECT_EQ(calls, "leave enter ");
  std::make_unique<BlockingScope>(rules).reset();
  EXPECT_EQ(calls, "leave enter ");
}

}  // namespace
}  // namespace slipway::internal
