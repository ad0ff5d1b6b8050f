// Kernels and plans that the gate and its allocation test submit: what a decoder's launch looks like, three tensors
// that the kernel was specialised for by alignment and three scalars.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace gate {

inline constexpr std::string_view kSignature =
    "in tensor<f32> align=16, in tensor<f32> align=16, out tensor<f32> align=16, i32, f32, i32";

inline std::uint64_t g_runs = 0;  // written by the one thread that runs kernels, read when it is idle

inline void six(const float*, const float*, float*, std::int32_t n, float, std::int32_t) {
  g_runs += static_cast<std::uint64_t>(n);
}

using Typed = slipway::TypedLaunch<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>,
                                   std::int32_t, float, std::int32_t>;

// One device with one stream, and everything that is launched on it.
struct Workload {
  explicit Workload(const char* uri, std::uint32_t ring_bytes = 1U << 20)
      : device(slipway::Device::open(uri)),
        stream(device.create_stream({.priority = 0, .ring_bytes = ring_bytes, .name = {}})),
        module(device.load_table({slipway::kernel<&six>("six")})),
        kernel(module.kernel("six", slipway::parse_signature(kSignature))),
        memory(device.allocate(4096)),
        a(memory.tensor<const float>(0)),
        b(memory.tensor<const float>(64)),
        c(memory.tensor<float>(128)) {
    slipway::PlanOptions options;
    options.shape = slipway::LaunchShape{};
    plan = slipway::LaunchPlan::create(kernel, options);
    typed = plan.typed<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>, std::int32_t,
                       float, std::int32_t>();
    site = slipway::CallSite::create(kernel, options)
               .typed<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>, std::int32_t,
                      float, std::int32_t>();
    options.shape.reset();
    options.grid = slipway::GridRule::expression("cdiv(n, 128)", {"a", "b", "c", "n", "factor", "width"});
    typed_expression = slipway::LaunchPlan::create(kernel, options)
                           .typed<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>,
                                  std::int32_t, float, std::int32_t>();
    options.grid = slipway::GridRule::function([](const slipway::GridArguments& arguments) {
      return slipway::Extent{(arguments[3] + 127) / 128, 1, 1};
    });
    typed_function = slipway::LaunchPlan::create(kernel, options)
                         .typed<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>,
                                std::int32_t, float, std::int32_t>();
    options.grid.reset();
    typed_grid = slipway::LaunchPlan::create(kernel, options)
                     .typed_grid<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>,
                                 std::int32_t, float, std::int32_t>();
  }

  // Holds the stream, and returns when its worker has found that out and sleeps.
  void hold(slipway::testing::Hold& by) const {
    by.hold(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }

  void launch_typed() const { typed(stream, a, b, c, one, factor, width); }
  void launch_site() const { site(stream, a, b, c, one, factor, width); }
  void launch_grid() const { typed_grid(stream, slipway::Extent{}, a, b, c, one, factor, width); }
  void launch_expression() const { typed_expression(stream, a, b, c, one, factor, width); }
  void launch_function() const { typed_function(stream, a, b, c, one, factor, width); }
  void launch_planned() const { plan.launch(stream, a, b, c, one, factor, width); }
  void launch_general() const { stream.launch(kernel, slipway::LaunchShape{}, a, b, c, one, factor, width); }

  slipway::Device device;
  slipway::Stream stream;
  slipway::Module module;
  slipway::Kernel kernel;
  slipway::Memory memory;
  slipway::Tensor<const float> a, b;
  slipway::Tensor<float> c;
  std::int32_t one = 1, width = 3;  // members, so that a call loads them as a program would
  float factor = 0.5F;
  slipway::LaunchPlan plan;
  Typed typed, typed_expression, typed_function;  // the latter two compute their grid
  slipway::TypedSite<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>, std::int32_t,
                     float, std::int32_t>
      site;
  slipway::TypedGridLaunch<slipway::Tensor<const float>, slipway::Tensor<const float>, slipway::Tensor<float>,
                           std::int32_t, float, std::int32_t>
      typed_grid;
};

}  // namespace gate
