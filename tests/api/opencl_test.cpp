#include <cstdlib>
#include <future>
#include <memory>

#include "support.h"

namespace slipway::api_tests {
namespace {

bool is_there() {
  for (const DriverStatus& driver : list_drivers()) {
    if (driver.name == "opencl") return driver.available;
  }
  return false;
}

TEST(OpenClOpen, EnvironmentAndOptionBothMakeItBlock) {
  if (!is_there()) GTEST_SKIP() << "no OpenCL device";
  ::setenv("SLIPWAY_LAUNCH_BLOCKING", "1", 1);
  const Device device = Device::open("opencl");
  ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
  const Device plain = Device::open("opencl"), option = Device::open("opencl:blocking");
  for (const Device* d : {&device, &plain, &option}) {
    const Stream s = d->create_stream();
    s.fill(d->allocate(4).address(), 1, 4, 1);
    s.synchronize();
    EXPECT_EQ(d->counters()[Reason::kBlockingMode], d == &plain ? 0U : 1U);
  }
}

TEST(OpenClOpen, BadOptionsAreRefused) {
  if (!is_there()) GTEST_SKIP() << "no OpenCL device";
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'shared'", "svm or buffer"},
                      [] { (void)Device::open("opencl:memory=shared"); }));
  EXPECT_TRUE(
      refused(ErrorCode::kInvalidArgument, {"'workers'", "memory"}, [] { (void)Device::open("opencl:workers=2"); }));
  EXPECT_TRUE(refused(ErrorCode::kUnavailable, {}, [] { (void)Device::open("opencl:platform=255"); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'fast'", "inline, park or spin"},
                      [] { (void)Device::open("opencl:queue=fast"); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'queue_per'", "'thread'", "device or stream"},
                      [] { (void)Device::open("opencl:queue=spin,queue_per=thread"); }));
  for (const char* uri : {"opencl:queue_per=stream", "opencl:queue=inline,queue_per=device"}) {
    EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'queue_per'", "queue=park or queue=spin"},
                        [&] { (void)Device::open(uri); }));
  }
}

TEST(OpenClOpen, SourceThatDoesNotBuildIsRefusedWithItsLog) {
  if (!is_there()) GTEST_SKIP() << "no OpenCL device";
  const Device device = Device::open("opencl");
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"does not build", "undeclared_thing"},
                      [&] { (void)device.load_source("kernel void f(global int* a) { a[0] = undeclared_thing; }"); }));
  EXPECT_TRUE(refused(ErrorCode::kUnsupported, {"load_source"}, [&] { (void)load(device); }));
  EXPECT_TRUE(refused(ErrorCode::kUnsupported, {"load_source"}, [&] { (void)device.load_library("x.so"); }));
  const Module module = device.load_source("kernel void f(global int* a) { a[0] = VALUE; }", "-DVALUE=42");
  EXPECT_EQ(to_string(module.kernel("f").signature()), "inout tensor<i32>");
  const Stream s = device.create_stream();
  const Memory m = device.allocate(4);
  s.launch(module.kernel("f"), {}, m);
  int got = 0;
  s.copy_to_host(&got, m.address(), 4);
  s.synchronize();
  EXPECT_EQ(got, 42);
}

TEST(OpenClOpen, NativeHandlesAreHandedOut) {
  if (!is_there()) GTEST_SKIP() << "no OpenCL device";
  const Device device = Device::open("opencl");
  const Stream s = device.create_stream();
  EXPECT_NE(device.native_handle(), nullptr);
  EXPECT_NE(s.native_handle(), nullptr);
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"null"}, [&] { (void)device.adopt_stream(nullptr); }));
}

class OpenClQueue : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_there()) GTEST_SKIP() << "no OpenCL device";
  }
  static bool per_stream() { return std::string(GetParam()).find("queue_per=stream") != std::string::npos; }
};

// What occupies the launching thread: the end of something that a failed stream discards.
struct Blocker {
  std::promise<void>& reached;
  std::shared_future<void> go_on;
  ~Blocker() {
    reached.set_value();
    go_on.wait_for(std::chrono::seconds(20));
  }
};

TEST_P(OpenClQueue, CallersAppendAndDoNotHandOver) {
  const Device device = Device::open(GetParam());
  const Module module = device.load_source("kernel void add_one(global uint* counter) { ++counter[0]; }");
  const Stream stuck = device.create_stream(), stream = device.create_stream();
  const Memory counter = device.allocate(4);
  stream.fill(counter.address(), 0, 4, 1);
  stream.synchronize();
  std::promise<void> reached, go_on;
  {
    testing::Hold hold(device);
    hold.hold(stuck);
    stuck.host_function([] { throw std::runtime_error("on purpose"); });
    stuck.host_function([b = std::make_shared<Blocker>(reached, go_on.get_future().share())] {});
  }
  ASSERT_EQ(reached.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const std::uint64_t before = stream.completed();
  for (int i = 0; i < 1000; ++i) stream.launch(module.kernel("add_one"), {}, counter);
  if (per_stream()) {
    stream.synchronize();  // the other stream's thread is nobody's but its own
  } else {
    EXPECT_EQ(stream.completed(), before);
    EXPECT_TRUE(refused(ErrorCode::kTimeout, {}, [&] { stream.synchronize(WaitLimit(20)); }));
    EXPECT_EQ(stream.completed(), before);
  }
  go_on.set_value();
  EXPECT_THROW(stuck.synchronize(), Error);
  std::uint32_t count = 0;
  stream.copy_to_host(&count, counter.address(), 4);
  stream.synchronize();
  EXPECT_EQ(count, 1000U);
}

TEST_P(OpenClQueue, AFullRingPushesBackAndSaysSo) {
  const Device device = Device::open(std::string(GetParam()) + ",wait_limit_ms=100");
  const Stream stream = device.create_stream({.priority = 0, .ring_bytes = 16 << 10, .name = "small"});
  const Memory memory = device.allocate(4000);
  const std::vector<std::byte> bytes(4000);
  testing::Hold hold(device);
  hold.hold(stream);
  int taken = 0;
  EXPECT_TRUE(refused(ErrorCode::kTimeout, {"no room", "16384"}, [&] {
    for (; taken < 100; ++taken) stream.copy_to_device(memory.address(), bytes.data(), bytes.size());
  }));
  EXPECT_EQ(taken, 4);  // of 4,048 bytes with their headers, behind the wait for the hold
  hold.release();
  stream.synchronize(WaitLimit(20'000));
  stream.copy_to_device(memory.address(), bytes.data(), bytes.size());
  stream.synchronize(WaitLimit(20'000));
}

TEST_P(OpenClQueue, ClosingIsBoundedDiscardsAndWakesWhoWaits) {
  const Device device = Device::open(GetParam());
  const Stream stream = device.create_stream({.priority = 0, .ring_bytes = 16 << 10, .name = "small"});
  const Memory memory = device.allocate(4000);
  const std::vector<std::byte> bytes(4000);
  testing::Hold hold(device);
  hold.hold(stream);
  const auto payload = std::make_shared<int>(1);
  for (int i = 0; i < 10; ++i) stream.host_function([payload] {});
  std::atomic<bool> ended{false};
  std::thread submitter([&] {  // soon waits for room
    try {
      for (;;) stream.copy_to_device(memory.address(), bytes.data(), bytes.size());
    } catch (const Error&) {
      ended = true;
    }
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(soon([&] { return device.counters()[Reason::kRingFull] != 0; }));
  EXPECT_TRUE(refused(ErrorCode::kTimeout, {"was discarded"}, [&] { device.close(WaitLimit(20)); }));
  submitter.join();
  EXPECT_TRUE(ended);
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_P(OpenClQueue, BlockingModeFailsAtTheCallThatCausedIt) {
  const Device device = Device::open(std::string(GetParam()) + ",blocking");
  const Stream stream = device.create_stream();
  bool ran = false;
  stream.host_function([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(refused(ErrorCode::kKernelFailed, {"on purpose"},
                      [&] { stream.host_function([] { throw std::runtime_error("on purpose"); }); }));
}

TEST_P(OpenClQueue, StreamsComeAndGo) {
  const Device device = Device::open(GetParam());
  const Memory memory = device.allocate(400);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const Stream first = device.create_stream(), second = device.create_stream();
    const Event event = device.create_event();
    first.fill(offset(memory.address(), std::uint64_t{4} * i), i, 4, 1);
    first.mark(event);
    second.wait(event);
    if (i % 10 == 0) second.synchronize();
  }
  device.synchronize();
  const Stream last = device.create_stream();
  std::vector<std::uint32_t> values(100);
  last.copy_to_host(values.data(), memory.address(), 400);
  last.synchronize();
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], i);
}

INSTANTIATE_TEST_SUITE_P(Modes, OpenClQueue,
                         ::testing::Values("opencl:queue=park", "opencl:queue=spin",
                                           "opencl:queue=park,queue_per=stream", "opencl:queue=spin,queue_per=stream"),
                         device_name);

}  // namespace
}  // namespace slipway::api_tests
