// A loop that turns on the device, for as long as a value there says so.
#include <cstdio>

#include "slipway/slipway.h"

static void twice(float* x, bool* goes_on) {
  x[0] *= 2;
  goes_on[0] = x[0] < 1000;
}

int main() {
  float x = 3;
  bool goes_on = true;
  const auto device = slipway::Device::open("cpu");
  const auto stream = device.create_stream();
  const auto kernel = device.load_table({slipway::kernel<&twice>("twice")}).kernel("twice");
  slipway::Capture capture(stream, "until large");
  capture.while_node(stream, &goes_on, [&](const slipway::Stream& s) { s.launch(kernel, {}, &x, &goes_on); });
  capture.end().instantiate().launch(stream);
  stream.synchronize();
  std::printf("%g\n", static_cast<double>(x));
}
