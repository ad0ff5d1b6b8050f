// Marks and waits.
#include <future>
#include <thread>

#include "harness.h"

namespace slipway::conformance {
namespace {

void waiting_without_a_mark_is_no_wait(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Event event = device.create_event();
  check(event.query(), "an event that was never marked counts as passed");
  event.synchronize(kLimit);
  const std::uint64_t before = stream.submitted();
  stream.wait(event);
  check_equal(stream.submitted(), before, "a wait for nothing is not submitted");
  // A mark made later does not concern the earlier wait.
  const Stream other = device.create_stream();
  testing::Hold hold(device);
  hold.hold(other);
  other.mark(event);
  stream.synchronize(kLimit);
  check(!event.query(), "the mark pends");
  hold.release();
  event.synchronize(kLimit);
  check(event.query(), "the mark has passed");
}

// A wait means the mark that was last when it was submitted: a later mark neither delays nor fulfils it.
void marking_again_moves_no_earlier_wait(Context& c) {
  const Device& device = c.device();
  const Stream a = device.create_stream(), b = device.create_stream(), later = device.create_stream();
  const Event event = device.create_event();
  {
    testing::Hold hold_a(device), hold_later(device);
    hold_a.hold(a);
    hold_later.hold(later);
    a.mark(event);
    b.wait(event);
    later.mark(event);
    hold_a.release();
    b.synchronize(kLimit);  // would not end if it waited for the later mark
    check(!event.query(), "the event means its last mark now");
    check(!later.idle(), "the later mark has not passed");
    hold_later.release();
    event.synchronize(kLimit);
  }
  testing::Hold hold_a(device);
  hold_a.hold(a);
  a.mark(event);
  b.wait(event);
  later.mark(event);
  later.synchronize(kLimit);
  check(event.query(), "the later mark has passed");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  check(!b.idle(), "the earlier wait is not fulfilled by the later mark");
  hold_a.release();
  b.synchronize(kLimit);
}

void query_and_synchronize(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Event event = device.create_event();
  testing::Hold hold(device);
  hold.hold(stream);
  stream.mark(event);
  check(!event.query(), "a mark behind a hold has not passed");
  check_throws(ErrorCode::kTimeout, {}, [&] { event.synchronize(WaitLimit(20)); });
  auto opener = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    hold.release();
  });
  event.synchronize(kLimit);
  check(event.query(), "passed");
  opener.get();
  check_throws(ErrorCode::kInvalidArgument, {"the event", "empty handle"}, [&] { stream.mark(Event()); });
  check_throws(ErrorCode::kInvalidArgument, {"the event", "empty handle"}, [&] { stream.wait(Event()); });
}

void elapsed_time(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Event from = device.create_event({.timing = true}), to = device.create_event({.timing = true});
  const Event plain = device.create_event();
  check_throws(ErrorCode::kFailedPrecondition, {"never marked"}, [&] { (void)from.elapsed(to); });
  stream.mark(from);
  stream.host_function([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  testing::Hold hold(device);
  hold.hold(stream);
  stream.mark(to);
  stream.mark(plain);
  check_throws(ErrorCode::kFailedPrecondition, {"has not been passed"}, [&] { (void)from.elapsed(to); });
  hold.release();
  stream.synchronize(kLimit);
  const auto time = from.elapsed(to);
  check(time >= std::chrono::milliseconds(15) && time < std::chrono::seconds(15),
        "20 ms lie between the marks, and not " + std::to_string(time.count()) + " ns");
  check(to.elapsed(from) == -time, "the other way round it is negative");
  check_throws(ErrorCode::kFailedPrecondition, {"without timing"}, [&] { (void)from.elapsed(plain); });
  stream.mark(to);  // the last mark counts
  stream.synchronize(kLimit);
  check(from.elapsed(to) >= time, "marking again moves the time");
}

void an_older_mark_that_is_passed_late_does_not_count(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), slow = device.create_stream();
  const Event from = device.create_event({.timing = true}), to = device.create_event({.timing = true});
  testing::Hold hold(device);
  hold.hold(slow);
  slow.mark(to);
  stream.mark(from);
  stream.mark(to);
  stream.synchronize(kLimit);
  const auto time = from.elapsed(to);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that the two moments differ
  hold.release();
  slow.synchronize(kLimit);
  check(from.elapsed(to) == time, "the last mark's time stays");
}

void streams_hand_over_by_events(Context& c) {
  const Device& device = c.device();
  const Stream a = device.create_stream(), b = device.create_stream();
  const Event ab = device.create_event(), ba = device.create_event();
  const Kernel add = c.kernel("add");
  const Memory memory = zeros<float>(device, a, 4);
  const Tensor<float> t = memory.tensor<float>();
  for (int i = 0; i < 200; ++i) {
    a.wait(ba);
    a.launch(add, {}, t, t, 4, 1.0F);
    a.mark(ab);
    b.wait(ab);
    b.launch(add, {}, t, t, 4, 2.0F);
    b.mark(ba);
  }
  check_equal(download<float>(b, memory, 4), std::vector<float>(4, 600), "what two streams added in turn");
}

void one_event_for_many_waiters(Context& c) {
  const Device& device = c.device();
  const Kernel add = c.kernel("add");
  const Stream source = device.create_stream();
  const Event event = device.create_event();
  const Memory value = zeros<float>(device, source, 4);
  source.synchronize(kLimit);
  testing::Hold hold(device);
  hold.hold(source);
  source.launch(add, {}, value.tensor<float>(), value.tensor<const float>(), 4, 5.0F);
  source.mark(event);
  std::vector<Stream> waiters;
  std::vector<Memory> results;
  for (int i = 0; i < 20; ++i) {
    waiters.push_back(device.create_stream());
    results.push_back(device.allocate(16));
    waiters.back().wait(event);
    waiters.back().wait(event);  // twice is as once
    waiters.back().launch(add, {}, results.back().tensor<float>(), value.tensor<const float>(), 4,
                          static_cast<float>(i));
  }
  auto host_waiter = std::async(std::launch::async, [&] { event.synchronize(kLimit); });
  hold.release();
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    check_equal(download<float>(waiters[i], results[i], 4), std::vector<float>(4, 5 + static_cast<float>(i)),
                "what waiter " + std::to_string(i) + " read");
  }
  host_waiter.get();
}

// A stream that waits for a mark of its own submitted before has nothing to wait for; it must not stand still.
void waiting_for_oneself(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Event event = device.create_event();
  for (int i = 0; i < 20; ++i) {
    stream.mark(event);
    stream.wait(event);
  }
  stream.synchronize(kLimit);
}

void events_outlive_their_stream(Context& c) {
  const Device& device = c.device();
  const Stream waiter = device.create_stream();
  const Event event = device.create_event();
  testing::Hold hold(device);
  {
    const Stream gone = device.create_stream();
    hold.hold(gone);
    gone.mark(event);
  }
  waiter.wait(event);
  check(!event.query(), "the mark of a dropped stream pends like any other");
  for (int i = 0; i < 10; ++i) device.create_stream().synchronize(kLimit);
  check(!waiter.idle(), "the wait for it pends");
  hold.release();
  waiter.synchronize(kLimit);
  for (int i = 0; i < 10; ++i) device.create_stream().synchronize(kLimit);
  check(event.query(), "it stays passed when what its stream was made of is used again");
  waiter.wait(event);
  waiter.synchronize(kLimit);
}

void marks_and_waits_are_counted(Context& c) {
  const Device& device = c.device();
  const Stream a = device.create_stream(), b = device.create_stream();
  const Event event = device.create_event();
  const Counters before = device.counters();
  for (int i = 0; i < 5; ++i) a.mark(event);
  b.wait(event);
  a.synchronize(kLimit);
  b.synchronize(kLimit);
  const Counters after = device.counters();
  check_equal(after.event_marks - before.event_marks, 5U, "event marks");
  check_equal(after.event_waits - before.event_waits, 1U, "event waits");
}

constexpr Test kTests[] = {
    {"waiting_without_a_mark_is_no_wait", waiting_without_a_mark_is_no_wait},
    {"marking_again_moves_no_earlier_wait", marking_again_moves_no_earlier_wait},
    {"query_and_synchronize", query_and_synchronize},
    {"elapsed_time", elapsed_time},
    {"an_older_mark_that_is_passed_late_does_not_count", an_older_mark_that_is_passed_late_does_not_count},
    {"streams_hand_over_by_events", streams_hand_over_by_events, kRuns},
    {"one_event_for_many_waiters", one_event_for_many_waiters, kRuns},
    {"waiting_for_oneself", waiting_for_oneself},
    {"events_outlive_their_stream", events_outlive_their_stream},
    {"marks_and_waits_are_counted", marks_and_waits_are_counted},
};

}  // namespace

const Suite kEventsSuite{"events", "marks, waits, queries, times", kTests};

}  // namespace slipway::conformance
