// B22: launches went to the stream that their plan was first used with. B24: threads that the runtime had not set up.
#include <future>
#include <thread>

#include "report.h"

namespace slipway::reports {
namespace {

using Sums = TypedLaunch<Tensor<float>, Tensor<const float>, std::int32_t, float>;

Sums plan_sums(const Kernel& add) {
  return LaunchPlan::create(add, {.shape = LaunchShape{}})
      .typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
}

// A plan that is warm on one stream, which stands still: its launches elsewhere run.
SLIPWAY_REPORT(B22_a_plan_belongs_to_no_stream, kRunning) {
  const Device& device = c.device();
  const Sums sums = plan_sums(c.kernel("add"));
  const Stream s0 = device.create_stream();
  const Memory a = zeros<float>(device, s0, 4), b = zeros<float>(device, s0, 4);
  for (int i = 0; i < 10; ++i) sums(s0, a.tensor<float>(), a.tensor<float>(), 4, 1.0F);
  s0.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(s0);
  sums(s0, a.tensor<float>(), a.tensor<float>(), 4, 1.0F);
  float wanted = 0;
  for (int i = 0; i < 20; ++i) {
    // Streams come and go; a later one may lie where an earlier one did.
    const Stream other = device.create_stream();
    const std::uint64_t held = s0.submitted(), before = other.submitted();
    sums(other, b.tensor<float>(), b.tensor<float>(), 4, 5.0F);
    check_equal(other.submitted() - before, 1U, "submissions to the stream that was named");
    check_equal(s0.submitted(), held, "submissions to the stream where the plan is warm");
    check_equal(download<float>(other, b, 4), std::vector<float>(4, wanted += 5), "the launch on the other stream");
    check(!s0.idle(), "the first stream still stands");
  }
  hold.release();
  check_equal(download<float>(s0, a, 4), std::vector<float>(4, 11), "the launches on the first stream");
}

// The same plan inside a capture becomes a node and does not run.
SLIPWAY_REPORT(B22_a_warm_plan_is_captured, kEvery) {
  const Device& device = c.device();
  const Kernel add = c.kernel("add");
  const Sums sums = plan_sums(add);
  const LaunchPlan untyped = LaunchPlan::create(add, {.shape = LaunchShape{}});
  const auto with_grid =
      LaunchPlan::create(add, {}).typed_grid<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const Stream stream = device.create_stream();
  const Memory in = upload(device, stream, std::vector<float>(4, 10)), out = zeros<float>(device, stream, 4);
  const Tensor<float> to = out.tensor<float>();
  const Tensor<const float> from = in.tensor<const float>();
  const std::function<void()> ways[] = {
      [&] { sums(stream, to, from, 4, 1.0F); }, [&] { untyped.launch(stream, to, from, 4, 1.0F); },
      [&] { with_grid(stream, {}, to, from, 4, 1.0F); }, [&] { stream.launch(add, {}, to, from, 4, 1.0F); }};
  for (const auto& launch : ways) {
    for (int i = 0; i < 5; ++i) launch();
    stream.fill(out.address(), 0, 4, 4);
    stream.synchronize(kLimit);
    const std::uint64_t before = stream.submitted();
    Capture capture(stream);
    launch();
    const GraphDefinition definition = capture.end();
    check_equal(definition.node_count(), std::size_t{1}, "nodes captured");
    check_equal(stream.submitted(), before, "submissions while capturing");
    if (c.can(kRuns)) check_equal(download<float>(stream, out, 4), std::vector<float>(4), "before the replay");
    definition.instantiate().launch(stream);
    if (c.can(kRuns)) check_equal(download<float>(stream, out, 4), std::vector<float>(4, 11), "after the replay");
  }
  stream.synchronize(kLimit);
}

// Work that was meant to be captured and went elsewhere leaves a graph without any: that is told, and not replayed.
SLIPWAY_REPORT(B22_an_empty_capture_is_no_silent_success, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Memory cnt = zeros<std::uint32_t>(device, other, 1);
  Capture capture(stream, "missed");
  (void)capture.parameter<std::int32_t>("n");
  other.launch(c.kernel("count"), {}, cnt);
  stream.launch(c.kernel("count"), {.grid = {0, 1, 1}}, cnt);
  const GraphDefinition definition = capture.end();
  check_equal(definition.node_count(), std::size_t{0}, "nodes captured");
  check_throws(ErrorCode::kFailedPrecondition, {"'missed'", "no work", "stream"},
               [&] { (void)definition.instantiate(); });
  other.synchronize(kLimit);
}

// Threads that never met the library before: their first call works, and each has its own results.
SLIPWAY_REPORT(B24_fresh_threads_launch, kRunning) {
  const Device& device = c.device();
  const Kernel add = c.kernel("add");
  const Sums sums = plan_sums(add);
  std::vector<std::future<void>> threads;
  for (int id = 0; id < 8; ++id) {
    threads.push_back(std::async(std::launch::async, [&, id] {
      const Stream stream = device.create_stream();
      const std::vector<float> value(4, static_cast<float>(id)), wanted(4, static_cast<float>(id + 1));
      const Memory x = device.allocate(16);
      for (int call = 0; call < 50; ++call) {
        stream.copy_to_device(x.address(), value.data(), 16);
        if (call % 2 == 0) sums(stream, x.tensor<float>(), x.tensor<float>(), 4, 1.0F);
        else stream.launch(add, {}, x, x, 4, 1.0F);
        check_equal(download<float>(stream, x, 4), wanted, "x + 1 in thread " + std::to_string(id));
      }
    }));
  }
  for (auto& thread : threads) thread.get();
}

// A capture in one thread is no other thread's business.
SLIPWAY_REPORT(B24_other_threads_work_during_a_capture, kRunning) {
  const Device& device = c.device();
  const Kernel add = c.kernel("add");
  const Sums sums = plan_sums(add);
  const Stream stream = device.create_stream();
  const Memory x = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  const std::uint64_t live = device.counters().live_memory_bytes;
  Capture capture(stream);
  for (int round = 0; round < 8; ++round) {
    sums(stream, x.tensor<float>(), x.tensor<float>(), 4, 1.0F);
    std::async(std::launch::async, [&] {
      const Stream own = device.create_stream();
      const Event event = device.create_event();
      const Memory y = zeros<float>(device, own, 4);
      for (int i = 0; i < 10; ++i) {
        sums(own, y.tensor<float>(), y.tensor<float>(), 4, 2.0F);
        own.mark(event);
        conformance::wait_until([&] { return event.query(); }, "the event of the other thread");
      }
      check_equal(download<float>(own, y, 4), std::vector<float>(4, 20), "the launches of the other thread");
      check(own.idle(), "its stream is idle");
      Capture inner(own);  // captures of two threads at once
      own.launch(add, {}, y, y, 4, 1.0F);
      inner.end().instantiate().launch(own);
      check_equal(download<float>(own, y, 4), std::vector<float>(4, 21), "its own graph");
    }).get();
  }
  const GraphDefinition definition = capture.end();
  check_equal(definition.node_count(), std::size_t{8}, "nodes: the capturing thread's launches only");
  device.synchronize(kLimit);
  check_equal(device.counters().live_memory_bytes, live, "what other threads allocated meanwhile is not the graph's");
  check_equal(download<float>(stream, x, 4), std::vector<float>(4), "nothing of the capture has run");
  definition.instantiate().launch(stream);
  check_equal(download<float>(stream, x, 4), std::vector<float>(4, 8), "the replay");
}

}  // namespace
}  // namespace slipway::reports
