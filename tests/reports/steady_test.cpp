// B40: what should be steady silently is not.
#include <atomic>
#include <string>

#include "report.h"

namespace slipway::reports {
namespace {

constexpr int kCalls = 1000;

void check_no_reasons(const Counters& before, const Counters& after) {
  for (std::size_t i = 0; i < kReasonCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    check_equal(after[reason] - before[reason], 0U, std::string("reasons ") + name_of(reason));
  }
}

// A thousand calls after three: each takes the fast path, is one submission, and waits for nothing. The values lie at
// the very ends of what the kernel was specialised for.
SLIPWAY_REPORT(B40_a_thousand_calls_stay_on_the_fast_path, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory in = device.allocate(4096), out = device.allocate(4096);
  const Kernel special =
      module.kernel("add", parse_signature("out tensor<f32> align=4, in tensor<f32> align=4, i32 range=-4..4, f32"));
  const Kernel plain = find_kernel(module, "add");
  const LaunchPlan plan = LaunchPlan::create(special, {.shape = LaunchShape{}, .fallback = plain});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const auto typed_grid = LaunchPlan::create(special, {.fallback = plain})
                              .typed_grid<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const auto fixed = LaunchPlan::create(special, {.shape = LaunchShape{}, .fixed = {{3, 1.0F}}, .fallback = plain})
                         .typed<Tensor<float>, Tensor<const float>, std::int32_t>();
  const Tensor<float> to = out.tensor<float>();
  const Tensor<const float> from = in.tensor<const float>();
  const std::function<void(int)> ways[] = {[&](int i) { typed(stream, to, from, i % 2 == 0 ? 4 : -4, 1.0F); },
                                           [&](int i) { typed_grid(stream, {}, to, from, i % 2 == 0 ? 4 : -4, 1.0F); },
                                           [&](int i) { fixed(stream, to, from, i % 2 == 0 ? 4 : -4); },
                                           [&](int i) { plan.launch(stream, to, from, i % 2 == 0 ? 4 : -4, 1.0F); }};
  std::atomic<int> waits{0};
  device.set_blocking_hooks([&] { ++waits; }, [] {});
  for (const auto& launch : ways) {
    for (int i = 0; i < 3; ++i) launch(i);
    stream.synchronize(kLimit);
    const Counters before = device.counters();
    const std::uint64_t submitted = stream.submitted();
    waits = 0;
    for (int i = 0; i < kCalls; ++i) launch(i);
    check_equal(waits.load(), 0, "waits of the host");
    check_equal(stream.submitted() - submitted, std::uint64_t{kCalls}, "submissions");
    const Counters after = device.counters();
    check_equal(after.planned_launches - before.planned_launches, std::uint64_t{kCalls}, "planned launches");
    check_equal(after.general_launches - before.general_launches, 0U, "general launches");
    check_equal(after.modules_loaded - before.modules_loaded, 0U, "modules loaded");
    check_no_reasons(before, after);
    stream.synchronize(kLimit);
  }
}

// A graph likewise: one submission a step, values or not, and nothing is captured or made again.
SLIPWAY_REPORT(B40_a_thousand_steps_are_a_thousand_submissions, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  Capture capture(stream);
  const auto value = capture.parameter<std::int32_t>("value", 1);
  for (int i = 0; i < 10; ++i) stream.launch(find_kernel(module, "put_i32"), {}, out, value);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (int i = 0; i < 3; ++i) graph.launch(stream, values);
  stream.synchronize(kLimit);
  const Counters before = device.counters();
  const std::uint64_t submitted = stream.submitted();
  for (int i = 0; i < kCalls; ++i) {
    if (i % 2 == 0) values.set(value, i);
    graph.launch(stream, values);
  }
  check_equal(stream.submitted() - submitted, std::uint64_t{kCalls}, "submissions");
  stream.synchronize(kLimit);
  const Counters after = device.counters();
  check_equal(after.general_launches + after.planned_launches, before.general_launches + before.planned_launches,
              "launches outside the graph");
  check_equal(after.live_memory_bytes, before.live_memory_bytes, "bytes allocated");
  check_equal(after.staged_bytes, before.staged_bytes, "bytes staged");
  check_no_reasons(before, after);
  const GraphCounters counters = graph.counters();
  check_equal(counters.launches, std::uint64_t{kCalls + 3}, "steps launched");
  check_equal(counters.published, std::uint64_t{kCalls + 3}, "steps published");
  check_equal(counters.cancelled, std::uint64_t{0}, "steps cancelled");
  if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), kCalls - 2, "the last value");
}

// Every way off the fast path has a name of its own and is counted each time.
SLIPWAY_REPORT(B40_each_detour_is_named_and_counted, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory in = device.allocate(4096), out = device.allocate(4096);
  const std::uint32_t step = std::max(4U, device.info().tensor_alignment);
  const Kernel special = module.kernel(
      "add",
      parse_signature("out tensor<f32>, in tensor<f32> align=" + std::to_string(2 * step) + ", i32 range=0..4, f32"));
  const LaunchPlan plan = LaunchPlan::create(
      special, {.shape = LaunchShape{}, .fallback = module.kernel("add", parse_signature("tensor, tensor, i32, f32"))});
  const auto counted = [&](Reason reason, std::uint64_t wanted, const std::function<void()>& call) {
    const Counters before = device.counters();
    for (int i = 0; i < 10; ++i) call();
    const Counters after = device.counters();
    for (std::size_t i = 0; i < kReasonCount; ++i) {
      const auto r = static_cast<Reason>(i);
      check_equal(after[r] - before[r], r == reason ? wanted : 0U, std::string("reasons ") + name_of(r));
    }
    stream.synchronize(kLimit);
  };
  plan.launch(stream, out, in, 4, 1.0F);
  counted(Reason::kGuardAlignment, 10, [&] { plan.launch(stream, out, in.tensor<float>(step / 4), 4, 1.0F); });
  counted(Reason::kGuardRange, 10, [&] { plan.launch(stream, out, in, 5, 1.0F); });
  counted(Reason::kGuardDtype, 10, [&] { plan.launch(stream, out, TensorArg{in.address(), DType::kI32}, 4, 1.0F); });
  counted(Reason::kCount, 0, [&] { plan.launch(stream, out, in, 4, 1.0F); });
  device.start_timeline(1000);
  counted(Reason::kTimeline, 10, [&] { plan.launch(stream, out, in, 4, 1.0F); });
  (void)device.stop_timeline();
  counted(Reason::kCount, 0, [&] { plan.launch(stream, out, in, 4, 1.0F); });
  for (std::size_t i = 0; i < kReasonCount; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      check(std::string(name_of(static_cast<Reason>(i))) != name_of(static_cast<Reason>(j)),
            "each reason has its name");
    }
  }
}

}  // namespace
}  // namespace slipway::reports
