// B37: whoever may have to wait gives away what the caller holds, and takes it back.
#include <mutex>
#include <stdexcept>

#include "support.h"

namespace slipway::api_tests {
namespace {

class Hooks : public ::testing::Test {
 protected:
  void SetUp() override {
    device.set_blocking_hooks(
        [this] {
          ++leaves;
          owner = std::thread::id();
          lock.unlock();
        },
        [this] {
          lock.lock();
          owner = std::this_thread::get_id();
          ++enters;
        });
  }
  // The last handles go while the lock is held, as in a program whose every call is made under it.
  ~Hooks() override {
    const std::lock_guard held(lock);
    device = {};
  }
  // The call gives the lock away while it waits for work that needs it, and holds it again afterwards.
  void gives_away(const char* what, const std::function<void()>& call) {
    const std::lock_guard held(lock);
    owner = std::this_thread::get_id();
    const int before = leaves;
    call();
    EXPECT_GT(leaves.load(), before) << what;
    EXPECT_EQ(leaves.load(), enters.load()) << what;
    EXPECT_EQ(owner, std::this_thread::get_id()) << what;
  }
  void needs_lock(const Stream& s) {
    s.host_function([this] {
      const std::lock_guard mine(lock);
      ++calls;
    });
  }

  std::mutex lock;
  std::thread::id owner;
  std::atomic<int> leaves{0}, enters{0}, calls{0};
  Device device = Device::open("cpu:workers=1,spin_us=0");
};

TEST_F(Hooks, EveryEntryThatWaitsGivesTheLockAway) {
  const Stream s = device.create_stream();
  const Event event = device.create_event();
  gives_away("Stream::synchronize", [&] {
    needs_lock(s);
    s.synchronize(WaitLimit{5000});
  });
  gives_away("Device::synchronize", [&] {
    needs_lock(s);
    device.synchronize(WaitLimit{5000});
  });
  gives_away("Event::synchronize", [&] {
    needs_lock(s);
    s.mark(event);
    event.synchronize(WaitLimit{5000});
  });
  gives_away("Device::synchronize for a stream without a handle", [&] {
    needs_lock(device.create_stream());
    device.synchronize(WaitLimit{5000});
  });
  gives_away("load_library", [&] { (void)device.load_library(SLIPWAY_C_KERNELS); });
  gives_away("recover", [&] {
    s.host_function([this] {
      const std::lock_guard mine(lock);  // so that it fails after what follows was submitted
      throw std::runtime_error("x");
    });
    needs_lock(s);
    EXPECT_TRUE(refused(ErrorCode::kKernelFailed, {}, [&] { s.synchronize(WaitLimit{5000}); }));
    s.recover();
  });
  EXPECT_EQ(calls, 4) << "the fifth was discarded";
}

TEST_F(Hooks, SubmissionsToAFullRing) {
  StreamOptions small;
  small.ring_bytes = 16 << 10;
  const Stream s = device.create_stream(small);
  gives_away("a full ring", [&] {
    for (int i = 0; i < 2000; ++i) needs_lock(s);
    s.synchronize(WaitLimit{10000});
  });
  EXPECT_EQ(calls, 2000);
}

TEST_F(Hooks, CloseGivesTheLockAway) {
  const Stream s = device.create_stream();
  gives_away("close", [&] {
    needs_lock(s);
    device.close(WaitLimit{5000});
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(Hooks, TwoThreadsCloseTheDeviceAtOnce) {
  const Stream s = device.create_stream();
  testing::Hold hold(device);
  hold.hold(s);
  const auto close = [&] {
    const std::lock_guard held(lock);
    device.close(WaitLimit{5000});
  };
  std::thread first(close), second(close);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  hold.release();
  first.join();
  second.join();
  EXPECT_EQ(leaves, enters);
}

TEST_F(Hooks, ResetGivesTheLockAway) {
  const Stream s = device.create_stream();
  gives_away("reset", [&] {
    needs_lock(s);
    device.reset();
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(Hooks, AreNotCalledWhereNothingWaits) {
  const Module module = load(device);
  const Stream s = device.create_stream();
  std::uint32_t counter = 0;
  const auto typed = LaunchPlan::create(module.kernel("add_one"), one_block()).typed<Tensor<std::uint32_t>>();
  {
    const std::lock_guard held(lock);
    for (int i = 0; i < 100; ++i) typed(s, Tensor<std::uint32_t>(host_address(&counter)));
    (void)s.idle();
    (void)device.counters();
    EXPECT_EQ(leaves, 0);
  }
  device.set_blocking_hooks(nullptr, nullptr);
  s.synchronize();
  EXPECT_EQ(counter, 100U);
  EXPECT_EQ(leaves, 0);
}

TEST(BlockingMode, ReportsAtTheCallAndKeepsGoing) {
  const Device device = Device::open("cpu:workers=1,blocking");
  const Module module = load(device);
  const Stream s = device.create_stream();
  std::uint32_t counter = 0;
  for (std::uint32_t i = 1; i <= 10; ++i) {
    s.launch(module.kernel("add_one"), {}, &counter);
    EXPECT_EQ(counter, i);
  }
  EXPECT_TRUE(
      refused(ErrorCode::kKernelFailed, {"now"}, [&] { s.host_function([] { throw std::runtime_error("now"); }); }));
  s.recover();
  s.launch(module.kernel("add_one"), {}, &counter);
  EXPECT_EQ(counter, 11U);
  EXPECT_EQ(device.counters()[Reason::kBlockingMode], 12U);
}

}  // namespace
}  // namespace slipway::api_tests
