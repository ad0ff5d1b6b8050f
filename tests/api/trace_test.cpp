#include <algorithm>
#include <map>
#include <stdexcept>

#include "support.h"

namespace slipway::api_tests {
namespace {

class Timeline : public ::testing::TestWithParam<const char*> {};

TEST_P(Timeline, TellsOfEachUnitOfWorkInOrder) {
  const Device device = Device::open(GetParam());
  const Module module = load(device);
  const Stream s = device.create_stream({.name = "main"});
  const Memory log = device.allocate(64);
  s.fill(log.address(), 0, 4, 16);
  s.synchronize();
  const std::uint64_t before = s.submitted();
  device.start_timeline();
  EXPECT_TRUE(refused(ErrorCode::kFailedPrecondition, {"on already"}, [&] { device.start_timeline(); }));
  const Stream later = device.create_stream({.name = "later"});
  s.launch(module.kernel("append"), {}, log, 1U);
  LaunchPlan::create(module.kernel("append"), one_block())
      .typed<Tensor<std::uint32_t>, std::uint32_t>()(s, log.tensor<std::uint32_t>(), 2);
  s.host_function([] {}, "callback");
  s.copy(log.address(), offset(log.address(), 32), 16);
  later.fill(offset(log.address(), 48), 0, 4, 1);
  device.synchronize();
  const std::vector<TimelineEntry> entries = device.stop_timeline();
  s.fill(log.address(), 0, 4, 1);
  s.synchronize();
  EXPECT_TRUE(device.stop_timeline().empty());

  std::vector<TimelineEntry> mine;
  for (const TimelineEntry& e : entries) {
    if (e.kind == TimelineEntry::Kind::kSubmission && e.stream == "main" && e.name != "mark") mine.push_back(e);
  }
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  ASSERT_EQ(mine.size(), 4U);
  const char* names[] = {"append", "append", "callback", "copy"};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i].name, names[i]);
    EXPECT_EQ(mine[i].sequence, before + 1 + i);
    EXPECT_GT(mine[i].submitted_ns, 0);
    EXPECT_LE(mine[i].submitted_ns, mine[i].started_ns) << names[i];
    EXPECT_LE(mine[i].started_ns, mine[i].ended_ns) << names[i];
    EXPECT_LE(i > 0 ? mine[i - 1].ended_ns : 0, mine[i].started_ns);
  }
  EXPECT_TRUE(std::any_of(entries.begin(), entries.end(),
                          [](const auto& e) { return e.stream == "later" && e.name == "fill"; }));
  EXPECT_EQ(device.counters().planned_launches, 1U) << "the fast path is watched, not left";
}

TEST_P(Timeline, IsBounded) {
  const Device device = Device::open(GetParam());
  const Stream s = device.create_stream();
  const Memory m = device.allocate(4);
  device.start_timeline(10);
  for (std::uint64_t i = 0; i < 100; ++i) s.fill(m.address(), i, 4, 1);
  s.synchronize();
  std::uint64_t dropped = 0;
  const auto entries = device.stop_timeline(&dropped);
  EXPECT_EQ(entries.size(), 10U);
  EXPECT_EQ(dropped, 91U) << "each submission once, and the mark of synchronize";
  device.start_timeline(0);
  s.fill(m.address(), 0, 4, 1);
  s.synchronize();
  EXPECT_TRUE(device.stop_timeline(&dropped).empty());
  EXPECT_EQ(dropped, 2U);
  EXPECT_TRUE(device.stop_timeline(&dropped).empty());
  EXPECT_EQ(dropped, 0U) << "it is off";
}

TEST_P(Timeline, MayBeTurnedOnAndOffUnderWay) {
  const Device device = Device::open(GetParam());
  const Stream s = device.create_stream();
  const Memory m = device.allocate(4);
  std::atomic<bool> stop{false};
  std::thread switcher([&] {
    while (!stop) {
      device.start_timeline(1000);
      std::this_thread::yield();
      (void)device.stop_timeline();
    }
  });
  for (int round = 0; round < 40; ++round) {
    for (std::uint64_t i = 0; i < 50; ++i) s.fill(m.address(), i, 4, 1);
    s.synchronize();
  }
  stop = true;
  switcher.join();
  EXPECT_EQ(device.counters().fills, 2000U);
}

INSTANTIATE_TEST_SUITE_P(Devices, Timeline, ::testing::Values("cpu:workers=1", "cpu:workers=2", "cpu:inline", "null"),
                         device_name);

TEST(Counters, EveryKindOfWorkIsCountedOnce) {
  const Device device = Device::open("cpu");
  const Module module = load(device);
  const Kernel add_one = module.kernel("add_one");
  const Event event = device.create_event();
  const std::vector<std::byte> large(10000);
  {
    const Stream s = device.create_stream(), gone = device.create_stream();
    const Memory m = device.allocate(10000);
    EXPECT_EQ(device.counters().live_memory_bytes, 10000U);
    s.fill(m.address(), 0, 8, 2);
    for (int i = 0; i < 3; ++i) s.launch(add_one, {}, m);
    for (int i = 0; i < 4; ++i) LaunchPlan::create(add_one, one_block()).launch(s, m);
    for (int i = 0; i < 5; ++i) s.launch(add_one, {{1, 0, 1}}, m);
    for (int i = 0; i < 2; ++i) s.copy_to_device(m.address(), large.data(), large.size());
    s.host_function([] {});
    s.wait(event);  // never marked: no work
    s.mark(event);
    gone.wait(event);
    gone.fill(m.address(), 0, 1, 1);
    device.synchronize();
  }
  const Counters c = device.counters();  // of streams that are gone, too
  EXPECT_EQ(c.fills, 2U);
  EXPECT_EQ(c.general_launches, 3U);
  EXPECT_EQ(c.planned_launches, 4U);
  EXPECT_EQ(c.empty_launches, 5U);
  EXPECT_EQ(c.copies, 2U);
  EXPECT_EQ(c.host_functions, 1U);
  EXPECT_EQ(c.event_marks, 1U);
  EXPECT_EQ(c.event_waits, 1U);
  EXPECT_EQ(c.modules_loaded, 1U);
  EXPECT_EQ(c.modules_unloaded, 0U);
  EXPECT_EQ(c.staged_bytes, 0U);
  EXPECT_EQ(c.live_memory_bytes, 0U);
  for (std::size_t i = 0; i < kReasonCount; ++i) EXPECT_EQ(c.reasons[i], 0U) << name_of(static_cast<Reason>(i));
}

TEST(Counters, ReasonsAreCounted) {
  const Device device = Device::open("cpu:workers=1");
  StreamOptions small;
  small.ring_bytes = 16 << 10;
  const Stream s = device.create_stream(small);
  const Memory m = device.allocate(4);
  s.fill(m.address(), 0, 4, 1);
  std::thread([&] { s.fill(m.address(), 0, 4, 1); }).join();
  s.fill(m.address(), 0, 4, 1);
  EXPECT_EQ(device.counters()[Reason::kStreamShared], 1U);
  testing::Hold hold(device);
  hold.hold(s);
  std::thread releaser([&] {
    EXPECT_TRUE(soon([&] { return device.counters()[Reason::kRingFull] > 0; }));
    hold.release();
  });
  for (int i = 0; i < 1000; ++i) s.fill(m.address(), 0, 4, 1);
  releaser.join();
  s.synchronize();
  EXPECT_GE(device.counters()[Reason::kRingFull], 1U);
  EXPECT_STREQ(name_of(Reason::kRingFull), "ring_full");
  EXPECT_STREQ(name_of(Reason::kStreamShared), "stream_shared");
}

}  // namespace
}  // namespace slipway::api_tests
