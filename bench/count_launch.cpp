// Counts the instructions of one launch on the submitting thread, under callgrind:
//
//   valgrind --tool=callgrind --separate-threads=yes --collect-atstart=no count_launch [LAUNCHES]
//
// Each row is one dump, labelled "ROW LAUNCHES"; tests/gate/count.py runs this and reads the dumps. The kernel takes
// three f32 tensors with guards of 16 bytes and three scalars. Except in the in-line rows the stream is held and its
// ring has room, so that nothing but the submission happens. Without valgrind it only checks that the work is done.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#if __has_include(<valgrind/callgrind.h>)
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(label) static_cast<void>(label)
#endif

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace {

using slipway::Tensor;

std::uint64_t g_calls = 0;  // written by whoever runs the kernel, read after synchronize

void six(const float*, const float*, float*, std::int32_t, std::int32_t, float) { ++g_calls; }

constexpr const char* kSignature =
    "in tensor<f32> align=16, in tensor<f32> align=16, tensor<f32> align=16, i32, i32, f32";

// Runs `step` `count` times with nothing else counted, and dumps what it cost.
template <class Step>
[[gnu::noinline]] void measure(const char* row, int count, Step&& step) {
  for (int i = 0; i < 8; ++i) step();  // symbols are bound, the stream has its owner
  char label[64];
  std::snprintf(label, sizeof label, "%s %d", row, count);
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (int i = 0; i < count; ++i) {
    step();
    __asm__ __volatile__("" ::: "memory");
  }
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(label);
}

struct Bench {
  explicit Bench(const char* uri) : device(slipway::Device::open(uri)) {
    module = device.load_table({slipway::kernel<&six>("six")});
    kernel = module.kernel("six", slipway::parse_signature(kSignature));
    stream = device.create_stream({.ring_bytes = 64 << 20});
    slipway::PlanOptions options;
    options.shape.emplace();
    plan = slipway::LaunchPlan::create(kernel, options);
    typed = plan.typed<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t, std::int32_t, float>();
    typed(stream, in, in, out, 0, 0, 0.0F);
    stream.synchronize();
  }

  void general(int count, const char* row) {
    measure(row, count, [&] { stream.launch(kernel, slipway::LaunchShape{}, in, in, out, 3, 4, 0.5F); });
  }
  void untyped(int count, const char* row) {
    measure(row, count, [&] { plan.launch(stream, in, in, out, 3, 4, 0.5F); });
  }
  void launch_typed(int count, const char* row) {
    measure(row, count, [&] { typed(stream, in, in, out, 3, 4, 0.5F); });
  }

  alignas(64) float storage[32]{};
  Tensor<const float> in{slipway::host_address(storage)};
  Tensor<float> out{slipway::host_address(storage + 16)};
  slipway::Device device;
  slipway::Module module;
  slipway::Kernel kernel;
  slipway::Stream stream;
  slipway::LaunchPlan plan;
  slipway::TypedLaunch<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t, std::int32_t, float> typed;
};

bool drained(Bench& bench) {
  bench.stream.synchronize();
  return bench.stream.idle() && bench.stream.submitted() == bench.stream.completed();
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (count < 1) return std::fputs("count_launch: the number of launches must be positive\n", stderr), 2;
  measure("empty", count, [] {});

  Bench held("cpu:workers=1,spin_us=0");
  std::uint64_t before = g_calls;
  {
    slipway::testing::Hold hold(held.device);
    hold.hold(held.stream);
    // The worker finds the hold and blocks the stream on it; then nothing is left for it to do.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.launch_typed(count, "typed");
    held.untyped(count, "untyped");
    held.general(count, "general");
    // A second thread submits once: the stream takes its lock from now on.
    std::thread([&] { held.typed(held.stream, held.in, held.in, held.out, 0, 0, 0.0F); }).join();
    held.launch_typed(count, "typed_shared");
  }
  const auto expected = static_cast<std::uint64_t>(count + 8);
  bool ok = drained(held) && g_calls - before == 4 * expected + 1;

  Bench here("cpu:inline");
  before = g_calls;
  here.launch_typed(count, "inline_typed");
  here.general(count, "inline_general");
  ok = drained(here) && g_calls - before == 2 * expected && ok;
  std::puts(ok ? "count_launch: all kernels ran" : "count_launch: some kernels did not run");
  return ok ? 0 : 1;
}
