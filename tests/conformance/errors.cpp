// Failures of kernels, host functions and devices.
#include <atomic>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Ids = std::vector<std::uint32_t>;

[[noreturn]] void boom(float*) { throw std::runtime_error("boom"); }

// What is common to failures of all kinds: `bad` submits the work that fails, which has this name.
void check_failure(Context& c, const Device& device, const Kernel& log, const std::string& name,
                   const std::function<void(const Stream&)>& bad) {
  const Stream stream = device.create_stream(), waiter = device.create_stream(), healthy = device.create_stream();
  const Event before = device.create_event(), behind = device.create_event();
  const Memory buffer = make_log(device, stream, 20), waiter_log = make_log(device, waiter, 20);
  const Tensor<std::uint32_t> to = buffer.tensor<std::uint32_t>(), waiter_to = waiter_log.tensor<std::uint32_t>();
  const auto typed = LaunchPlan::create(log, {.shape = LaunchShape{}}).typed<Tensor<std::uint32_t>, std::uint32_t>();
  stream.synchronize(kLimit);
  waiter.synchronize(kLimit);
  const std::uint64_t staged = device.counters().staged_bytes;
  std::atomic<int> ran{0};
  const auto token = std::make_shared<int>(0);
  const std::vector<std::uint8_t> large(10'000);
  const Memory target = device.allocate(10'000);
  std::uint64_t failing = 0;
  {
    testing::Hold hold(device);
    hold.hold(stream);
    stream.launch(log, {}, to, 1U);
    stream.mark(before);
    bad(stream);
    failing = stream.submitted();
    typed(stream, to, 3U);
    stream.launch(log, {}, to, 4U);
    stream.host_function([&ran, token] { ++ran; }, "innocent");
    stream.copy_to_device(target.address(), large.data(), large.size());
    stream.mark(behind);
    waiter.launch(log, {}, waiter_to, 10U);
    waiter.wait(behind);
    waiter.launch(log, {}, waiter_to, 11U);
  }
  const Error error =
      check_throws(ErrorCode::kKernelFailed, {"boom", "'" + name + "'"}, [&] { stream.synchronize(kLimit); });
  check_equal(error.name(), name, "the name in the error");
  check_equal(error.sequence(), failing, "the submission that the error names");
  check(error.submitted(), "the work may have reached the device");
  stream.synchronize(kLimit);  // thrown once
  check_equal(ran.load(), 0, "host functions behind the failure that ran");
  check_equal(token.use_count(), 1, "owners of what a discarded host function held");
  check_equal(device.counters().staged_bytes, staged, "bytes staged after the copy was discarded");

  // Until recover(): refused, with the same cause, and not submitted.
  const std::uint64_t submitted = stream.submitted();
  for (const auto& call : {std::function<void()>([&] { stream.launch(log, {}, to, 5U); }),
                           std::function<void()>([&] { typed(stream, to, 5U); }),
                           std::function<void()>([&] { stream.copy_to_device(target.address(), large.data(), 4); }),
                           std::function<void()>([&] { stream.fill(target.address(), 0, 1, 4); }),
                           std::function<void()>([&] { stream.host_function([] {}); }),
                           std::function<void()>([&] { stream.mark(device.create_event()); })}) {
    const Error refusal = check_throws(ErrorCode::kKernelFailed, {"boom", "recover()"}, call);
    check(!refusal.submitted(), "what is refused was not submitted");
    check_equal(refusal.sequence(), failing, "the submission that the refusal names");
  }
  check_equal(stream.submitted(), submitted, "submissions after refusals");

  // Marks behind the failure fire as failed; those before it have passed.
  check(before.query(), "a mark before the failure has passed");
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { (void)behind.query(); });
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { behind.synchronize(kLimit); });
  check_throws(ErrorCode::kKernelFailed, {"boom", "'" + name + "'"}, [&] { waiter.synchronize(kLimit); });
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { waiter.launch(log, {}, waiter_to, 12U); });
  healthy.synchronize(kLimit);

  stream.recover();
  waiter.recover();
  healthy.recover();
  typed(stream, to, 6U);
  stream.launch(log, {}, to, 7U);
  waiter.launch(log, {}, waiter_to, 13U);
  stream.mark(behind);
  behind.synchronize(kLimit);
  stream.synchronize(kLimit);
  waiter.synchronize(kLimit);
  check(behind.query(), "a new mark passes");
  if (!c.can(kRuns)) return;
  check_equal(read_log(stream, buffer), Ids{1, 6, 7}, "what ran on the stream that failed");
  check_equal(read_log(waiter, waiter_log), Ids{10, 13}, "what ran on the stream that waited for it");
}

void a_host_function_throws(Context& c) {
  for (int round = 0; round < 5; ++round) {
    check_failure(c, c.device(), c.kernel("log_id"), "bad",
                  [](const Stream& stream) { stream.host_function([] { throw std::runtime_error("boom"); }, "bad"); });
  }
  const Stream stream = c.device().create_stream();
  stream.host_function([] { throw 42; }, "odd");  // NOLINT: what is not a std::exception
  check_throws(ErrorCode::kKernelFailed, {"'odd'"}, [&] { stream.synchronize(kLimit); });
}

// B30: launch 2 of 3 is named, not the last.
void a_kernel_throws(Context& c) {
  const Module module = c.device().load_table({kernel<&boom>("boom")});
  const Kernel bad = module.kernel("boom");
  const auto typed = LaunchPlan::create(bad, {.shape = LaunchShape{}}).typed<Tensor<float>>();
  for (int round = 0; round < 5; ++round) {
    check_failure(c, c.device(), c.kernel("log_id"), "boom",
                  [&](const Stream& stream) { stream.launch(bad, {}, Tensor<float>()); });
    check_failure(c, c.device(), c.kernel("log_id"), "boom",
                  [&](const Stream& stream) { typed(stream, Tensor<float>()); });
    check_failure(c, c.device(), c.kernel("log_id"), "boom", [&](const Stream& stream) {
      stream.launch(bad, {.grid = {100, 1, 1}, .spread = true}, Tensor<float>());
    });
  }
}

void device_synchronize_throws_what_was_not_thrown(Context& c) {
  const Device& device = c.device();
  const Stream a = device.create_stream(), b = device.create_stream();
  for (const Stream& stream : {a, b}) stream.host_function([] { throw std::runtime_error("boom"); }, "bad");
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { device.synchronize(kLimit); });
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { device.synchronize(kLimit); });
  device.synchronize(kLimit);
  a.recover();
  b.recover();
}

// Each stream of a chain fails with the first cause.
void a_cascade_keeps_its_cause(Context& c) {
  const Device& device = c.device();
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(device.create_stream());
    events.push_back(device.create_event());
  }
  testing::Hold hold(device);
  hold.hold(streams[0]);
  streams[0].host_function([] { throw std::runtime_error("the first cause"); }, "bad");
  streams[0].mark(events[0]);
  for (std::size_t i = 1; i < 5; ++i) {
    streams[i].wait(events[i - 1]);
    streams[i].mark(events[i]);
  }
  hold.release();
  check_throws(ErrorCode::kKernelFailed, {"the first cause", "'bad'"}, [&] { streams[4].synchronize(kLimit); });
  for (std::size_t i = 0; i < 4; ++i)
    check_throws(ErrorCode::kKernelFailed, {"the first cause"}, [&] { streams[i].synchronize(kLimit); });
}

void blocking_reports_at_the_call(Context& c) {
  const Device device = c.open("blocking");
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Kernel add = find_kernel(module, "add");
  const auto typed = LaunchPlan::create(add, {.shape = LaunchShape{}})
                         .typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const Memory memory = device.allocate(16);
  const Tensor<float> t = memory.tensor<float>();
  std::vector<float> values(4, 1), back(4);
  stream.copy_to_device(memory.address(), values.data(), 16);
  stream.launch(add, {}, t, t, 4, 1.0F);
  typed(stream, t, t, 4, 2.0F);
  check(stream.idle(), "nothing pends after a submission");
  stream.copy_to_host(back.data(), memory.address(), 16);
  if (c.can(kRuns)) check_equal(back, std::vector<float>(4, 4), "what was there when the copy returned");
  const Event event = device.create_event();
  stream.mark(event);
  check(event.query(), "a mark has passed when the call returns");
  const Stream other = device.create_stream();
  other.wait(event);
  check_throws(ErrorCode::kKernelFailed, {"boom", "'bad'"},
               [&] { stream.host_function([] { throw std::runtime_error("boom"); }, "bad"); });
  check_throws(ErrorCode::kKernelFailed, {"boom", "recover()"}, [&] { typed(stream, t, t, 4, 1.0F); });
  stream.synchronize(kLimit);  // it was told of
  stream.recover();
  typed(stream, t, t, 4, 3.0F);
  check(device.counters()[Reason::kBlockingMode] >= 6, "that submissions waited is counted");
}

void closing_discards_what_cannot_run(Context& c) {
  const Device device = c.open();
  const Stream stream = device.create_stream();
  const auto token = std::make_shared<int>(0);
  std::atomic<int> ran{0};
  const Memory memory = device.allocate(100'000);
  const std::vector<std::uint8_t> large(100'000);
  testing::Hold hold(device);
  hold.hold(stream);
  stream.host_function([&ran, token] { ++ran; });
  stream.copy_to_device(memory.address(), large.data(), large.size());
  check_throws(ErrorCode::kTimeout, {"discarded"}, [&] { device.close(WaitLimit(50)); });
  check_equal(ran.load(), 0, "host functions that ran");
  check_equal(token.use_count(), 1, "owners of what a discarded host function held");
}

// B39: fault at launch 3 of 5.
void a_lost_device(Context& c) {
  const Device second = c.open();
  const Module second_module = c.load(second);
  const auto begin = std::chrono::steady_clock::now();
  {
    const Device device = c.open("fault_at=3");
    const Module module = c.load(device);
    const Kernel count = find_kernel(module, "count");
    const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{}});
    const auto typed = plan.typed<Tensor<std::uint32_t>>();
    const Stream stream = device.create_stream(), bystander = device.create_stream();
    const Event event = device.create_event();
    const Memory cnt = device.allocate(4);
    const Tensor<std::uint32_t> t = cnt.tensor<std::uint32_t>();
    testing::Hold hold(device);
    hold.hold(stream);
    for (int i = 0; i < 5; ++i) typed(stream, t);
    stream.mark(event);
    hold.release();
    const Error error =
        check_throws(ErrorCode::kDeviceLost, {"launch 3", "'count'", "reset()"}, [&] { stream.synchronize(kLimit); });
    check_equal(error.sequence(), 4U, "the submission (behind a hold) that the error names");
    check_throws(ErrorCode::kDeviceLost, {}, [&] { (void)event.query(); });
    for (int i = 0; i < 3; ++i) {
      check_throws(ErrorCode::kDeviceLost, {"launch 3"}, [&] { typed(stream, t); });
      check_throws(ErrorCode::kDeviceLost, {"launch 3"}, [&] { stream.launch(count, {}, t); });
      check_throws(ErrorCode::kDeviceLost, {"launch 3"}, [&] { bystander.launch(count, {}, t); });
    }
    device.reset();
    check_throws(ErrorCode::kStaleContext, {"reset"}, [&] { typed(stream, t); });
    const Stream fresh = device.create_stream();
    check_throws(ErrorCode::kStaleContext, {"reset"}, [&] { typed(fresh, t); });
    const Module new_module = c.load(device);
    const Kernel again = find_kernel(new_module, "count");
    fresh.launch(again, {}, t);
    fresh.launch(again, {}, t);
    fresh.synchronize(kLimit);
    check_equal(fresh.completed(), fresh.submitted(), "new work has run");
  }
  const Stream stream = second.create_stream();
  stream.launch(find_kernel(second_module, "count"), {}, second.allocate(4));
  stream.synchronize(kLimit);
  check(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5), "nothing waited for a lost device");
}

constexpr Test kTests[] = {
    {"a_host_function_throws_B30", a_host_function_throws},
    {"a_kernel_throws_B30", a_kernel_throws, kThrowing},
    {"device_synchronize_throws_what_was_not_thrown", device_synchronize_throws_what_was_not_thrown},
    {"a_cascade_keeps_its_cause_B30", a_cascade_keeps_its_cause},
    {"blocking_reports_at_the_call", blocking_reports_at_the_call},
    {"closing_discards_what_cannot_run", closing_discards_what_cannot_run},
    {"a_lost_device_B39", a_lost_device, kFaults},
};

}  // namespace

const Suite kErrorsSuite{"errors", "failures and their causes, blocking mode, a lost device", kTests};

}  // namespace slipway::conformance
