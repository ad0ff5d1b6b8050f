// What src/device promises behind the front door: when dropped things are destroyed, and who waits for that.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "device/retire.h"
#include "device/stream_impl.h"
#include "slipway/slipway.h"

namespace slipway::internal {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kFarAway = 10'000 * kMillisecond;

// A thread that retires something and stays inside its destruction until it is let go.
class Destroying {
 public:
  template <class Retire>
  explicit Destroying(Retire retire) {
    auto go = std::make_shared<std::shared_future<void>>(go_.get_future());
    thread_ = std::thread([this, retire, go] {
      retire([this, go] {
        inside_.set_value();
        go->wait();
      });
    });
    inside_.get_future().wait();
  }
  ~Destroying() { let_go(); }
  void let_go() {
    if (!thread_.joinable()) return;
    go_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> go_, inside_;
  std::thread thread_;
};

TEST(Retired, MemoryThatAnotherThreadGivesBackIsWaitedFor) {
  RetireList list;
  int left = 0, entered = 0;
  WaitRules rules;
  rules.set_hooks(std::make_shared<BlockingHooks>(BlockingHooks{[&] { ++left; }, [&] { ++entered; }}));
  ASSERT_TRUE(list.settle(rules, now_ns()).ok());
  Destroying memory([&](auto free) { list.retire_memory(std::move(free)); });
  EXPECT_EQ(left, 0) << "nothing was waited for yet";
  const Status early = list.settle(rules, now_ns() + 10 * kMillisecond);
  EXPECT_EQ(early.code(), ErrorCode::kTimeout);
  EXPECT_NE(early.details().sentence.find("still giving back memory"), std::string::npos) << early.details().sentence;
  EXPECT_EQ(left, 1);
  EXPECT_EQ(entered, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    memory.let_go();
  });
  EXPECT_TRUE(list.settle(rules, now_ns() + kFarAway).ok());
  other.join();
  EXPECT_EQ(left, 2);
  EXPECT_EQ(entered, 2);
}

// It may run user code, which may need a lock that the caller of a synchronise holds.
TEST(Retired, OtherDestructorsAreNotWaitedFor) {
  RetireList list;
  const WaitRules rules;
  bool freed = false;
  Destroying object([&](auto destroy) { list.retire(std::move(destroy)); });
  list.retire_memory([&] { freed = true; });
  EXPECT_TRUE(freed);
  const std::int64_t before = now_ns();
  EXPECT_TRUE(list.settle(rules, before + kFarAway).ok());
  EXPECT_LT(now_ns(), before + kFarAway / 2);
}

// What began later than the caller's look is not the caller's.
TEST(Retired, OneWaitsOnlyForWhatBeganBefore) {
  RetireList list;
  const WaitRules rules;
  auto first = std::make_unique<Destroying>([&](auto free) { list.retire_memory(std::move(free)); });
  auto settled = std::async(std::launch::async, [&] { return list.settle(rules, now_ns() + kFarAway); });
  EXPECT_EQ(settled.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  Destroying second([&](auto free) { list.retire_memory(std::move(free)); });
  first.reset();
  ASSERT_EQ(settled.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(settled.get().ok());
}

// A call of a site may name a stream of another device, and reads the site's plan inside that stream to find it out.
TEST(FastPaths, ThoseOfEveryDeviceAreWaitedFor) {
  const Device mine = Device::open("cpu:inline");
  const Device other = Device::open("cpu:inline");
  const Stream stream = other.create_stream();
  stream.synchronize();  // whoever submits first owns the right to submit
  ASSERT_TRUE(stream.impl()->try_enter());
  auto waited = std::async(std::launch::async, [] { DeviceImpl::await_fast_paths(); });
  EXPECT_EQ(waited.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  stream.impl()->leave();
  EXPECT_EQ(waited.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

}  // namespace
}  // namespace slipway::internal
