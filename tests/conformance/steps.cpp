// Steps: replays that were submitted before their values, several in flight, and the ways in which a step can end.
#include <atomic>
#include <random>
#include <thread>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Ids = std::vector<std::uint32_t>;

// A graph that calls a host function, then logs the step's value, once for each tier that the device has.
class Logging {
 public:
  Logging(Context& c, InstantiateOptions options = {}, std::size_t room = 100)
      : Logging(c.device(), c.kernel("log_id"), options, room) {}
  Logging(const Device& on, const Kernel& log_id, InstantiateOptions options = {}, std::size_t room = 100)
      : device(on), stream(device.create_stream()), buffer(make_log(device, stream, room)) {
    stream.synchronize(kLimit);
    Capture capture(stream, "logging");
    value = capture.parameter<std::uint32_t>("value");
    stream.host_function([counter = counter] { ++*counter; }, "begins");
    stream.launch(log_id, {}, buffer, value);
    graph = capture.end().instantiate(options);
    values = graph.values();
  }
  StepValues with(std::uint32_t v) {
    values.set(value, v);
    return values;
  }
  Ids logged() { return read_log(stream, buffer); }

  Device device;
  Stream stream;
  Memory buffer;
  // Steps of a test that has failed may still run when this is gone.
  std::shared_ptr<std::atomic<std::uint32_t>> counter = std::make_shared<std::atomic<std::uint32_t>>(0);
  std::atomic<std::uint32_t>& begun = *counter;
  ScalarParameter<std::uint32_t> value;
  ExecutableGraph graph;
  StepValues values;
};

bool reads_late(Context& c) {
  const Stream stream = c.device().create_stream();
  Capture capture(stream);
  stream.host_function([] {});
  return capture.end().instantiate().tier() == Tier::kReadLate;
}

void for_each_tier(Context& c, const std::function<void(Tier)>& test) {
  test(Tier::kCut);
  if (reads_late(c)) test(Tier::kReadLate);
  else
    check_throws(ErrorCode::kUnsupported, {"when work is submitted"}, [&] { Logging(c, {.tier = Tier::kReadLate}); });
}

// The heart of it: whoever publishes has seen what the replay did before its gate.
void the_prefix_runs_before_the_values(Context& c) {
  for_each_tier(c, [&](Tier tier) {
    Logging l(c, {.tier = tier});
    check(l.graph.tier() == tier, "the tier that was asked for");
    for (std::uint32_t i = 1; i <= 10; ++i) {
      const Step step = l.graph.launch_open(l.stream, Publisher::kOtherThread);
      wait_until([&] { return l.begun.load() == i; }, "the host function before the gate");
      check(!l.graph.passed(step), "a step that was not published has not passed");
      l.graph.publish(step, l.with(i));
      l.graph.wait(step, kLimit);
    }
    check_equal(l.logged(), Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "the values of the steps");
  });
}

void each_step_has_its_own_values_whatever_the_order(Context& c) {
  for_each_tier(c, [&](Tier tier) {
    Logging l(c, {.depth = 4, .tier = tier});
    std::vector<Step> steps;
    for (int i = 0; i < 4; ++i) steps.push_back(l.graph.launch_open(l.stream, Publisher::kOtherThread));
    wait_until([&] { return l.begun.load() == 1; }, "the first step in front of its gate");
    for (const std::uint32_t i : {2U, 0U, 3U, 1U}) {
      l.graph.publish(steps[i], l.with(10 + i));
      // Time for a gate that opened too early to show: the steps before would then run with what is in their slots.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    check_equal(l.logged(), Ids{10, 11, 12, 13}, "the values of the steps");
  });
}

void many_steps_published_by_another_thread(Context& c) {
  for_each_tier(c, [&](Tier tier) {
    constexpr std::uint32_t kSteps = 2000;
    Logging l(c, {.depth = 3, .tier = tier}, kSteps);
    std::vector<Step> steps(kSteps);
    std::atomic<std::uint32_t> launched{0}, published{0};
    std::atomic<bool> ended{false};
    std::string problem;
    std::thread publisher([&] {
      std::mt19937 random(7);
      try {
        for (std::uint32_t i = 0; i < kSteps; ++i) {
          wait_until([&] { return launched.load() > i; }, "the launch of a step");
          if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
          l.graph.publish(steps[i], l.with(i));
          published.store(i + 1);
        }
      } catch (const std::exception& e) {
        problem = e.what();
      }
      ended = true;
    });
    constexpr std::uint32_t kAhead = 100;  // so that a slow machine publishes each within the watchdog's limit
    for (std::uint32_t i = 0; i < kSteps && !ended; ++i) {
      wait_until([&] { return ended || i < published.load() + kAhead; }, "a step to be published");
      steps[i] = l.graph.launch_open(l.stream, Publisher::kOtherThread);
      launched.store(i + 1);
    }
    publisher.join();
    check(problem.empty(), problem);
    const Ids ids = l.logged();
    check_equal(ids.size(), std::size_t{kSteps}, "steps that ran");
    for (std::uint32_t i = 0; i < kSteps; ++i) check_equal(ids[i], i, "the value of step " + std::to_string(i + 1));
  });
}

void steps_on_several_streams_run_one_after_another(Context& c) {
  Logging l(c, {}, 200);
  const Stream streams[] = {l.stream, l.device.create_stream(), l.device.create_stream()};
  Step last;
  for (std::uint32_t i = 0; i < 150; ++i) last = l.graph.launch(streams[i % 3], l.with(i));
  l.graph.wait(last, kLimit);
  const Ids ids = l.logged();
  check_equal(ids.size(), std::size_t{150}, "steps that ran");
  for (std::uint32_t i = 0; i < 150; ++i) check_equal(ids[i], i, "the value of step " + std::to_string(i + 1));
}

void what_lies_behind_a_replay_waits_for_it(Context& c) {
  Logging l(c);
  const Stream other = l.device.create_stream();
  const Event done = l.device.create_event();
  const Step step = l.graph.launch_open(l.stream, Publisher::kOtherThread);
  l.stream.launch(c.kernel("log_id"), {}, l.buffer, 100U);
  l.stream.mark(done);
  other.wait(done);
  other.launch(c.kernel("log_id"), {}, l.buffer, 101U);
  wait_until([&] { return l.begun.load() == 1; }, "the host function before the gate");
  check(!done.query(), "the mark behind an open step");
  l.graph.publish(step, l.with(7));
  other.synchronize(kLimit);
  check_equal(l.logged(), Ids{7, 100, 101}, "ids");
}

void the_updater_publishes(Context& c) {
  Logging l(c, {.updater = true});
  Step last;
  for (std::uint32_t i = 0; i < 50; ++i) last = l.graph.launch(l.stream, l.with(i));
  l.graph.wait(last, kLimit);
  const Ids ids = l.logged();
  check_equal(ids.size(), std::size_t{50}, "steps that ran");
  for (std::uint32_t i = 0; i < 50; ++i) check_equal(ids[i], i, "the value of a step");
}

void values_first_when_asked_for(Context& c) {
  Logging l(c, {.order = Order::kUpdateFirst});
  for (std::uint32_t i = 0; i < 5; ++i) l.graph.launch(l.stream, l.with(i));
  check_equal(l.logged(), Ids{0, 1, 2, 3, 4}, "the values of the steps");
  check_equal(l.graph.counters().update_first, std::uint64_t{5}, "steps whose values came first");
}

// --- How steps end ---

void a_cancelled_step_is_skipped_and_recover_goes_on(Context& c) {
  Logging l(c);
  const Step first = l.graph.launch_open(l.stream, Publisher::kOtherThread);
  const Step second = l.graph.launch_open(l.stream, Publisher::kOtherThread);
  l.graph.cancel(first, "changed my mind");
  check_throws(ErrorCode::kCancelled, {"changed my mind", "'logging'"}, [&] { l.stream.synchronize(kLimit); });
  check_throws(ErrorCode::kCancelled, {"changed my mind"}, [&] { l.graph.publish(second, l.with(2)); });
  check_throws(ErrorCode::kCancelled, {"recover()"}, [&] { l.graph.launch(l.stream, l.with(3)); });
  l.graph.recover();
  l.graph.launch(l.stream, l.with(4));
  check_equal(l.logged(), Ids{4}, "ids");
}

void the_watchdog_ends_a_step_that_nobody_publishes(Context& c) {
  Logging l(c, {.watchdog = std::chrono::milliseconds(50)});
  (void)l.graph.launch_open(l.stream, Publisher::kOtherThread);
  const auto begin = std::chrono::steady_clock::now();
  check_throws(ErrorCode::kTimeout, {"gate 'values'"}, [&] { l.stream.synchronize(kLimit); });
  check(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5), "it took too long");
  l.graph.recover();
  l.graph.launch(l.stream, l.with(1));
  check_equal(l.logged(), Ids{1}, "ids");
}

void waiting_for_ones_own_values_is_refused(Context& c) {
  Logging l(c);
  const Step step = l.graph.launch_open(l.stream);
  check_throws(ErrorCode::kWouldDeadlock, {"step 1", "'logging'"}, [&] { l.stream.synchronize(kLimit); });
  check_throws(ErrorCode::kWouldDeadlock, {"step 1"}, [&] { l.graph.wait(step, kLimit); });
  l.graph.publish(step, l.with(1));
  check_equal(l.logged(), Ids{1}, "ids");
}

// One thing after another: nothing of a step runs before its values are there, and who publishes them waits for it.
void in_blocking_mode_a_step_begins_when_it_is_published(Context& c) {
  const Device device = c.open("blocking");
  const Module module = c.load(device);
  Logging l(device, find_kernel(module, "log_id"));
  const Step step = l.graph.launch_open(l.stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  check_equal(l.begun.load(), 0U, "host functions of a step without values");
  for (const auto& call : {std::function<void()>([&] { l.stream.fill(l.buffer.address(), 0, 4, 1); }),
                           std::function<void()>([&] { l.graph.launch(l.stream, l.with(9)); })}) {
    check_throws(ErrorCode::kWouldDeadlock, {"blocking mode", "step 1"}, call);
  }
  const Step second = l.graph.launch_open(l.stream);
  l.graph.publish(second, l.with(2));  // behind a step that is still open: nobody waits for it
  check_equal(l.begun.load(), 0U, "host functions of steps behind one without values");
  l.graph.publish(step, l.with(1));
  check(l.graph.passed(step), "the step has passed when publish() returns");
  l.graph.wait(second, kLimit);
  std::thread publisher;
  const Step third = l.graph.launch_open(l.stream, Publisher::kOtherThread);
  const StepValues values = l.with(3);
  publisher = std::thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    l.graph.publish(third, values);
  });
  l.graph.launch(l.stream, l.with(4));  // waits for what another thread publishes
  publisher.join();
  check_equal(l.logged(), Ids{1, 2, 3, 4}, "ids");
  check_equal(l.graph.counters().update_first, 4U, "steps whose values came first");
}

void a_ring_that_is_full_behind_a_gate(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
  const Kernel log = c.kernel("log_id");
  const Memory buffer = make_log(device, stream, 6000);
  const Tensor<std::uint32_t> to = buffer.tensor<std::uint32_t>();
  stream.synchronize(kLimit);
  Capture capture(stream, "gated");
  const auto id = capture.parameter<std::uint32_t>("id");
  stream.launch(log, {}, to, id);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  Ids wanted{1};
  values.set(id, 1U);
  const Step own = graph.launch_open(stream);
  // Only this thread could open the gate, and it would wait for room.
  check_throws(ErrorCode::kWouldDeadlock, {"full ring", "step 1"}, [&] {
    for (std::uint32_t i = 10; i < 4000; ++i) {
      stream.launch(log, {}, to, i);
      wanted.push_back(i);
    }
  });
  graph.publish(own, values);
  check_equal(read_log(stream, buffer), wanted, "what was submitted before the refusal, and nothing else");
  // Another thread opens it: the submission waits for room, and goes on.
  values.set(id, 2U);
  wanted.push_back(2);
  const Step other = graph.launch_open(stream, Publisher::kOtherThread);
  std::thread publisher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    graph.publish(other, values);
  });
  for (std::uint32_t i = 4000; i < 5000; ++i) {
    stream.launch(log, {}, to, i);
    wanted.push_back(i);
  }
  publisher.join();
  check_equal(read_log(stream, buffer), wanted, "all that was submitted");
}

void a_host_function_that_fails_ends_its_step(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory buffer = make_log(device, stream, 10);
  stream.synchronize(kLimit);
  std::atomic<bool> fails{true};
  Capture capture(stream, "failing");
  const auto id = capture.parameter<std::uint32_t>("id");
  stream.launch(c.kernel("log_id"), {}, buffer, 1U);
  stream.host_function(
      [&] {
        if (fails) throw std::runtime_error("boom");
      },
      "explodes");
  stream.launch(c.kernel("log_id"), {}, buffer, id);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(id, 2U);
  const Step step = graph.launch_open(stream, Publisher::kOtherThread);
  check_throws(ErrorCode::kKernelFailed, {"'explodes'", "boom"}, [&] { stream.synchronize(kLimit); });
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { graph.publish(step, values); });
  graph.recover();
  fails = false;
  graph.launch(stream, values);
  check_equal(read_log(stream, buffer), Ids{1, 1, 2}, "ids: what ran before the failure, and the step after it");
}

// A step that is cancelled while its host function runs, or waits for its turn behind another's, leaves nothing of it
// behind: the next step's runs, once.
void a_step_is_cancelled_while_its_host_function_is_out(Context& c) {
  const Device& device = c.device();
  if (device.info().workers == 0 && device.info().driver == "cpu") return;  // callers run them themselves
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Memory buffer = make_log(device, stream, 10);
  stream.synchronize(kLimit);
  struct Shared {  // what is out may outlive a test that fails
    std::atomic<bool> stands{false}, stood{false};
    std::atomic<int> runs{0};
  };
  const auto s = std::make_shared<Shared>();
  const auto stand = [s] {
    s->stood = true;
    wait_until([&] { return !s->stands; }, "the host function is let go");
  };
  Capture capture(stream, "out");
  const auto id = capture.parameter<std::uint32_t>("id");
  stream.host_function(
      [s, stand] {
        ++s->runs;
        stand();
      },
      "stands");
  stream.launch(c.kernel("log_id"), {}, buffer, id);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  Ids expected;
  for (std::uint32_t round = 1; round <= 6; ++round) {
    const bool waits = round % 2 == 0;  // for its turn: there is one thread for the host functions of a device
    s->stood = false;
    s->stands = true;
    const auto stood = [&] { return s->stood.load(); };
    if (waits) {
      other.host_function(stand, "in front");
      wait_until(stood, "the host function in front");
    }
    const Step step = graph.launch_open(stream, Publisher::kOtherThread);
    if (!waits) wait_until(stood, "the step's host function");
    graph.cancel(step, "not now");
    s->stands = false;
    check_throws(ErrorCode::kCancelled, {"not now"}, [&] { stream.synchronize(kLimit); });
    graph.recover();
    other.synchronize(kLimit);
    const int before = s->runs;
    values.set(id, round);
    graph.launch(stream, values);
    expected.push_back(round);
    stream.synchronize(kLimit);
    check_equal(s->runs - before, 1, "runs of the next step's host function");
  }
  check_equal(read_log(stream, buffer), expected, "the values of the steps that ran");
}

void a_stream_that_failed_cancels_its_replays(Context& c) {
  Logging l(c);
  testing::Hold hold(l.device);
  hold.hold(l.stream);
  l.stream.host_function([] { throw std::runtime_error("boom"); }, "explodes");
  const Step step = l.graph.launch_open(l.stream, Publisher::kOtherThread);
  hold.release();
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { l.stream.synchronize(kLimit); });
  check_throws(ErrorCode::kKernelFailed, {"boom"}, [&] { l.graph.publish(step, l.with(1)); });
  l.graph.recover();
  l.graph.launch(l.stream, l.with(2));
  check_equal(l.logged(), Ids{2}, "ids");
  check_equal(l.begun.load(), 1U, "replays that began");
}

void a_graph_that_is_dropped_hangs_nobody(Context& c) {
  Logging l(c);
  (void)l.graph.launch_open(l.stream, Publisher::kOtherThread);
  l.graph = {};
  check_throws(ErrorCode::kCancelled, {"dropped"}, [&] { l.stream.synchronize(kLimit); });
  l.stream.recover();
  l.stream.launch(c.kernel("log_id"), {}, l.buffer, 3U);
  check_equal(l.logged(), Ids{3}, "ids");
}

void a_device_that_is_closed_hangs_nobody(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory memory = device.allocate(64);
  Capture capture(stream, "closed");
  const auto id = capture.parameter<std::uint32_t>("id");
  stream.launch(find_kernel(module, "log_id"), {}, memory, id);
  const ExecutableGraph graph = capture.end().instantiate();
  (void)graph.launch_open(stream, Publisher::kOtherThread);
  try {
    device.close(WaitLimit(50));
  } catch (const Error& error) {
    check(error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kCancelled, error.what());
  }
  check_throws(ErrorCode::kStaleContext, {"closed"}, [&] { graph.publish({1}, graph.values()); });
}

constexpr Test kTests[] = {
    {"the_prefix_runs_before_the_values", the_prefix_runs_before_the_values, kRuns},
    {"each_step_has_its_own_values_whatever_the_order", each_step_has_its_own_values_whatever_the_order, kRuns},
    {"many_steps_published_by_another_thread", many_steps_published_by_another_thread, kRuns},
    {"steps_on_several_streams_run_one_after_another", steps_on_several_streams_run_one_after_another, kRuns},
    {"what_lies_behind_a_replay_waits_for_it", what_lies_behind_a_replay_waits_for_it, kRuns},
    {"the_updater_publishes", the_updater_publishes, kRuns},
    {"values_first_when_asked_for", values_first_when_asked_for, kRuns},
    {"a_cancelled_step_is_skipped_and_recover_goes_on", a_cancelled_step_is_skipped_and_recover_goes_on, kRuns},
    {"the_watchdog_ends_a_step_that_nobody_publishes", the_watchdog_ends_a_step_that_nobody_publishes, kRuns},
    {"waiting_for_ones_own_values_is_refused", waiting_for_ones_own_values_is_refused, kRuns},
    {"in_blocking_mode_a_step_begins_when_it_is_published", in_blocking_mode_a_step_begins_when_it_is_published, kRuns},
    {"a_ring_that_is_full_behind_a_gate", a_ring_that_is_full_behind_a_gate, kRuns},
    {"a_host_function_that_fails_ends_its_step", a_host_function_that_fails_ends_its_step, kRuns},
    {"a_step_is_cancelled_while_its_host_function_is_out", a_step_is_cancelled_while_its_host_function_is_out, kRuns},
    {"a_stream_that_failed_cancels_its_replays", a_stream_that_failed_cancels_its_replays, kRuns},
    {"a_graph_that_is_dropped_hangs_nobody", a_graph_that_is_dropped_hangs_nobody, kRuns},
    {"a_device_that_is_closed_hangs_nobody", a_device_that_is_closed_hangs_nobody},
};

}  // namespace

const Suite kStepsSuite{"steps", "values published while the replay runs, and how steps end", kTests};

}  // namespace slipway::conformance
