// The shortest whole program against an installed Slipway: one kernel, one launch, its result.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "slipway/slipway.h"

static void scale(const float* in, float* out, float factor, std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i) out[i] = in[i] * factor;
}

int main() try {
  const slipway::Device device = slipway::Device::open("cpu");
  const slipway::Module module = device.load_table({slipway::kernel<&scale>("scale")});
  const slipway::Stream stream = device.create_stream();
  std::vector<float> in{1, 2, 3}, out(3);
  stream.launch(module.kernel("scale"), {}, in.data(), out.data(), 2.0F, 3);
  stream.synchronize();
  std::printf("slipway %s: %g %g %g\n", slipway::runtime_version_string(), out[0], out[1], out[2]);
  return out[2] == 6.0F && slipway::runtime_version() == SLIPWAY_VERSION ? 0 : 1;
} catch (const slipway::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
