// Your own kernel, planned once and launched many times.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "slipway/slipway.h"

// One call runs one block of a launch: here, every grid-th element.
static void add(const slipway::Block& block, const float* in, float* out, float c, std::int32_t n) {
  for (auto i = static_cast<std::int32_t>(block.index.x); i < n; i += static_cast<std::int32_t>(block.grid.x))
    out[i] = in[i] + c;
}

int main() {
  constexpr std::int32_t n = 1000;
  const auto device = slipway::Device::open("cpu");
  const auto stream = device.create_stream();
  const auto module = device.load_table({slipway::kernel<&add>("add")});
  const auto memory = device.allocate(n * sizeof(float));
  stream.copy_to_device(memory.address(), std::vector<float>(n, 1.0f).data(), memory.size_bytes());

  // Everything that does not change is said here, and checked once: the grid, and argument 3.
  slipway::PlanOptions options;
  options.shape = slipway::LaunchShape{.grid = {4}};
  options.fixed = {{3, n}};
  const auto plan = slipway::LaunchPlan::create(module.kernel("add"), options);
  const auto add_to = plan.typed<slipway::Tensor<const float>, slipway::Tensor<float>, float>();

  // A steady launch copies a few bytes into the stream and returns.
  const auto x = memory.tensor<float>();
  for (int step = 0; step < 10; ++step) add_to(stream, x, x, 0.5f);

  std::vector<float> result(n);
  stream.copy_to_host(result.data(), memory.address(), memory.size_bytes());
  stream.synchronize();
  std::printf("%g %g, %llu planned launches\n", static_cast<double>(result.front()), static_cast<double>(result.back()),
              static_cast<unsigned long long>(device.counters().planned_launches));
}
