// A graph whose length changes each step: captured once, replayed before its value is known.
#include <cstdint>
#include <cstdio>

#include "slipway/slipway.h"

// Stands for the work of a step that needs no new value ...
static void prepare(float* x) { x[0] += 1; }
// ... and for the one that does, such as attention over the first `length` positions.
static void attend(const float* x, float* out, std::int32_t length) { out[0] += x[0] * static_cast<float>(length); }

int main() {
  const auto device = slipway::Device::open("cpu");
  const auto stream = device.create_stream();
  const auto module = device.load_table({slipway::kernel<&prepare>("prepare"), slipway::kernel<&attend>("attend")});
  float x = 0, out = 0;

  slipway::Capture capture(stream, "step");
  const auto length = capture.parameter<std::int32_t>("length");
  stream.launch(module.kernel("prepare"), {}, &x);
  stream.launch(module.kernel("attend"), {}, &x, &out, length);
  const auto graph = capture.end().instantiate({.depth = 2});

  auto values = graph.values();
  for (std::int32_t step = 1; step <= 100; ++step) {
    values.set(length, step);
    graph.launch(stream, values);  // `prepare` runs while the value is published; `attend` waits for it
  }
  stream.synchronize();
  std::printf("%g %g, %llu replays before their values\n", static_cast<double>(x), static_cast<double>(out),
              static_cast<unsigned long long>(graph.counters().replay_first));
  return x == 100 && out == 338350 ? 0 : 1;  // the sum of the first 100 squares
}
