// Public reports of arguments that arrived wrong, by number: on every way to launch, on cpu and on every layout that
// the null device packs.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <optional>

#include "property/rig.h"

namespace slipway::reports {
namespace {

using property::Rig;
using property::RigOptions;
using property::Value;
using property::Values;

template <class T>
Value value_of(const T& value, ArgKind kind) {
  Value v{{.kind = kind}, std::vector<std::byte>(sizeof(T))};
  std::memcpy(v.bytes.data(), &value, sizeof(T));
  return v;
}
Value tensor(std::uint64_t address) { return value_of(address, ArgKind::kTensor); }
Value u64(std::uint64_t value) { return value_of(value, ArgKind::kU64); }
Value i64(std::int64_t value) { return value_of(value, ArgKind::kI64); }
Value i32(std::int32_t value) { return value_of(value, ArgKind::kI32); }
Value f32(float value) { return value_of(value, ArgKind::kF32); }
Value f16(std::uint16_t bits) { return value_of(bits, ArgKind::kF16); }
Value bf16(std::uint16_t bits) { return value_of(bits, ArgKind::kBF16); }

constexpr std::uint64_t kOut = std::uint64_t{1} << 44;

class Report : public ::testing::TestWithParam<RigOptions> {
 protected:
  Report() : rig(GetParam()) {}

  // Launches the same arguments in every way that takes no graph's parameter.
  void expect_on_every_way(const char* signature, const std::vector<Argument>& arguments, const Values& wanted) {
    const Signature s = parse_signature(signature);
    const Kernel kernel = rig.load("k", s);
    const std::string text = std::string("(") + signature + ")";
    rig.expect(wanted);
    rig.stream.launch_arguments(kernel, {}, arguments);
    rig.expect_launched(wanted, {1, 1, 1}, text + ", slow path");
    const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{}});
    plan.launch_arguments(rig.stream, std::nullopt, arguments);
    rig.expect_launched(wanted, {1, 1, 1}, text + ", planned");
    const LaunchPlan own_grid = LaunchPlan::create(kernel, {});
    own_grid.launch_arguments(rig.stream, Extent{2, 3, 4}, arguments);
    rig.expect_launched(wanted, {2, 3, 4}, text + ", planned with a grid of the call");

    PlanOptions options{.shape = LaunchShape{}};
    std::vector<Argument> tensors;
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (s[i].kind == ArgKind::kTensor) tensors.push_back(arguments[i]);
      else options.fixed.emplace_back(i, arguments[i]);
    }
    LaunchPlan::create(kernel, options).launch_arguments(rig.stream, std::nullopt, tensors);
    rig.expect_launched(wanted, {1, 1, 1}, text + ", fixed in the plan");

    Capture capture(rig.stream);
    rig.stream.launch_arguments(kernel, {}, arguments);
    plan.launch_arguments(rig.stream, std::nullopt, arguments);
    const ExecutableGraph graph = capture.end().instantiate();
    for (int replay = 0; replay < 2; ++replay) {
      graph.launch(rig.stream);
      const auto launched = rig.take();
      ASSERT_EQ(launched.size(), 2U) << text;
      rig.expect_arrived(launched[0], wanted, {1, 1, 1}, text + ", graph node");
      rig.expect_arrived(launched[1], wanted, {1, 1, 1}, text + ", graph node of a plan");
    }
  }

  // Refused before anything is submitted, and the sentence has all of the words.
  void expect_refused(const std::vector<std::string>& words, const std::function<void()>& call) {
    const std::uint64_t before = rig.stream.submitted();
    try {
      call();
      ADD_FAILURE() << "was accepted, and '" << words.front() << "' was expected";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_FALSE(error.submitted()) << error.what();
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_EQ(rig.stream.submitted(), before);
    EXPECT_TRUE(rig.take().empty());
  }
  void expect_refused_on_every_way(const char* signature, const std::vector<Argument>& arguments,
                                   const std::vector<std::string>& words) {
    const Kernel kernel = rig.load("k", parse_signature(signature));
    const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{}});
    const LaunchPlan own_grid = LaunchPlan::create(kernel, {});
    expect_refused(words, [&] { rig.stream.launch_arguments(kernel, {}, arguments); });
    expect_refused(words, [&] { plan.launch_arguments(rig.stream, std::nullopt, arguments); });
    expect_refused(words, [&] { own_grid.launch_arguments(rig.stream, Extent{}, arguments); });
    expect_refused(words, [&] {
      Capture capture(rig.stream);
      rig.stream.launch_arguments(kernel, {}, arguments);
    });
  }

  Rig rig;
};

// --- B01: 16-bit floats were packed as 32-bit ones ---

TEST_P(Report, B01_SixteenBitFloatsKeepTheirWidth) {
  expect_on_every_way("tensor, f16", {DevicePtr{kOut}, 1.5}, {tensor(kOut), f16(0x3E00)});
  expect_on_every_way("tensor, f16", {DevicePtr{kOut}, 42.0F}, {tensor(kOut), f16(0x5140)});
  expect_on_every_way("tensor, f16", {DevicePtr{kOut}, Half{0x5140}}, {tensor(kOut), f16(0x5140)});
  expect_on_every_way("tensor, bf16", {DevicePtr{kOut}, 1.5}, {tensor(kOut), bf16(0x3FC0)});
  // To nearest even; truncating would give 0x3DCC.
  expect_on_every_way("bf16", {0.1}, {bf16(0x3DCD)});
  expect_on_every_way("f16, f16, bf16", {1.5, 42.0, 0.1}, {f16(0x3E00), f16(0x5140), bf16(0x3DCD)});
}

TEST_P(Report, B01_SixValuesArriveUnchanged) {
  const Values wanted{i32(7), f16(0x3E00), f32(2.5F), i64(std::int64_t{1} << 40), tensor(kOut), bf16(0x3FC0)};
  const char* signature = "i32, f16, f32, i64, tensor, bf16";
  expect_on_every_way(signature, {7, 1.5, 2.5, std::int64_t{1} << 40, DevicePtr{kOut}, 1.5}, wanted);

  const Kernel kernel = rig.load("k", parse_signature(signature));
  const auto typed = LaunchPlan::create(kernel, {.shape = LaunchShape{}})
                         .typed<std::int32_t, Half, float, std::int64_t, Tensor<float>, BFloat16>();
  typed(rig.stream, 7, Half::from(1.5), 2.5F, std::int64_t{1} << 40, Tensor<float>{DevicePtr{kOut}},
        BFloat16::from(1.5));
  rig.expect_launched(wanted, {1, 1, 1}, "typed");
}

TEST_P(Report, B01_ValuesOfAGraphKeepTheirWidth) {
  const Kernel kernel = rig.load("k", parse_signature("i32, f16, f32, i64, bf16, f16"));
  Capture capture(rig.stream);
  const auto a = capture.parameter<Half>("a", Half::from(1.5));
  const auto b = capture.parameter<BFloat16>("b", BFloat16::from(0.1));
  rig.stream.launch(kernel, {}, 7, a, 2.5F, std::int64_t{1} << 40, b, 42.0);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  Values wanted{i32(7), f16(0x3E00), f32(2.5F), i64(std::int64_t{1} << 40), bf16(0x3DCD), f16(0x5140)};
  rig.expect(wanted);
  graph.launch(rig.stream, values);
  rig.expect_launched(wanted, {1, 1, 1}, "initial values");
  values.set(a, Half::from(42.0));
  values.set(b, BFloat16::from(1.5));
  wanted[1] = f16(0x5140);
  wanted[4] = bf16(0x3FC0);
  graph.launch(rig.stream, values);
  rig.expect_launched(wanted, {1, 1, 1}, "a step's values");
}

TEST_P(Report, B01_UnknownKindsAreRefused) {
  Signature signature = parse_signature("tensor, i32");
  signature[1].kind = static_cast<ArgKind>(77);
  expect_refused({"parameter 1", "unknown kind 77"}, [&] { (void)rig.load("k", signature); });
}

// --- B03: two launches of one kernel shared its arguments ---

TEST_P(Report, B03_NodesOfOneKernelKeepTheirArguments) {
  const Kernel add = rig.load("add", parse_signature("tensor, tensor, i32, f32"));
  const std::uint64_t in = kOut + 256, a = kOut + 512, b = kOut + 768;
  Capture capture(rig.stream);
  const auto c = capture.parameter<float>("c", 1.0F);
  rig.stream.launch(add, {}, DevicePtr{a}, DevicePtr{in}, 4, c);
  rig.stream.launch(add, {}, DevicePtr{b}, DevicePtr{in}, 4, 2.0F);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  rig.expect({tensor(a), tensor(in), i32(4), f32(0)});
  for (const float now : {1.0F, 5.0F}) {
    values.set(c, now);
    graph.launch(rig.stream, values);
    const auto launched = rig.take();
    ASSERT_EQ(launched.size(), 2U);
    rig.expect_arrived(launched[0], {tensor(a), tensor(in), i32(4), f32(now)}, {1, 1, 1}, "the first node");
    rig.expect_arrived(launched[1], {tensor(b), tensor(in), i32(4), f32(2)}, {1, 1, 1}, "the second node");
  }
}

// All are submitted before any of them runs.
TEST_P(Report, B03_LaunchesThatWaitTogetherKeepTheirArguments) {
  const Kernel add = rig.load("add", parse_signature("tensor, f32"));
  const LaunchPlan plan = LaunchPlan::create(add, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<float>, float>();
  rig.expect({tensor(0), f32(0)});
  {
    testing::Hold hold(rig.device);
    // Where each launch waits for its work there is nothing to hold; the launches are the same.
    if (std::string(GetParam().uri).find("blocking") == std::string::npos) hold.hold(rig.stream);
    rig.stream.launch(add, {}, DevicePtr{kOut}, 1.0F);
    rig.stream.launch(add, {}, DevicePtr{kOut + 64}, 2.0F);
    plan.launch(rig.stream, DevicePtr{kOut + 128}, 3.0F);
    plan.launch(rig.stream, DevicePtr{kOut + 192}, 4.0F);
    typed(rig.stream, Tensor<float>{DevicePtr{kOut + 256}}, 5.0F);
  }
  const auto launched = rig.take();
  ASSERT_EQ(launched.size(), 5U);
  for (std::size_t i = 0; i < launched.size(); ++i) {
    rig.expect_arrived(launched[i], {tensor(kOut + 64 * i), f32(static_cast<float>(i + 1))}, {1, 1, 1},
                       "launch " + std::to_string(i));
  }
}

TEST_P(Report, B03_ConstantsAreThoseOfTheirOwnNode) {
  const Kernel k = rig.load("k", parse_signature("i32, bytes(8,4)"));
  const auto pair = [](const std::array<std::int32_t, 2>& values) { return Argument::bytes(values.data(), 8, 4); };
  Capture capture(rig.stream);
  std::int32_t c = 3;
  std::array<std::int32_t, 2> both{3, 30};
  rig.stream.launch(k, {}, c, pair(both));
  LaunchPlan::create(k, {.shape = LaunchShape{}, .fixed = {{1, pair(both)}}}).launch(rig.stream, c);
  c = 4;
  both = {4, 40};
  rig.stream.launch(k, {}, c, pair(both));
  const ExecutableGraph graph = capture.end().instantiate();
  both = {5, 50};
  const auto wanted = [](std::int32_t value) {
    Value bytes = value_of(std::array<std::int32_t, 2>{value, value * 10}, ArgKind::kBytes);
    bytes.parameter.size_bytes = 8;
    bytes.parameter.align_bytes = 4;
    return Values{i32(value), bytes};
  };
  rig.expect(wanted(3));
  for (int replay = 0; replay < 2; ++replay) {
    graph.launch(rig.stream);
    const auto launched = rig.take();
    ASSERT_EQ(launched.size(), 3U);
    rig.expect_arrived(launched[0], wanted(3), {1, 1, 1}, "the first node");
    rig.expect_arrived(launched[1], wanted(3), {1, 1, 1}, "the second node");
    rig.expect_arrived(launched[2], wanted(4), {1, 1, 1}, "the third node");
  }
}

// --- B05: 32-bit slots for values that outgrew them ---

TEST_P(Report, B05_WhatOutgrowsItsSlotIsRefusedByName) {
  expect_on_every_way("tensor, i32", {DevicePtr{kOut}, std::int64_t{2147483647}}, {tensor(kOut), i32(2147483647)});
  expect_refused_on_every_way("tensor, i32", {DevicePtr{kOut}, std::int64_t{2147483648}},
                              {"argument 1", "'k'", "2147483648", "i32"});
  expect_refused_on_every_way("u64", {18446744073709551616.0}, {"argument 0", "a float", "u64"});  // 2^64
  expect_refused_on_every_way("u64", {-1}, {"argument 0", "-1", "u64"});                           // a negative handle
}

TEST_P(Report, B05_WiderValuesGoToAWiderKernel) {
  const Kernel narrow = rig.load("narrow", parse_signature("i64 range=-2147483648..2147483647"));
  const Kernel wide = rig.load("wide", parse_signature("i64"));
  const LaunchPlan plan = LaunchPlan::create(narrow, {.shape = LaunchShape{}, .fallback = wide});
  const auto typed = plan.typed<std::int64_t>();
  rig.expect({i64(0)});
  std::uint64_t misses = 0;
  for (const std::int64_t n : {std::int64_t{2147483647}, std::int64_t{2147483648}, std::int64_t{-2147483649}}) {
    const bool fits = n == 2147483647;
    for (const bool by_type : {false, true}) {
      if (by_type) typed(rig.stream, n);
      else plan.launch(rig.stream, n);
      const auto launched = rig.take();
      ASSERT_EQ(launched.size(), 1U);
      rig.expect_arrived(launched[0], {i64(n)}, {1, 1, 1}, std::to_string(n));
      if (!rig.on_cpu()) {
        EXPECT_EQ(launched[0].name, fits ? "narrow" : "wide");
      }
      misses += fits ? 0 : 1;
      EXPECT_EQ(rig.device.counters()[Reason::kGuardRange], misses);
    }
  }
}

TEST_P(Report, B05_WideIntegersArriveWhole) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  expect_on_every_way("i64, u64", {-1, kMost}, {i64(-1), u64(kMost)});
  expect_on_every_way("i32, i64", {5, std::numeric_limits<std::int64_t>::min()},
                      {i32(5), i64(std::numeric_limits<std::int64_t>::min())});
}

TEST_P(Report, B05_HandlesArriveBitForBit) {
  const Kernel kernel = rig.load("k", parse_signature("bool, u64, tensor"));
  for (const std::uint64_t handle : {0x8000000000000000U, 0xFFFFFFFFFFFFF000U}) {
    const Values wanted{value_of(true, ArgKind::kBool), u64(handle), tensor(handle)};
    expect_on_every_way("bool, u64, tensor", {true, handle, DevicePtr{handle}}, wanted);
    Capture capture(rig.stream);
    const auto parameter = capture.parameter<std::uint64_t>("handle", handle);
    rig.stream.launch(kernel, {}, true, parameter, DevicePtr{handle});
    const ExecutableGraph graph = capture.end().instantiate();
    StepValues values = graph.values();
    graph.launch(rig.stream, values);
    rig.expect_launched(wanted, {1, 1, 1}, "initial value of a graph");
    values.set(parameter, ~handle);
    graph.launch(rig.stream, values);
    rig.expect_launched({wanted[0], u64(~handle), wanted[2]}, {1, 1, 1}, "a step's value");
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Report, ::testing::ValuesIn(property::kRigs));

}  // namespace
}  // namespace slipway::reports
