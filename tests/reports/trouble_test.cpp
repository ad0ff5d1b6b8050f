// B16: blocking mode and an update behind its replay hung. B37, of graphs: the launching thread held a lock that work
// in flight needed. B39: a lost device hung, or was not told of.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "report.h"

namespace slipway::reports {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Blocking or not, by the URI and by the environment in every spelling: three steps end with their own values.
SLIPWAY_REPORT(B16_values_come_first_where_launches_block, kEvery) {
  struct Setting {
    const char* environment;  // null: unset
    const char* more;
    bool blocking;
  };
  for (const Setting& s :
       {Setting{nullptr, "", false}, Setting{"", "", false}, Setting{"0", "", false}, Setting{"1", "", true},
        Setting{nullptr, "blocking,", true}, Setting{"0", "blocking,", true}}) {
    if (s.environment) ::setenv("SLIPWAY_LAUNCH_BLOCKING", s.environment, 1);
    else ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
    const Device device = c.open(std::string(s.more) + "wait_limit_ms=30000");
    ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
    const Module module = c.load(device);
    const Stream stream = device.create_stream();
    const Memory out = zeros<std::int32_t>(device, stream, 1);
    stream.synchronize(kLimit);
    Capture capture(stream, "steps");
    const auto value = capture.parameter<std::int32_t>("value", 77);
    stream.launch(find_kernel(module, "put_i32"), {}, out, value);
    const ExecutableGraph graph = capture.end().instantiate();
    StepValues values = graph.values();
    const auto begin = Clock::now();
    for (std::int32_t i = 0; i < 3; ++i) {
      values.set(value, i);
      graph.launch(stream, values);
      if (s.blocking) check(stream.idle(), "nothing pends behind a launch that blocks");
      if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), i, "the value of the step");
    }
    check(seconds_since(begin) < 10, "three steps take no time");
    check_equal(graph.counters().update_first, s.blocking ? 3U : 0U, "steps published before they were submitted");
    check_equal(graph.counters().replay_first, s.blocking ? 0U : 3U, "steps submitted before they were published");
    // In two parts: nothing of it begins before the values are there, and who brings them waits.
    const Step step = graph.launch_open(stream);
    values.set(value, 9);
    graph.publish(step, values);
    if (s.blocking) check(graph.passed(step) && stream.idle(), "nothing pends behind a publish that blocks");
    if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), 9, "the value that came later");
    check_equal(graph.counters().update_first, s.blocking ? 4U : 0U, "steps whose values came first");
  }
  ::setenv("SLIPWAY_LAUNCH_BLOCKING", "yes", 1);
  check_throws(ErrorCode::kInvalidArgument, {"SLIPWAY_LAUNCH_BLOCKING", "'yes'"}, [&] { (void)c.open(); });
  ::unsetenv("SLIPWAY_LAUNCH_BLOCKING");
}

// As an interpreter with one lock: every thread that calls Slipway holds it, and what graphs call needs it.
SLIPWAY_REPORT(B37_graphs_give_up_the_callers_lock_wherever_they_wait, kRunning) {
  const Device device = c.open("wait_limit_ms=5000");
  if (device.info().workers == 0 && device.info().driver == "cpu") return;  // callers run everything themselves
  const Module module = c.load(device);
  std::mutex lock;  // timed ones are not seen by every thread sanitizer
  const auto comes = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!lock.try_lock()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  };
  const auto take = [&] { check(comes(), "the lock comes in time"); };
  std::atomic<int> calls{0};
  const auto needs_lock = [&] {
    if (!comes()) throw std::runtime_error("the lock never came");
    ++calls;
    lock.unlock();
  };
  take();
  {
    const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
    const Memory out = device.allocate(64), filled = device.allocate(3000);
    const std::vector<std::uint8_t> filling(3000);
    Capture capture(stream, "locked");
    const auto value = capture.parameter<std::int32_t>("value", 0);
    capture.external(stream, "external", {value}, [&](ExternalCall&) { needs_lock(); });
    stream.launch(find_kernel(module, "put_i32"), {}, out, value);
    stream.host_function(needs_lock);
    const ExecutableGraph graph = capture.end().instantiate({.depth = 2});
    device.set_blocking_hooks([&] { lock.unlock(); }, take);
    const auto begin = Clock::now();
    constexpr int kSteps = 50;
    Step last;
    for (int i = 0; i < kSteps; ++i) {
      StepValues values = graph.values();
      values.set(value, i);
      last = graph.launch(stream, values);  // waits for the slot of an older step
    }
    graph.wait(last, kLimit);
    // Two threads in turns, one of which stands in a full ring while the other comes to launch.
    std::atomic<bool> failed{false};
    const auto launch_many = [&](int count) {
      try {
        for (int i = 0; i < count; ++i) {
          (void)graph.launch_open(stream, Publisher::kOtherThread);
          stream.copy_to_device(filled.address(), filling.data(), filling.size());  // of these the ring holds five
        }
      } catch (const std::exception&) {
        failed = true;
      }
    };
    constexpr int kEach = 25;
    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        take();
        launch_many(kEach);
        lock.unlock();
        ++ended;
      });
    }
    std::thread publisher([&] {
      take();
      for (int i = 0; i < 2 * kEach && !failed; ++i) {
        StepValues values = graph.values();
        values.set(value, i);
        for (;;) {
          try {
            graph.publish({last.number + 1 + static_cast<std::uint64_t>(i)}, values);
            break;
          } catch (const Error& error) {
            if (error.code() != ErrorCode::kInvalidArgument || failed) {  // not launched yet
              failed = true;
              break;
            }
            lock.unlock();
            std::this_thread::yield();
            take();
          }
        }
      }
      lock.unlock();
      ++ended;
    });
    lock.unlock();
    for (std::thread& t : threads) t.join();
    publisher.join();
    take();
    check(!failed, "no launch and no values ran into a limit");
    stream.synchronize(kLimit);
    check(seconds_since(begin) < 10, "nobody waited for a limit");
    check_equal(calls.load(), 2 * (kSteps + 2 * kEach), "calls of what needs the lock");
    device.set_blocking_hooks(nullptr, nullptr);
  }
  lock.unlock();
}

// What a graph calls may not call Slipway: it is told at once, and the graph goes on after recover().
SLIPWAY_REPORT(B37_what_graphs_call_may_not_call_in, kRunning) {
  const Device device = c.open("wait_limit_ms=5000");
  const Module module = c.load(device);
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Memory out = zeros<std::int32_t>(device, stream, 1);
  stream.synchronize(kLimit);
  std::atomic<int> call_in{0};
  const auto maybe = [&](int who) {
    if (call_in == who) other.synchronize(WaitLimit(1));
  };
  Capture capture(stream, "calling");
  const auto value = capture.parameter<std::int32_t>("value", 0);
  const Operation operation =
      capture.operation("operation", {value}, {OutputSpec::argument(ArgKind::kI32)}, [&](OperationCall& call) {
        maybe(1);
        call.set(0, call.input<std::int32_t>(0));
      });
  capture.external(stream, "external", {value}, [&](ExternalCall&) { maybe(2); });
  stream.launch(find_kernel(module, "put_i32"), {}, out, operation.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (std::int32_t round = 1; round <= 3; ++round) {
    for (const int who : {1, 2}) {
      call_in = who;
      if (who == 1) {
        const Error error = check_throws(ErrorCode::kFailedPrecondition, {"not allowed in a kernel or host function"},
                                         [&] { graph.launch(stream, values); });
        graph.cancel({error.sequence()}, "it called in");
      } else {
        try {
          graph.launch(stream, values);
        } catch (const Error& error) {  // known by the time it returned
          check_equal(error.code(), ErrorCode::kKernelFailed, "the code");
        }
        check_throws(ErrorCode::kKernelFailed, {"external", "not allowed"}, [&] { stream.synchronize(kLimit); });
      }
      call_in = 0;
      graph.recover();
      values.set(value, round * 10 + who);
      graph.launch(stream, values);
      check_equal(download<std::int32_t>(stream, out, 1).front(), round * 10 + who, "the graph after recover()");
    }
  }
}

// A device is lost at the n-th launch of five, whatever launches it: the launch is named, all that follows is told at
// once and touches nothing, everything can be dropped, and after reset() only what is new works.
SLIPWAY_REPORT(B39_a_lost_device_is_told_of_and_hangs_nobody, kStore) {
  const Device second = c.open();
  const Module second_module = c.load(second);
  for (int n = 1; n <= 5; ++n) {
    for (int way = 0; way < 4; ++way) {  // general, planned, a graph, a graph whose values come later
      const auto begin = Clock::now();
      {
        const Device device = c.open("wait_limit_ms=30000,fault_at=" + std::to_string(n));
        const Module module = c.load(device);
        const Kernel count = find_kernel(module, "count"), put = find_kernel(module, "put_i32");
        const Stream stream = device.create_stream(), bystander = device.create_stream();
        const Memory cnt = device.allocate(64);
        const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{}});
        Capture capture(stream, "five");
        const auto value = capture.parameter<std::int32_t>("value", 1);
        for (int i = 0; i < 5; ++i) stream.launch(put, {}, cnt, value);
        const GraphDefinition definition = capture.end();
        const ExecutableGraph graph = definition.instantiate(), open = definition.instantiate();
        const StepValues values = graph.values();
        Step waiting;
        {
          testing::Hold hold(device);
          hold.hold(stream);
          if (way >= 2) {
            if (way == 2) graph.launch(stream, values);
            else waiting = graph.launch_open(stream);
          }
          for (int i = 0; i < 5 && way < 2; ++i) {
            if (way == 0) stream.launch(count, {}, cnt);
            else plan.launch(stream, cnt);
          }
        }
        try {
          if (way == 3) graph.publish(waiting, values);
        } catch (const Error& error) {  // where callers execute, it is known by then
          check_equal(error.code(), ErrorCode::kDeviceLost, "the code");
        }
        const Error error = check_throws(ErrorCode::kDeviceLost, {"launch " + std::to_string(n), "reset()"},
                                         [&] { stream.synchronize(kLimit); });
        check_equal(error.sequence(), static_cast<std::uint64_t>(way < 2 ? n + 1 : 2),
                    "the submission, behind the hold");
        (void)testing::take_stored(device);
        const auto told = Clock::now();
        const std::uint64_t submitted = stream.submitted() + bystander.submitted();
        for (const Stream& s : {stream, bystander}) {
          for (const auto& call : {std::function<void()>([&] { s.launch(count, {}, cnt); }),
                                   std::function<void()>([&] { plan.launch(s, cnt); }),
                                   std::function<void()>([&] { open.launch(s, values); }),
                                   std::function<void()>([&] { (void)open.launch_open(s); }),
                                   std::function<void()>([&] { s.fill(cnt.address(), 0, 4, 1); }),
                                   std::function<void()>([&] { s.host_function([] {}); })}) {
            check_throws(ErrorCode::kDeviceLost, {"launch " + std::to_string(n), "reset()"}, call);
          }
        }
        check(seconds_since(told) < 10, "refusals wait for nothing");
        check_equal(stream.submitted() + bystander.submitted(), submitted, "submissions to a lost device");
        check(testing::take_stored(device).empty(), "nothing reached the device");
        if (n % 2 == 1) {
          device.reset();
          for (const auto& call :
               {std::function<void()>([&] { stream.launch(count, {}, cnt); }),
                std::function<void()>([&] { plan.launch(stream, cnt); }),
                std::function<void()>([&] { graph.launch(stream, values); }),
                std::function<void()>([&] { (void)definition.instantiate(); }),
                std::function<void()>([&] { graph.recover(); }), std::function<void()>([&] { graph.wait({1}); })}) {
            check_throws(ErrorCode::kStaleContext, {"reset"}, call);
          }
          const Module again = c.load(device);
          const Stream fresh = device.create_stream();
          const Kernel kernel = find_kernel(again, "count");
          check_throws(ErrorCode::kStaleContext, {"reset"}, [&] { plan.launch(fresh, cnt); });
          check_throws(ErrorCode::kStaleContext, {"reset"}, [&] { graph.launch(fresh, values); });
          check(testing::take_stored(device).empty(), "nothing stale reached the device");
          if (n > 1) {  // it counts from 1 again
            LaunchPlan::create(kernel, {.shape = LaunchShape{}}).launch(fresh, device.allocate(4));
            fresh.synchronize(kLimit);
            check_equal(testing::take_stored(device).size(), std::size_t{1}, "launches after the reset");
          }
        }
      }
      check(seconds_since(begin) < 10, "dropping everything of a lost device waits for nothing");
    }
  }
  const Stream stream = second.create_stream();
  stream.launch(find_kernel(second_module, "count"), {}, second.allocate(4));
  stream.synchronize(kLimit);
}

}  // namespace
}  // namespace slipway::reports
