// Call sites used from several threads while plans are made, taken away and made again.
#include <thread>

#include "launch_fixture.h"

namespace slipway::launch_tests {
namespace {

class SiteThreads : public LaunchTest {};
INSTANTIATE_TEST_SUITE_P(On, SiteThreads, ::testing::Values("cpu:workers=1", "cpu:workers=2", "cpu:inline"), uri_name);

TEST_P(SiteThreads, LaunchWhileTheChoiceChanges) {
  constexpr std::uint32_t kThreads = 4, kLaunches = 3000;
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Stream mine = device.create_stream();
      const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
      for (std::uint32_t i = 0; i < kLaunches; ++i) {
        if (i % 16 == 15) site.launch(mine, tensor(t), 1U);
        else typed(mine, tensor(t), 1U);
      }
      mine.synchronize();
    });
  }
  std::thread chooser([&] {
    for (std::size_t i = 0; !done.load(); ++i) {
      if (i % 5 == 4) selector.unsettle();
      else selector.choose(i % 2);
      std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  done = true;
  chooser.join();
  std::uint64_t launches = 0;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    // Each launch added 1 or 100, once.
    EXPECT_EQ(word(t) % 99, kLaunches % 99);
    EXPECT_GE(word(t), kLaunches);
    EXPECT_LE(word(t), kLaunches * 100);
    launches += kLaunches;
  }
  const Counters counters = device.counters();
  EXPECT_EQ(counters.planned_launches + counters.general_launches, launches);
}

// From the return of choose() on, every thread's calls launch what was chosen.
TEST_P(SiteThreads, NobodyLaunchesAnOldChoice) {
  const KernelSelector selector = two();
  const CallSite site = CallSite::create(selector);
  std::atomic<std::uint32_t> round{0}, answered{0};
  std::thread other([&] {
    const Stream mine = device.create_stream();
    const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
    for (std::uint32_t r = 1; r <= 200; ++r) {
      while (round.load(std::memory_order_acquire) < r) {
        typed(mine, tensor(1), 1U);  // keeps the fast path busy
        std::this_thread::yield();
      }
      mine.synchronize();
      const std::uint32_t before = word(2);
      typed(mine, tensor(2), 1U);
      mine.synchronize();
      EXPECT_EQ(word(2) - before, r % 2 == 0 ? 1U : 100U);
      answered.store(r, std::memory_order_release);
    }
  });
  for (std::uint32_t r = 1; r <= 200; ++r) {
    selector.choose(r % 2);
    round.store(r, std::memory_order_release);
    while (answered.load(std::memory_order_acquire) < r) std::this_thread::yield();
  }
  other.join();
}

// A stream that stands at a full ring is no fast path: changing the choice does not wait for it.
class SiteAtAFullRing : public LaunchTest {};
INSTANTIATE_TEST_SUITE_P(On, SiteAtAFullRing, ::testing::Values("cpu:workers=1", "cpu:workers=2"), uri_name);

TEST_P(SiteAtAFullRing, HoldsNobodyUpWhoChangesTheChoice) {
  const KernelSelector selector = two();
  selector.choose(0);
  const CallSite site = CallSite::create(selector);
  site.launch(stream, tensor(), 1U);
  testing::Hold hold(device);
  std::thread filler([&] {
    const Stream mine = device.create_stream({.priority = 0, .ring_bytes = 16 << 10, .name = "full"});
    hold.hold(mine);
    const auto typed = site.typed<Tensor<std::uint32_t>, std::uint32_t>();
    for (int i = 0; i < 2000; ++i) typed(mine, tensor(1), 1U);
    mine.synchronize();
  });
  while (device.counters()[Reason::kRingFull] == 0) std::this_thread::yield();
  selector.choose(1);
  site.launch(stream, tensor(), 1U);
  EXPECT_EQ(added(), 101U);
  hold.release();
  filler.join();
}

}  // namespace
}  // namespace slipway::launch_tests
