#include <sys/resource.h>

#include <algorithm>
#include <stdexcept>

#include "support.h"

namespace slipway::api_tests {
namespace {

std::int64_t processor_time_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return (std::int64_t{usage.ru_utime.tv_sec} + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

TEST(Threads, OneStreamSharedByFourKeepsEachThreadsOrder) {
  constexpr std::uint32_t kThreads = 4, kEach = 2000;
  for (const char* uri : {"cpu:workers=1", "cpu:workers=2", "cpu:inline"}) {
    const Device device = Device::open(uri);
    const Module module = load(device);
    StreamOptions small;
    small.ring_bytes = 32 << 10;
    const Stream s = device.create_stream(small);
    std::vector<std::uint32_t> log(kThreads * kEach + 1, 0);
    const Kernel append = module.kernel("append");
    const auto typed = LaunchPlan::create(append, one_block()).typed<Tensor<std::uint32_t>, std::uint32_t>();
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t i = 0; i < kEach; ++i) {
          if (i % 3 == 0) s.launch(append, {}, log.data(), t * kEach + i);
          else typed(s, Tensor<std::uint32_t>(host_address(log.data())), t * kEach + i);
          if (i % 500 == 0) s.synchronize();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    s.synchronize();
    ASSERT_EQ(log[0], kThreads * kEach) << uri;
    std::uint32_t next[kThreads] = {};
    for (std::size_t i = 1; i < log.size(); ++i)
      ASSERT_EQ(log[i] % kEach, next[log[i] / kEach]++) << uri << " at " << i;
    EXPECT_EQ(device.counters()[Reason::kStreamShared], 1U) << uri;
  }
}

TEST(Threads, ManyStreamsOfManyThreads) {
  const Device device = Device::open("cpu:workers=2");
  const Module module = load(device);
  std::atomic<std::uint64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const Stream s = device.create_stream();
        const Event event = device.create_event();
        const Memory m = device.allocate(4);
        s.fill(m.address(), 0, 4, 1);
        for (int i = 0; i < 10; ++i) s.launch(module.kernel("add_one"), {}, m);
        s.mark(event);
        event.synchronize();
        total += *reinterpret_cast<std::uint32_t*>(static_cast<std::uint64_t>(m.address()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 2000U);
  EXPECT_TRUE(soon([&] { return device.counters().live_memory_bytes == 0; }));
}

TEST(Threads, WorkersParkAndAreWokenUp) {
  const Device device = Device::open("cpu:workers=2,spin_us=0");
  const Module module = load(device);
  const Stream s = device.create_stream();
  std::uint32_t counter = 0;
  const auto typed = LaunchPlan::create(module.kernel("add_one"), one_block()).typed<Tensor<std::uint32_t>>();
  for (std::uint32_t i = 1; i <= 200; ++i) {
    typed(s, Tensor<std::uint32_t>(host_address(&counter)));
    s.synchronize(WaitLimit{5000});
    ASSERT_EQ(counter, i);
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // A launch alone wakes a worker, without anybody waiting.
  std::atomic<bool> ran{false};
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  s.host_function([&] { ran = true; });
  EXPECT_TRUE(soon([&] { return ran.load(); }));
  const std::int64_t before = processor_time_us();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_time_us() - before, 100'000) << "parked workers take no processor time";
}

TEST(Threads, SpinningWorkersParkAfterTheirTime) {
  const Device device = Device::open("cpu:workers=2,spin_us=1000");
  const Stream s = device.create_stream();
  s.host_function([] {});
  s.synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t before = processor_time_us();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_time_us() - before, 100'000);
}

TEST(Threads, AThousandStreamsCreatedAndDropped) {
  for (const char* uri : {"cpu:workers=2", "cpu:inline", "null"}) {
    const Device device = Device::open(uri);
    const Module module = load(device);
    const Memory m = device.allocate(4);
    const Stream main = device.create_stream();
    main.fill(m.address(), 0, 4, 1);
    Event last = device.create_event();
    main.mark(last);
    for (int i = 0; i < 1000; ++i) {
      StreamOptions small;
      small.ring_bytes = 16 << 10;
      const Stream s = device.create_stream(small);
      s.wait(last);
      s.launch(module.kernel("add_one"), {}, m);
      last = device.create_event();
      s.mark(last);
    }
    main.wait(last);
    std::uint32_t counter = 0;
    main.copy_to_host(&counter, m.address(), 4);
    main.synchronize();
    EXPECT_EQ(counter, device.info().runs_kernels ? 1000U : 0U) << uri;
    EXPECT_EQ(device.counters().general_launches, 1000U) << uri;
  }
}

TEST(Threads, AFailedMarkOutlivesItsStreamAndTheNextOneInItsPlace) {
  const Device device = Device::open("cpu:workers=1");
  const Event failed = device.create_event();
  {
    const Stream s = device.create_stream();
    s.host_function([] { throw std::runtime_error("long ago"); });
    s.mark(failed);
    EXPECT_TRUE(refused(ErrorCode::kKernelFailed, {"long ago"}, [&] { s.synchronize(); }));
  }
  for (int i = 0; i < 10; ++i) {
    const Stream next = device.create_stream();
    std::vector<std::uint32_t> word(1, 0);
    next.copy_to_device(host_address(word.data()), &i, 4);
    next.synchronize();
    EXPECT_EQ(word[0], static_cast<std::uint32_t>(i));
    EXPECT_EQ(next.submitted(), next.completed());
    EXPECT_TRUE(refused(ErrorCode::kKernelFailed, {"long ago"}, [&] { (void)failed.query(); }));
    next.wait(failed);
    EXPECT_TRUE(refused(ErrorCode::kKernelFailed, {"long ago"}, [&] { next.synchronize(); }));
  }
}

TEST(Threads, AStreamOfHighPriorityRunsFirst) {
  const Device device = Device::open("cpu:workers=1");
  const Module module = device.load_table({kernel<&append>("append"), kernel<&wait_for>("wait_for")});
  StreamOptions low, high;
  low.priority = 1;
  high.priority = -1;
  const Stream busy = device.create_stream(), second = device.create_stream(low), first = device.create_stream(high);
  std::atomic<bool> go{false};
  std::vector<std::uint32_t> log(8, 0);
  busy.launch(module.kernel("wait_for"), {}, &go);
  while (busy.idle()) std::this_thread::yield();
  second.launch(module.kernel("append"), {}, log.data(), 2U);
  first.launch(module.kernel("append"), {}, log.data(), 1U);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  go = true;
  device.synchronize();
  EXPECT_EQ(log, (std::vector<std::uint32_t>{2, 1, 2, 0, 0, 0, 0, 0}));
}

TEST(Threads, AKernelThatRunsLongHoldsUpItsOwnStreamOnly) {
  const Device device = Device::open("cpu:workers=2");
  const Module module = device.load_table({kernel<&add_one>("add_one"), kernel<&wait_for>("wait_for")});
  const Stream a = device.create_stream(), b = device.create_stream();
  std::atomic<bool> go{false};
  std::uint32_t counter = 0;
  a.launch(module.kernel("wait_for"), {}, &go);
  for (int i = 0; i < 100; ++i) b.launch(module.kernel("add_one"), {}, &counter);
  b.synchronize(WaitLimit{5000});
  EXPECT_EQ(counter, 100U);
  EXPECT_FALSE(a.idle());
  EXPECT_TRUE(refused(ErrorCode::kTimeout, {}, [&] { a.synchronize(WaitLimit{10}); }));
  go = true;
  a.synchronize();
}

}  // namespace
}  // namespace slipway::api_tests
