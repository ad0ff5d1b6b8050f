// A large graph on OpenCL: when its first kernel has run, and all of them. Handing over should hide behind running.
#include <algorithm>
#include <cstdio>

#include "replay_opencl.h"
#include "slipway/slipway.h"

namespace bench {
namespace {

constexpr int kNodes = 8192;
constexpr int kSpins[] = {0, 2000};  // iterations of a kernel: nothing, and longer than handing one over takes

constexpr const char* kSource =
    "kernel void work(global uint* count, global const float* x, global const float* y, int a, int b, int spins) {"
    "  uint sum = 0; for (int i = 0; i < spins; ++i) sum = sum * 3 + (uint)(a + b);"
    "  count[0] += 1; count[1] += sum; }";

}  // namespace

void measure_large_graph(Report& report, bool quick) {
  const StartsOn side(Sides::kBoth);  // the implementation's threads
  slipway::Device device;
  try {
    device = slipway::Device::open("opencl");
  } catch (const slipway::Error& error) {
    report.skipped.push_back(std::string("a large graph on OpenCL: ") + error.what());
    return;
  }
  const slipway::Stream stream = device.create_stream();
  const slipway::Kernel kernel = device.load_source(kSource).kernel("work");
  const slipway::Memory memory = device.allocate(4096);
  for (const int spins : kSpins) {
    slipway::Capture capture(stream, "large");
    for (int i = 0; i < kNodes; ++i) stream.launch(kernel, {}, memory, memory, memory, i, 1, spins);
    const slipway::ExecutableGraph graph = capture.end().instantiate();
    std::vector<double> first, handed_over, all;
    for (int round = 0; round < (quick ? 1 : 9); ++round) {
      stream.fill(memory.address(), 0, 4, 2);
      stream.synchronize();
      const bool traced = round % 2 == 1;  // only a timeline knows when the first has run
      if (traced) device.start_timeline();
      const std::int64_t start = now_ns();
      graph.launch(stream);
      const std::int64_t returned = now_ns();
      stream.synchronize();
      const std::int64_t end = now_ns();
      std::uint32_t count = 0;
      if (traced) {
        std::int64_t earliest = end;
        for (const slipway::TimelineEntry& entry : device.stop_timeline()) {
          if (entry.kind == slipway::TimelineEntry::Kind::kNode) earliest = std::min(earliest, entry.ended_ns);
        }
        first.push_back(static_cast<double>(earliest - start) / 1000);
      } else {
        handed_over.push_back(static_cast<double>(returned - start) / 1000);
        all.push_back(static_cast<double>(end - start) / 1000);
      }
      stream.copy_to_host(&count, memory.address(), sizeof count);
      stream.synchronize();
      prove(count == kNodes, "kernels of a large graph");
    }
    const std::string name = "opencl, 8,192 nodes of " + std::to_string(spins) + " spins";
    std::printf(
        "\n%s: the first kernel had run after %.0f us, the launch returned after %.0f us, all had run after %.0f us\n",
        name.c_str(), first.empty() ? 0.0 : median(first), median(handed_over), median(all));
    if (!first.empty()) report.figures.push_back({name, "first kernel has run", "us", median(first)});
    report.figures.push_back({name, "launch returned", "us", median(handed_over)});
    report.figures.push_back({name, "all have run", "us", median(all)});
  }
}

}  // namespace bench
