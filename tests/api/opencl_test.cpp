#include <cstdlib>

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

}  // namespace
}  // namespace slipway::api_tests
