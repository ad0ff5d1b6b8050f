// Order in a stream, many streams, several threads, back-pressure.
#include <atomic>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Ids = std::vector<std::uint32_t>;

Ids up_to(std::uint32_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), 0U);
  return ids;
}

using LogLaunch = TypedLaunch<Tensor<std::uint32_t>, std::uint32_t>;
LogLaunch plan_log(const Kernel& kernel) {
  return LaunchPlan::create(kernel, {.shape = LaunchShape{}}).typed<Tensor<std::uint32_t>, std::uint32_t>();
}

// B23: whatever way a launch takes, it does not overtake.
void every_way_keeps_order(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel log = c.kernel("log_id");
  const LaunchPlan plan = LaunchPlan::create(log);
  const LogLaunch typed = plan_log(log);
  constexpr std::uint32_t kCount = 3000;
  const Memory buffer = make_log(device, stream, kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Tensor<std::uint32_t> to = buffer.tensor<std::uint32_t>();
    const Argument arguments[] = {to, i};
    if (i % 3 == 0) stream.launch(log, {}, to, i);
    else if (i % 3 == 1) typed(stream, to, i);
    else plan.launch_arguments(stream, Extent{}, arguments);
  }
  check_equal(read_log(stream, buffer), up_to(kCount), "ids in the order of submission");
}

void copies_fills_and_launches_keep_order(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory memory = device.allocate(16);
  const Tensor<float> t = memory.tensor<float>();
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> start(4, static_cast<float>(i));
    stream.copy_to_device(memory.address(), start.data(), 16);
    stream.launch(add, {}, t, t, 4, 1.0F);
    stream.fill(offset(memory.address(), 8), 0, 4, 1);
    stream.launch(add, {}, t, t, 4, 2.0F);
    const float f = static_cast<float>(i) + 3;
    check_equal(download<float>(stream, memory, 4), std::vector<float>{f, f, 2, f}, "copy, add, fill, add");
  }
}

void many_streams(Context& c) {
  const Device& device = c.device();
  const Kernel log = c.kernel("log_id");
  std::vector<Stream> streams;
  std::vector<Memory> logs;
  for (int i = 0; i < 64; ++i) {
    streams.push_back(device.create_stream({.priority = i % 3 - 1, .ring_bytes = 16 << 10}));
    logs.push_back(make_log(device, streams.back(), 40));
  }
  for (std::uint32_t id = 0; id < 40; ++id) {
    for (std::size_t s = 0; s < streams.size(); ++s) streams[s].launch(log, {}, logs[s].tensor<std::uint32_t>(), id);
  }
  device.synchronize(kLimit);
  for (std::size_t s = 0; s < streams.size(); ++s) {
    check_equal(read_log(streams[s], logs[s]), up_to(40), "ids of stream " + std::to_string(s));
  }
}

void options_are_checked(Context& c) {
  const Device& device = c.device();
  for (const int priority : {-1, 0, 1}) device.create_stream({.priority = priority}).synchronize(kLimit);
  check_throws(ErrorCode::kInvalidArgument, {"-2"}, [&] { (void)device.create_stream({.priority = -2}); });
  check_throws(ErrorCode::kInvalidArgument, {"priority", "2"}, [&] { (void)device.create_stream({.priority = 2}); });
  check_throws(ErrorCode::kInvalidArgument, {"ring_bytes", "16384"},
               [&] { (void)device.create_stream({.ring_bytes = 100}); });
  check_throws(ErrorCode::kInvalidArgument, {"ring"}, [&] { (void)device.create_stream({.ring_bytes = 2U << 30}); });
  check_throws(ErrorCode::kInvalidArgument, {"the stream", "empty handle"}, [] { Stream().synchronize(); });
}

// More streams than workers, each waiting for the next or the one before: a worker that blocked in a wait
// would never come to the stream that is waited for.
void waits_in_both_directions(Context& c) {
  const Device& device = c.device();
  const Kernel log = c.kernel("log_id");
  constexpr std::size_t kStreams = 8;
  constexpr std::uint32_t kRounds = 20;
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(device.create_stream());
    events.push_back(device.create_event());
  }
  const Memory buffer = make_log(device, streams[0], kRounds * kStreams);
  streams[0].synchronize(kLimit);
  testing::Hold hold(device);
  for (const Stream& s : streams) hold.hold(s);
  std::uint32_t id = 0;
  std::size_t last = kStreams;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      const std::size_t s = round % 2 == 0 ? i : kStreams - 1 - i;
      if (last != kStreams) streams[s].wait(events[last]);
      streams[s].launch(log, {}, buffer.tensor<std::uint32_t>(), id++);
      streams[s].mark(events[s]);
      last = s;
    }
  }
  hold.release();
  device.synchronize(kLimit);
  check_equal(read_log(streams[0], buffer), up_to(id), "ids in the order of the waits");
}

void two_threads_submit_to_one_stream(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const LogLaunch log = plan_log(find_kernel(module, "log_id"));
  const Stream stream = device.create_stream({.ring_bytes = 32 << 10});
  constexpr std::uint32_t kEach = 2000;
  const Memory buffer = make_log(device, stream, 2 * kEach);
  const auto submit = [&](std::uint32_t from) {
    for (std::uint32_t i = 0; i < kEach; ++i) log(stream, buffer.tensor<std::uint32_t>(), from + i);
  };
  auto other = std::async(std::launch::async, submit, kEach);
  submit(0);
  other.get();
  Ids low, high;
  for (const std::uint32_t id : read_log(stream, buffer)) (id < kEach ? low : high).push_back(id);
  for (std::uint32_t& id : high) id -= kEach;
  check_equal(low, up_to(kEach), "the ids of one thread, in its order");
  check_equal(high, up_to(kEach), "the ids of the other thread, in its order");
  check(device.counters()[Reason::kStreamShared] >= 1, "that the stream became shared is counted");
}

void counts_and_idle(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
  stream.synchronize(kLimit);
  check(stream.idle(), "a stream whose work has passed is idle");
  const std::uint64_t start = stream.submitted();
  testing::Hold hold(device);
  hold.hold(stream);
  for (int i = 0; i < 10; ++i) stream.launch(count, {}, cnt.tensor<std::uint32_t>());
  check_equal(stream.submitted(), start + 11, "submitted: a hold and ten launches");
  check(stream.completed() <= start, "nothing behind a hold completes");
  check(!stream.idle(), "a held stream with work is not idle");
  hold.release();
  stream.synchronize(kLimit);
  check(stream.idle(), "idle again");
  check_equal(stream.completed(), stream.submitted(), "all has completed");
  const Stream fresh = device.create_stream();
  check_equal(fresh.submitted(), 0U, "a new stream has submitted nothing");
  check(fresh.idle(), "a new stream is idle");
}

void full_ring_waits_for_room(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const LogLaunch log = plan_log(find_kernel(module, "log_id"));
  const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
  constexpr std::uint32_t kCount = 4000;
  const Memory buffer = make_log(device, stream, kCount);
  stream.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(stream);
  std::atomic<std::uint32_t> submitted{0};
  auto opener = std::async(std::launch::async, [&] {
    wait_until([&] { return device.counters()[Reason::kRingFull] != 0; }, "the ring is full");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::uint32_t before = submitted.load();
    hold.release();
    return before;
  });
  for (std::uint32_t i = 0; i < kCount; ++i) {
    log(stream, buffer.tensor<std::uint32_t>(), i);
    submitted.store(i + 1);
  }
  check(opener.get() < kCount, "the submitter was held back");
  if (c.can(kRuns)) check_equal(read_log(stream, buffer), up_to(kCount), "ids, none lost");
  else stream.synchronize(kLimit);
}

void full_ring_times_out(Context& c) {
  const Device device = c.open("wait_limit_ms=100");
  const Module module = c.load(device);
  const Kernel log = find_kernel(module, "log_id");
  const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
  const Memory buffer = make_log(device, stream, 4000);
  stream.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(stream);
  std::uint32_t accepted = 0;
  check_throws(ErrorCode::kTimeout, {"room", "16384"}, [&] {
    for (; accepted < 4000; ++accepted) stream.launch(log, {}, buffer.tensor<std::uint32_t>(), accepted);
  });
  const std::uint64_t submitted = stream.submitted();
  check_throws(ErrorCode::kTimeout, {}, [&] { stream.launch(log, {}, buffer.tensor<std::uint32_t>(), 0U); });
  check_equal(stream.submitted(), submitted, "what was refused for want of room was not submitted");
  hold.release();
  if (c.can(kRuns)) check_equal(read_log(stream, buffer), up_to(accepted), "what had been submitted");
  else stream.synchronize(kLimit);
}

// B22: a plan is no stream's, and a stream that stands still holds up no other.
void a_held_stream_holds_up_no_other(Context& c) {
  const Device& device = c.device();
  const Kernel add = c.kernel("add");
  const auto plan = LaunchPlan::create(add, {.shape = LaunchShape{}})
                        .typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const Stream s0 = device.create_stream(), s1 = device.create_stream();
  const Memory a = zeros<float>(device, s0, 4), b = zeros<float>(device, s1, 4);
  plan(s0, a.tensor<float>(), a.tensor<float>(), 4, 1.0F);
  s0.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(s0);
  plan(s0, a.tensor<float>(), a.tensor<float>(), 4, 10.0F);
  plan(s1, b.tensor<float>(), b.tensor<float>(), 4, 5.0F);
  check_equal(download<float>(s1, b, 4), std::vector<float>(4, 5), "the launch on the other stream");
  check(!s0.idle(), "the held stream still stands");
  hold.release();
  check_equal(download<float>(s0, a, 4), std::vector<float>(4, 11), "the launches on the held stream");
}

// B22: streams come and go, and what they are made of is used again.
void streams_come_and_go(Context& c) {
  const Device& device = c.device();
  const Kernel log = c.kernel("log_id");
  const LogLaunch typed = plan_log(log);
  const Stream reader = device.create_stream();
  const Memory buffer = make_log(device, reader, 100);
  reader.synchronize(kLimit);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const Stream stream = device.create_stream();
    check_equal(stream.submitted(), 0U, "a new stream counts from nothing");
    typed(stream, buffer.tensor<std::uint32_t>(), i);
    if (i % 2 == 0) stream.synchronize(kLimit);
    else device.synchronize(kLimit);
  }
  check_equal(read_log(reader, buffer), up_to(100), "ids of a hundred streams");
}

void waits_end_at_their_limit(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory memory = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(stream);
  stream.launch(add, {}, memory.tensor<float>(), memory.tensor<const float>(), 4, 3.0F);
  const auto begin = std::chrono::steady_clock::now();
  check_throws(ErrorCode::kTimeout, {}, [&] { stream.synchronize(WaitLimit(30)); });
  check_throws(ErrorCode::kTimeout, {}, [&] { device.synchronize(WaitLimit(30)); });
  check_throws(ErrorCode::kTimeout, {}, [&] { stream.synchronize(WaitLimit(0)); });
  const auto took = std::chrono::steady_clock::now() - begin;
  check(took >= std::chrono::milliseconds(60) && took < std::chrono::seconds(10), "the waits took about their limits");
  hold.release();
  stream.synchronize(kLimit);
  if (c.can(kRuns))
    check_equal(download<float>(stream, memory, 4), std::vector<float>(4, 3), "the work stayed submitted");
}

void host_functions_stand_in_line(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  std::vector<int> order;
  std::atomic<bool> released{false}, early{false};
  testing::Hold hold(device);
  hold.hold(stream);
  for (int i = 0; i < 100; ++i) {
    stream.host_function([&, i] {
      if (!released.load()) early.store(true);
      order.push_back(i);
    });
  }
  released.store(true);
  hold.release();
  stream.synchronize(kLimit);
  check(!early.load(), "no host function ran before what was submitted before it");
  check_equal(order.size(), 100U, "host functions that ran");
  for (int i = 0; i < 100; ++i) check_equal(order[static_cast<std::size_t>(i)], i, "their order");
  check_throws(ErrorCode::kInvalidArgument, {"empty", "'nothing'"}, [&] { stream.host_function({}, "nothing"); });
}

void host_functions_see_what_ran_before(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory memory = zeros<float>(device, stream, 4);
  const HostMemory host = device.allocate_host(16);
  std::vector<float> seen;
  for (int i = 0; i < 50; ++i) {
    stream.launch(add, {}, memory.tensor<float>(), memory.tensor<const float>(), 4, 1.0F);
    stream.copy_to_host_async(host, 0, memory.address(), 16);
    stream.host_function([&] {
      auto* values = static_cast<float*>(host.data());
      seen.push_back(values[3]);
      values[0] = values[1] = values[2] = values[3] = values[3] + 100;
    });
    stream.copy_to_device_async(memory.address(), host, 0, 16);
  }
  stream.synchronize(kLimit);
  for (std::size_t i = 0; i < 50; ++i)
    check_equal(seen[i], static_cast<float>(1 + i * 101), "what the host function saw");
}

// B37: callbacks need the lock that the submitting thread holds; every wait of ours gives it up.
void callbacks_need_the_callers_lock(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Kernel count = find_kernel(module, "count");
  std::recursive_mutex lock;  // as an interpreter's lock: its holder may take it again
  std::atomic<int> depth{0}, ran{0};
  device.set_blocking_hooks([&] { --depth, lock.unlock(); }, [&] { lock.lock(), ++depth; });
  {
    const Stream stream = device.create_stream({.ring_bytes = 16 << 10});
    const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
    const std::lock_guard held(lock);
    for (int i = 0; i < 1000; ++i) {
      stream.host_function([&] {
        const std::lock_guard mine(lock);
        ++ran;
      });
      stream.launch(count, {}, cnt);
      if (i == 50) (void)c.load(device);
    }
    stream.synchronize(kLimit);
    check_equal(ran.load(), 1000, "callbacks that ran");
    const Event event = device.create_event();
    stream.host_function([&] { const std::lock_guard mine(lock); });
    stream.mark(event);
    event.synchronize(kLimit);
    stream.host_function([&] { const std::lock_guard mine(lock); });
    device.synchronize(kLimit);
    stream.host_function([&] { const std::lock_guard mine(lock); });
    device.close(kLimit);
  }
  check_equal(depth.load(), 0, "calls of leave without enter");
}

constexpr Test kTests[] = {
    {"every_way_keeps_order_B23", every_way_keeps_order, kRuns},
    {"copies_fills_and_launches_keep_order", copies_fills_and_launches_keep_order, kRuns},
    {"many_streams", many_streams, kRuns},
    {"options_are_checked", options_are_checked},
    {"waits_in_both_directions", waits_in_both_directions, kRuns},
    {"two_threads_submit_to_one_stream", two_threads_submit_to_one_stream, kRuns},
    {"counts_and_idle", counts_and_idle},
    {"full_ring_waits_for_room", full_ring_waits_for_room},
    {"full_ring_times_out", full_ring_times_out},
    {"a_held_stream_holds_up_no_other_B22", a_held_stream_holds_up_no_other, kRuns},
    {"streams_come_and_go_B22", streams_come_and_go, kRuns},
    {"waits_end_at_their_limit", waits_end_at_their_limit},
    {"callbacks_need_the_callers_lock_B37", callbacks_need_the_callers_lock},
    {"host_functions_stand_in_line", host_functions_stand_in_line},
    {"host_functions_see_what_ran_before", host_functions_see_what_ran_before, kRuns},
};

}  // namespace

const Suite kStreamsSuite{"streams", "order, many streams and threads, waits both ways, back-pressure, limits", kTests};

}  // namespace slipway::conformance
