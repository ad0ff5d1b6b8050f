// Two variants of a kernel, one place that launches it: the first call finds out which is faster.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "slipway/slipway.h"

static void scale_forward(float* x, float by, std::int32_t n) {
  for (std::int32_t i = 0; i < n; ++i) x[i] *= by;
}
static void scale_in_strides(float* x, float by, std::int32_t n) {
  for (std::int32_t first = 0; first < 1024; ++first) {
    for (std::int32_t i = first; i < n; i += 1024) x[i] *= by;
  }
}

int main() {
  constexpr std::int32_t n = 1 << 20;
  const auto device = slipway::Device::open("cpu");
  const auto stream = device.create_stream();
  const auto module =
      device.load_table({slipway::kernel<&scale_in_strides>("in strides"), slipway::kernel<&scale_forward>("forward")});
  const auto x = device.allocate(n * sizeof(float));
  stream.copy_to_device(x.address(), std::vector<float>(n, 1024.0f).data(), x.size_bytes());

  slipway::PlanOptions plan;
  plan.shape = slipway::LaunchShape{};
  plan.fixed = {{2, n}};
  const auto selector = slipway::KernelSelector::create(
      "scale", {{module.kernel("in strides"), plan}, {module.kernel("forward"), plan}}, slipway::tune());
  const auto site = slipway::CallSite::create(selector);
  const auto scale = site.typed<slipway::Tensor<float>, float>();

  // Trials run on copies: x is halved ten times, whatever was tried.
  for (int step = 0; step < 10; ++step) scale(stream, x.tensor<float>(), 0.5f);

  float result = 0;
  stream.copy_to_host(&result, x.address(), sizeof result);
  stream.synchronize();
  std::printf("%g by '%s'\n%s\n", static_cast<double>(result), site.report().kernel.c_str(), site.explain().c_str());
  return result == 1 ? 0 : 1;
}
