// Random numbers in OpenCL C are those on the host.
#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

// The OpenCL C text draws the same words.
constexpr const char* kClKernel = R"(
__kernel void words(__global uint* out, int n, ulong seed, ulong offset) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  const uint4 w = slipway_random_words(seed, offset + i);
  out[4 * i] = w.x; out[4 * i + 1] = w.y; out[4 * i + 2] = w.z; out[4 * i + 3] = w.w;
}
)";

TEST(RandomOpenCl, DrawsTheSame) {
  Device device;
  try {
    device = Device::open("opencl");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const Stream stream = device.create_stream();
  std::string source(kRandomOpenClSource);
  source += kClKernel;
  const Kernel words = device.load_source(source).kernel("words");
  const Generator generator(0xFEDCBA98'76543210);
  generator.set_state({0xFEDCBA98'76543210, 0xFFFFFFFE});
  constexpr std::int32_t kCount = 8;
  const Memory out = device.allocate(16 * kCount);
  Capture capture(stream, "opencl");
  const RandomDraw taken = generator.take(stream, kCount);
  stream.launch(words, {.grid = {kCount}}, out, kCount, taken.seed, taken.offset);
  const ExecutableGraph graph = capture.end().instantiate();
  for (std::uint64_t step = 0; step < 3; ++step) {
    graph.launch(stream);
    std::vector<RandomWords> seen(kCount);
    stream.copy_to_host(seen.data(), out.address(), 16 * kCount);
    stream.synchronize();
    for (std::uint64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(seen[i], random_words(0xFEDCBA98'76543210, 0xFFFFFFFE + step * kCount + i));
    }
  }
}

}  // namespace
}  // namespace slipway::graph_tests
