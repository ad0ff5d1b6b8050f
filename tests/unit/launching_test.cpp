// What src/engine/launching_thread.h promises: everything published is pumped and no kick is lost, a publication costs
// no kick while the thread is awake, streams take turns, and stopping is bounded.
#include "engine/launching_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace slipway::internal {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kRecordBytes = 64;
constexpr std::uint32_t kRingBytes = 16 * kRecordBytes;

bool becomes(const std::function<bool()>& holds) {
  const std::int64_t end = now_ns() + 20 * kSecond;
  while (!holds()) {
    if (now_ns() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Records are numbers; what is done with each is the test's.
class TestStream final : public QueuedStream, public std::enable_shared_from_this<TestStream> {
 public:
  explicit TestStream(LaunchingThread& thread, std::size_t turn = 4)
      : thread_(thread), turn_(turn), ring_(kRingBytes, rules_) {
    ring_.set_launching(this, &thread);
  }
  ~TestStream() { *alive_ = false; }

  Pumped pump_turn() override {
    ++pumps;
    if (in_pump) in_pump();
    for (std::size_t left = turn_; ring_.has_work(); --left) {
      if (left == 0) return Pumped::kMore;
      std::uint64_t position = ring_.read_position.load(std::memory_order_relaxed);
      const RecordHeader& header = ring_.at(position);
      std::uint64_t value = 0;
      std::memcpy(&value, reinterpret_cast<const std::byte*>(&header) + sizeof header, sizeof value);
      if (value == stands_at.load()) return Pumped::kStands;
      position += header.size_bytes;
      ring_.read_position.store(position, std::memory_order_relaxed);
      ring_.consume_to(position);
      if (seen) seen(value);  // may pump in place
      taken.fetch_add(1);
    }
    return Pumped::kEmpty;
  }
  QueuedRing& queued_ring() override { return ring_; }

  // True: it had to kick.
  bool submit(std::uint64_t value, std::int64_t deadline_ns = 0) {
    Status why;
    std::byte* const place = ring_.reserve(kRecordBytes, why, deadline_ns);
    if (!place) throw std::runtime_error(why.details().sentence);
    new (place) RecordHeader{kRecordBytes, RecordKind::kFill, 0, 0};
    std::memcpy(place + sizeof(RecordHeader), &value, sizeof value);
    const bool must_kick = ring_.commit(kRecordBytes);
    if (must_kick) kicked = thread_.kick(shared_from_this());
    return must_kick;
  }

  std::atomic<std::uint64_t> taken{0}, stands_at{~std::uint64_t{0}};
  std::atomic<int> pumps{0};
  bool kicked = true;
  std::function<void()> in_pump;            // set before the first record
  std::function<void(std::uint64_t)> seen;  // likewise
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);

 private:
  LaunchingThread& thread_;
  const std::size_t turn_;
  WaitRules rules_;
  QueuedRing ring_;
};

// Declared behind what a stream's functions refer to: none of them runs when that goes.
class Ended {
 public:
  explicit Ended(LaunchingThread& thread) : thread_(thread) {}
  ~Ended() { EXPECT_TRUE(thread_.stop(now_ns() + 20 * kSecond)); }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

 private:
  LaunchingThread& thread_;
};

class Launching : public ::testing::TestWithParam<std::int64_t> {
 protected:
  Launching() : thread(GetParam(), "test-queue") { thread.start(); }
  ~Launching() override { EXPECT_TRUE(thread.stop(now_ns() + 10 * kSecond)); }

  std::shared_ptr<TestStream> stream(std::size_t turn = 4) { return std::make_shared<TestStream>(thread, turn); }

  LaunchingThread thread;
};

TEST_P(Launching, EverythingPublishedIsPumpedInOrderHoweverTheThreadSleeps) {
  const auto s = stream();
  std::vector<std::uint64_t> order;
  s->seen = [&](std::uint64_t value) { order.push_back(value); };
  const Ended ended(thread);
  constexpr std::uint64_t kRounds = 3000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    s->submit(i);
    // Waiting for each, every tenth time with a rest, so that the thread is met awake, going to sleep and asleep.
    if (i % 3 == 0) {
      ASSERT_TRUE(becomes([&] { return s->taken.load() == i + 1; })) << i;
    }
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ASSERT_TRUE(becomes([&] { return s->taken.load() == kRounds; }));
  for (std::uint64_t i = 0; i < kRounds; ++i) ASSERT_EQ(order[i], i);
}

TEST_P(Launching, PublishingCostsNoKickWhileTheThreadPumps) {
  const auto s = stream();
  std::promise<void> inside, go_on;
  auto gate = go_on.get_future().share();
  std::atomic<bool> first{true};
  const Ended ended(thread);
  s->in_pump = [&] {
    if (first.exchange(false)) {
      inside.set_value();
      gate.wait_for(std::chrono::seconds(20));
    }
  };
  EXPECT_TRUE(s->submit(0));
  ASSERT_EQ(inside.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  for (std::uint64_t i = 1; i < 10; ++i) EXPECT_FALSE(s->submit(i)) << i;
  go_on.set_value();
  EXPECT_TRUE(becomes([&] { return s->taken.load() == 10; }));
}

TEST_P(Launching, AStreamThatStandsIsLeftAloneUntilItIsKicked) {
  const auto s = stream();
  s->stands_at = 1;
  s->submit(0);
  s->submit(1);
  ASSERT_TRUE(becomes([&] { return s->taken.load() == 1 && s->queued_ring().state() == ConsumerState::kBlocked; }));
  const int pumps = s->pumps.load();
  for (std::uint64_t i = 2; i < 12; ++i) EXPECT_FALSE(s->submit(i)) << i;
  // Another stream's work passes meanwhile.
  const auto other = stream();
  for (std::uint64_t i = 0; i < 50; ++i) other->submit(i);
  ASSERT_TRUE(becomes([&] { return other->taken.load() == 50; }));
  EXPECT_EQ(s->pumps.load(), pumps);
  EXPECT_EQ(s->taken.load(), 1U);
  s->stands_at = ~std::uint64_t{0};
  EXPECT_TRUE(thread.kick(s));
  EXPECT_TRUE(becomes([&] { return s->taken.load() == 12; }));
}

TEST_P(Launching, AKickDuringAPumpIsFollowedByAnother) {
  const auto s = stream();
  s->stands_at = 1;
  std::atomic<int> reached{0}, allowed{0};
  const Ended ended(thread);
  s->in_pump = [&] {
    const int mine = ++reached;
    (void)becomes([&] { return allowed.load() >= mine; });
  };
  s->submit(1);
  for (int i = 1; i <= 200; ++i) {
    ASSERT_TRUE(becomes([&] { return reached.load() == i; })) << i;  // inside a pump that will stand
    EXPECT_TRUE(thread.kick(s));
    allowed.store(i);
  }
  ASSERT_TRUE(becomes([&] { return reached.load() == 201; }));
  s->stands_at = ~std::uint64_t{0};
  allowed.store(1 << 30);
  EXPECT_TRUE(thread.kick(s));
  EXPECT_TRUE(becomes([&] { return s->taken.load() == 1; }));
}

TEST_P(Launching, StreamsTakeTurns) {
  const auto busy = stream(1), other = stream(1);
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    for (std::uint64_t i = 0; !stop.load(); ++i) busy->submit(i);
  });
  ASSERT_TRUE(becomes([&] { return busy->taken.load() > 10; }));
  for (std::uint64_t i = 0; i < 100; ++i) other->submit(i);
  EXPECT_TRUE(becomes([&] { return other->taken.load() == 100; }));
  stop = true;
  producer.join();
}

TEST_P(Launching, AFullQueuePushesBackAndTheDeadlineIsKept) {
  const auto s = stream();
  s->stands_at = 0;
  for (std::uint64_t i = 0; i < kRingBytes / kRecordBytes; ++i) s->submit(i);
  EXPECT_THROW(s->submit(99, now_ns() + kSecond / 100), std::runtime_error);
  std::thread later([&] {
    s->stands_at = ~std::uint64_t{0};
    thread.kick(s);
  });
  s->submit(99, now_ns() + 20 * kSecond);
  later.join();
  EXPECT_TRUE(becomes([&] { return s->taken.load() == kRingBytes / kRecordBytes + 1; }));
}

TEST_P(Launching, TheThreadItselfSubmitsToItsFullQueueInPlaceAndInOrder) {
  const auto s = stream();
  std::vector<std::uint64_t> order;
  constexpr std::uint64_t kFill = kRingBytes / kRecordBytes;
  s->seen = [&](std::uint64_t value) {
    order.push_back(value);
    // The first record submits more than there is room for.
    if (value == 0) {
      for (std::uint64_t i = 0; i < 3 * kFill; ++i) s->submit(1000 + i, now_ns() + 10 * kSecond);
    }
  };
  const auto other = stream();  // holds the thread until the queue is full
  std::promise<void> full;
  auto wait = full.get_future().share();
  const Ended ended(thread);
  other->in_pump = [&] { wait.wait_for(std::chrono::seconds(20)); };
  other->submit(0);
  for (std::uint64_t i = 0; i < kFill; ++i) s->submit(i);
  full.set_value();
  ASSERT_TRUE(becomes([&] { return s->taken.load() == 4 * kFill; }));
  ASSERT_EQ(order.size(), 4 * kFill);
  for (std::uint64_t i = 0; i < kFill; ++i) EXPECT_EQ(order[i], i);
  for (std::uint64_t i = 0; i < 3 * kFill; ++i) EXPECT_EQ(order[kFill + i], 1000 + i);
}

TEST_P(Launching, WhatEverybodyDroppedIsLetGo) {
  auto s = stream();
  const auto alive = s->alive_;
  s->submit(0);
  ASSERT_TRUE(becomes([&] { return s->taken.load() == 1; }));
  s.reset();
  EXPECT_TRUE(becomes([&] { return !alive->load(); }));
}

TEST_P(Launching, AfterStoppingStreamsAreDetachedAndKicksAreRefused) {
  const auto idle = stream(), standing = stream();
  standing->stands_at = 0;
  idle->submit(0);
  standing->submit(0);
  ASSERT_TRUE(becomes([&] { return idle->taken.load() == 1 && standing->pumps.load() > 0; }));
  EXPECT_TRUE(thread.stop(now_ns() + 10 * kSecond));
  EXPECT_TRUE(idle->submit(1));
  EXPECT_FALSE(idle->kicked);
  EXPECT_FALSE(thread.kick(standing));
}

TEST_P(Launching, StoppingGivesUpOnAThreadThatIsStuck) {
  auto stuck = std::make_unique<LaunchingThread>(GetParam(), "test-stuck");
  stuck->start();
  const auto s = std::make_shared<TestStream>(*stuck);
  std::promise<void> inside, go_on;
  auto gate = go_on.get_future().share();
  s->in_pump = [&, gate, once = std::make_shared<std::atomic<bool>>(true)] {
    if (once->exchange(false)) inside.set_value();
    gate.wait_for(std::chrono::seconds(20));
  };
  s->submit(0);
  ASSERT_EQ(inside.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const std::int64_t start = now_ns();
  EXPECT_FALSE(stuck->stop(start + kSecond / 50));
  EXPECT_LT(now_ns() - start, 5 * kSecond);
  go_on.set_value();
  // It ends by itself, and lets the stream go then.
  EXPECT_TRUE(becomes([&] { return s.use_count() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Queue, Launching, ::testing::Values(0, 20'000, 60'000'000'000), [](const auto& parameter) {
  return parameter.param == 0 ? std::string("park") : parameter.param < kSecond ? "spin" : "spin_for_long";
});

}  // namespace
}  // namespace slipway::internal
