#include "support.h"

namespace slipway::api_tests {
namespace {

class Library : public ::testing::Test {
 protected:
  const Device device = Device::open("cpu:workers=1");
  const Stream s = device.create_stream();
  const Module module = device.load_library(SLIPWAY_C_KERNELS);
};

TEST_F(Library, GeneratedTrampolinesCallByEveryPath) {
  std::vector<float> in{1, 2, 3}, out(3, 0);
  const Kernel scale = module.kernel("scale", parse_signature("out tensor<f32>, in tensor<f32>, i32, f32"));
  s.launch(scale, {}, out.data(), in.data(), 3, 2.0F);
  s.synchronize();
  EXPECT_EQ(out, (std::vector<float>{2, 4, 6}));
  const auto typed =
      LaunchPlan::create(scale, one_block()).typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  typed(s, Tensor<float>(host_address(out.data())), Tensor<const float>(host_address(in.data())), 2, 10.0F);
  s.synchronize();
  EXPECT_EQ(out, (std::vector<float>{10, 20, 6}));

  std::int64_t values[6] = {};
  s.launch(module.kernel("store_i64", parse_signature("tensor, i64")), {}, &values[0], INT64_MIN);
  s.launch(module.kernel("store_pair", parse_signature("tensor, i64, i64")), {}, &values[1], std::int64_t{-1},
           INT64_MAX);
  s.launch(module.kernel("nothing", {}), {});
  s.synchronize();
  EXPECT_EQ(values[0], INT64_MIN);
  EXPECT_EQ(values[1], -1);
  EXPECT_EQ(values[2], INT64_MAX);
  s.launch(module.kernel("six", parse_signature("tensor,tensor,tensor,tensor,tensor,tensor,i32,i32")), {}, &values[0],
           &values[1], &values[2], &values[3], &values[4], &values[5], -5, 6);
  s.synchronize();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], i == 4 ? -5 : i + 1);
}

TEST_F(Library, OtherSignaturesAreCalledByLibffi) {
  double out[11] = {};
  Kernel every;
  try {
    every =
        module.kernel("every_scalar", parse_signature("tensor, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    GTEST_SKIP() << error.what();
  }
  s.launch(every, {}, &out[0], -8, -16, -32, -64, 200, 60000, 4000000000U, std::uint64_t{1} << 52, 0.5F, 0.1, true);
  s.synchronize();
  const double wanted[11] = {-8, -16, -32, -64, 200, 60000, 4000000000.0, 4503599627370496.0, 0.5, 0.1, 1};
  for (int i = 0; i < 11; ++i) EXPECT_EQ(out[i], wanted[i]) << i;
  float row[3] = {};
  const auto mixed =
      LaunchPlan::create(module.kernel("mixed", parse_signature("f64, out tensor<f32>, u8")), one_block())
          .typed<double, Tensor<float>, std::uint8_t>();
  mixed(s, 1.5, Tensor<float>(host_address(row)), 2);
  s.synchronize();
  EXPECT_EQ(row[0] + row[1] + row[2], 3.0F);
}

TEST_F(Library, WhatCannotBeCalledIsRefused) {
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'scale'", "signature"}, [&] { (void)module.kernel("scale"); }));
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'no_such'", "exports no function"},
                      [&] { (void)module.kernel("no_such", {}); }));
  EXPECT_TRUE(refused(ErrorCode::kUnsupported, {"parameter 1", "f16"},
                      [&] { (void)module.kernel("scale", parse_signature("tensor, f16")); }));
  EXPECT_TRUE(refused(ErrorCode::kUnsupported, {"parameter 0", "bytes"},
                      [&] { (void)module.kernel("scale", parse_signature("bytes(8,4)")); }));
  const std::string missing = "/nonexistent/kernels.so";
  try {
    (void)device.load_library(missing);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(missing), std::string::npos) << error.what();
  }
}

TEST(ModuleLifetime, UnloadedOnceNothingRefersToIt) {
  const Device device = Device::open("cpu:workers=1");
  const Stream s = device.create_stream();
  std::int64_t value = 0;
  const auto unloaded = [&] { return device.counters().modules_unloaded; };
  Module module = device.load_library(SLIPWAY_C_KERNELS);
  Kernel kernel = module.kernel("store_i64", parse_signature("tensor, i64"));
  module = {};
  EXPECT_EQ(unloaded(), 0U) << "a kernel refers to it";
  LaunchPlan plan = LaunchPlan::create(kernel, one_block());
  kernel = {};
  EXPECT_EQ(unloaded(), 0U) << "a plan refers to it";
  auto typed = plan.typed<Tensor<std::int64_t>, std::int64_t>();
  plan = {};
  EXPECT_EQ(unloaded(), 0U) << "a typed handle refers to it";
  testing::Hold hold(device);
  hold.hold(s);
  typed(s, Tensor<std::int64_t>(host_address(&value)), 42);
  typed = {};
  EXPECT_EQ(unloaded(), 0U) << "submitted work refers to it";
  hold.release();
  s.synchronize();
  EXPECT_EQ(value, 42);
  EXPECT_TRUE(soon([&] { return unloaded() == 1; }));

  Module unused = device.load_library(SLIPWAY_C_KERNELS);
  unused = {};
  EXPECT_EQ(unloaded(), 2U) << "nothing pends, so it goes at once";
  EXPECT_EQ(device.counters().modules_loaded, 2U);
}

}  // namespace
}  // namespace slipway::api_tests
