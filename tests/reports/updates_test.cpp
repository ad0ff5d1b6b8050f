// B15: an update came before the previous replay had used its own. B18: an update waited for a graph that was never
// submitted. B31: an update reported success and kept the old values. B34: slots of updates were keyed too coarsely.
// B40, of graphs: what should be steady was not.
#include <malloc.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "report.h"

namespace slipway::reports {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A list whose first element is its length, and a graph that appends each step's value to it.
struct Appending {
  Memory list;
  ScalarParameter<std::uint32_t> value;
  GraphDefinition definition;
  ExecutableGraph graph;

  Appending(Context& c, const Device& device, const Stream& stream, const std::string& name, std::size_t room,
            unsigned depth, int busy_us = 0) {
    list = zeros<std::uint32_t>(device, stream, room + 1);
    stream.synchronize(kLimit);
    Capture capture(stream, name);
    value = capture.parameter<std::uint32_t>("value", 0);
    if (busy_us > 0) {
      // A replay that takes its time before it comes to its gate.
      stream.host_function([busy_us] {
        const auto end = Clock::now() + std::chrono::microseconds(busy_us);
        while (Clock::now() < end) {
        }
      });
    }
    stream.launch(c.kernel("log_id"), {}, list, value);
    definition = capture.end();
    graph = definition.instantiate({.depth = depth});
  }
  std::vector<std::uint32_t> read(const Stream& stream, std::size_t count) const {
    std::vector<std::uint32_t> values = download<std::uint32_t>(stream, list, count + 1);
    check_equal(values.front(), count, "the number of appended values");
    values.erase(values.begin());
    return values;
  }
};

// The host is not throttled, replays are slow, and two graphs are given the same values on streams of their own, while
// a third stream stands still from beginning to end. Values come from the thread that launches, or from another.
SLIPWAY_REPORT(B15_each_step_runs_with_its_own_values, kRunning) {
  const Device& device = c.device();
  for (const bool other_thread : {false, true}) {
    const bool slow = c.driver().name == std::string("opencl");
    const std::uint32_t kSteps = slow ? 60 : 300;
    const auto begin = Clock::now();
    const Stream main_stream = device.create_stream(), draft_stream = device.create_stream();
    const Stream unrelated = device.create_stream();
    const Memory cnt = zeros<std::uint32_t>(device, main_stream, 1);
    Appending main(c, device, main_stream, "main", kSteps, 2, 500), draft(c, device, draft_stream, "draft", kSteps, 3);
    testing::Hold hold(device);
    hold.hold(unrelated);
    unrelated.launch(c.kernel("count"), {}, cnt);
    std::atomic<std::uint32_t> launched{0};
    const auto publish = [&](std::uint32_t i) {
      StepValues a = main.graph.values(), b = draft.graph.values();
      a.set(main.value, i);
      b.set(draft.value, i);
      main.graph.publish({i + 1}, a);
      draft.graph.publish({i + 1}, b);
    };
    std::thread publisher;
    if (other_thread) {
      publisher = std::thread([&] {
        for (std::uint32_t i = 0; i < kSteps; ++i) {
          while (launched.load() <= i) std::this_thread::yield();
          publish(i);
        }
      });
    }
    for (std::uint32_t i = 0; i < kSteps; ++i) {
      const Publisher who = other_thread ? Publisher::kOtherThread : Publisher::kThisThread;
      (void)main.graph.launch_open(main_stream, who);
      (void)draft.graph.launch_open(draft_stream, who);
      launched.store(i + 1);
      if (!other_thread) publish(i);
    }
    if (publisher.joinable()) publisher.join();
    main_stream.synchronize(kLimit);
    draft_stream.synchronize(kLimit);
    check(seconds_since(begin) < 20, "neither the held stream nor an older step stalled the steps");
    std::vector<std::uint32_t> wanted(kSteps);
    for (std::uint32_t i = 0; i < kSteps; ++i) wanted[i] = i;
    check_equal(main.read(main_stream, kSteps), wanted, "the values of the main graph's steps");
    check_equal(draft.read(draft_stream, kSteps), wanted, "the values of the draft graph's steps");
    check_equal(download<std::uint32_t>(main_stream, cnt, 1).front(), 0U, "launches that ran on the held stream");
    hold.release();
    unrelated.synchronize(kLimit);
    check_equal(download<std::uint32_t>(unrelated, cnt, 1).front(), 1U, "launches on the stream that was held");
  }
}

// Nothing of an executable waits for a launch that never was: values, publishing, waiting, dropping.
SLIPWAY_REPORT(B18_a_graph_that_was_never_launched_holds_up_nothing, kEvery) {
  const Device device = c.open("wait_limit_ms=30000");
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  std::atomic<int> waits{0};
  const auto begin = Clock::now();
  std::optional<GraphDefinition> definition;
  ScalarParameter<std::int32_t> value;
  {
    Capture capture(stream, "unused");
    value = capture.parameter<std::int32_t>("value", 1);
    stream.launch(find_kernel(module, "put_i32"), {}, out, value);
    definition = capture.end();
  }
  device.set_blocking_hooks([&] { ++waits; }, [] {});
  for (int i = 0; i < 20; ++i) {  // made, given values, dropped, made again
    const ExecutableGraph graph = definition->instantiate();
    StepValues values = graph.values();
    values.set(value, 5 + i);
    for (const std::uint64_t step : {0U, 1U, 2U}) {
      check_throws(ErrorCode::kInvalidArgument, {"graph 'unused'", "launch it first"},
                   [&] { graph.publish({step}, values); });
    }
    check_throws(ErrorCode::kInvalidArgument, {"step 1", "was not launched"}, [&] { graph.wait({1}, WaitLimit(200)); });
    graph.recover();
    check_equal(graph.counters().launches, 0U, "launches");
  }
  check_equal(waits.load(), 0, "waits of the host");
  check_equal(stream.submitted(), stream.completed(), "submissions that pend");
  check(seconds_since(begin) < 10, "nothing waited for its limit");
  const ExecutableGraph graph = definition->instantiate();
  StepValues values = graph.values();
  values.set(value, 5);
  graph.launch(stream, values);
  if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), 5, "the value of the first launch");
  definition.reset();
  stream.synchronize(kLimit);
}

// Values of a later step leave alone what is queued, and last until they are set again.
SLIPWAY_REPORT(B18_an_update_in_flight_is_for_later_steps, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  Appending a(c, device, stream, "in flight", 16, 4);
  StepValues values = a.graph.values();
  {
    testing::Hold hold(device);
    hold.hold(stream);
    values.set(a.value, 1U);
    a.graph.launch(stream, values);
    values.set(a.value, 2U);
    a.graph.launch(stream, values);
  }
  a.graph.launch(stream, values);  // as it was left
  // Published in another order than they were launched in.
  std::vector<Step> steps;
  stream.synchronize(kLimit);
  for (int i = 0; i < 4; ++i) steps.push_back(a.graph.launch_open(stream));
  for (const std::uint32_t i : {3U, 1U, 0U, 2U}) {
    values.set(a.value, 10 + i);
    a.graph.publish(steps[i], values);
  }
  check_equal(a.read(stream, 7), std::vector<std::uint32_t>{1, 2, 2, 10, 11, 12, 13}, "the values in order");
}

// An update that fails half way is an error that names graph and cause; what is seen afterwards is all old or all new.
SLIPWAY_REPORT(B31_a_refused_update_is_no_success, kRunning) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  constexpr std::size_t kNodes = 32;
  const Memory outs = zeros<std::int32_t>(device, stream, kNodes * 64);
  stream.synchronize(kLimit);
  for (const std::int32_t bad :
       {101, 102, 103, 104}) {  // which of the operations refuses; the last: the kernel's range
    for (const Order order : {Order::kAuto, Order::kUpdateFirst}) {
      const Kernel put = module.kernel("put_i32", parse_signature("out tensor, i32 range=-1000..103"));
      Capture capture(stream, "halves");
      const auto value = capture.parameter<std::int32_t>("value", 7);
      std::vector<ParameterRef> sources;
      for (std::int32_t k = 101; k <= 103; ++k) {
        const Operation operation = capture.operation("op" + std::to_string(k), {value},
                                                      {OutputSpec::argument(ArgKind::kI32)}, [k](OperationCall& call) {
                                                        const auto v = call.input<std::int32_t>(0);
                                                        if (v == k) throw std::invalid_argument("no such value");
                                                        call.set(0, v);
                                                      });
        sources.push_back(operation.output_ref(0));
      }
      sources.push_back(value);
      for (std::size_t i = 0; i < kNodes; ++i)
        stream.launch(put, {}, outs.tensor<std::int32_t>(64 * i), sources[i % sources.size()]);
      const ExecutableGraph graph = capture.end().instantiate({.order = order});
      StepValues values = graph.values();
      const auto seen = [&] {
        const auto all = download<std::int32_t>(stream, outs, kNodes * 64);
        std::vector<std::int32_t> each;
        for (std::size_t i = 0; i < kNodes; ++i) each.push_back(all[64 * i]);
        return each;
      };
      const auto all = [](std::int32_t v) { return std::vector<std::int32_t>(kNodes, v); };
      graph.launch(stream, values);
      check_equal(seen(), all(7), "the first values");
      for (int round = 0; round < 3; ++round) {
        values.set(value, bad);
        const std::uint64_t submitted = stream.submitted();
        const Error error =
            check_throws(ErrorCode::kInvalidArgument, {"halves"}, [&] { graph.launch(stream, values); });
        if (!error.submitted()) {
          check_equal(stream.submitted(), submitted, "submissions of a step that was refused");
          check_equal(seen(), all(7), "what is seen where nothing was submitted: the old values");
        } else {
          check(bad != 104, "a range is known before anything is submitted");
          graph.cancel({error.sequence()}, "its values were refused");
          check_throws(ErrorCode::kCancelled, {"halves", "its values were refused"},
                       [&] { stream.synchronize(kLimit); });
          check_throws(ErrorCode::kCancelled, {"recover()"}, [&] { graph.launch(stream, values); });
          graph.recover();
        }
        values.set(value, 9);
        graph.launch(stream, values);
        check_equal(seen(), all(9), "the new values, everywhere");
        values.set(value, 7);
        graph.launch(stream, values);
        check_equal(seen(), all(7), "and the old ones again");
      }
    }
  }
}

// 9 over 7 in every kind of value there is.
SLIPWAY_REPORT(B31_each_kind_of_value_is_updated, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory out = zeros<std::uint64_t>(device, stream, 64), cnt = zeros<std::uint32_t>(device, stream, 1);
  stream.synchronize(kLimit);
  std::atomic<std::int32_t> external{0};
  Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n", 7);
  const auto wide = capture.parameter<std::int64_t>("wide", 7);
  const auto real = capture.parameter<double>("real", 7);
  const auto byte = capture.parameter<std::uint8_t>("byte", 7);
  const auto point = capture.parameter<conformance::Point>("point", {7, 7, 7});
  const Operation grid = capture.operation("grid", {n}, {OutputSpec::grid(), OutputSpec::argument(ArgKind::kI32)},
                                           [](OperationCall& call) {
                                             call.set_grid(0, {.x = call.input<std::int32_t>(0)});
                                             call.set(1, call.input<std::int32_t>(0));
                                           });
  const auto at = [&](std::uint64_t i) { return out.tensor<std::uint64_t>(i * 8); };
  const auto alignment = device.info().tensor_alignment;
  check(alignment <= 64 || c.driver().name == std::string("opencl"), "places lie where tensors may begin");
  std::vector<Memory> own;
  const auto place = [&](std::uint64_t i) -> Argument {
    if (alignment <= 64) return at(i).address;
    own.push_back(device.allocate(64));
    return own.back();
  };
  const Argument places[] = {place(0), place(1), place(2), place(3), place(4), place(5)};
  stream.launch(c.kernel("put_i32"), {}, places[0], n);
  stream.launch(c.kernel("put_i64"), {}, places[1], wide);
  stream.launch(c.kernel("put_f64"), {}, places[2], real);
  stream.launch(c.kernel("put_u8"), {}, places[3], byte);
  stream.launch(c.kernel("point"), {}, places[4], point);
  stream.launch(c.kernel("put_i32"), {}, places[5], grid.output<std::int32_t>(1));
  stream.launch(c.kernel("count"), {.grid_from = grid.grid(0)}, cnt);
  capture.external(stream, "external", {n}, [&](ExternalCall& call) { external = call.input<std::int32_t>(0); });
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  std::uint32_t blocks = 0;
  for (const int v : {7, 9, 8, 9}) {
    values.set(n, v);
    values.set(wide, std::int64_t{v});
    values.set(real, static_cast<double>(v));
    values.set(byte, static_cast<std::uint8_t>(v));
    values.set(point, conformance::Point{static_cast<float>(v), v, static_cast<double>(v)});
    graph.launch(stream, values);
    blocks += static_cast<std::uint32_t>(v);
    check_equal(download<std::uint32_t>(stream, cnt, 1).front(), blocks, "blocks that ran");
    check_equal(external.load(), v, "the value of the external operation");
    const auto bytes_at = [&](int i) {
      const DevicePtr from{places[i].as_unsigned()};
      return download<std::uint8_t>(stream, from, 24);
    };
    const auto expect = [&](int i, const void* wanted, std::size_t size) {
      check(std::memcmp(bytes_at(i).data(), wanted, size) == 0,
            "value " + std::to_string(i) + " is " + std::to_string(v));
    };
    const std::int64_t as_wide = v;
    const double as_real = v;
    const float as_float = static_cast<float>(v);
    const std::uint8_t as_byte = static_cast<std::uint8_t>(v);
    expect(0, &v, 4);
    expect(1, &as_wide, 8);
    expect(2, &as_real, 8);
    expect(3, &as_byte, 1);
    expect(4, &as_float, 4);  // the bits of its first member
    expect(5, &v, 4);
  }
}

// 2000 updates of 32 nodes take no more memory than two.
SLIPWAY_REPORT(B31_updates_take_no_memory, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  Capture capture(stream);
  std::vector<ScalarParameter<std::int32_t>> parameters;
  for (int i = 0; i < 32; ++i) {
    parameters.push_back(capture.parameter<std::int32_t>("v" + std::to_string(i), 7));
    stream.launch(find_kernel(module, "put_i32"), {}, out, parameters.back());
  }
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  const auto update = [&](int i) {
    for (const auto& p : parameters) values.set(p, i);
    graph.launch(stream, values);
    stream.synchronize(kLimit);
    (void)testing::take_stored(device);
  };
  for (int i = 0; i < 2; ++i) update(i);
  const Counters before = device.counters();
  const auto heap = static_cast<std::int64_t>(mallinfo2().uordblks);
  for (int i = 2; i < (c.driver().name == std::string("opencl") ? 100 : 2000); ++i) update(i);
  const auto grown = static_cast<std::int64_t>(mallinfo2().uordblks) - heap;
  const Counters after = device.counters();
  check_equal(after.live_memory_bytes, before.live_memory_bytes, "device memory");
  check_equal(after.staged_bytes, 0U, "staging blocks");
  // Where the device itself keeps something of each launch, the heap says nothing about the updates.
  if (c.driver().name == std::string("cpu")) check(grown < 32 * 1024, "the heap grew by " + std::to_string(grown));
}

// Two graphs that look the same from outside: the same name, parameters and number of values, but other nodes.
SLIPWAY_REPORT(B34_graphs_of_one_shape_share_nothing, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Memory in = upload(device, stream, std::vector<float>(4, 10));
  const Memory out = zeros<float>(device, stream, 4), second = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  struct Variant {
    GraphDefinition definition;
    ScalarParameter<float> value;
    ExecutableGraph graph;
  };
  const auto make = [&](int nodes) {
    Variant v;
    Capture capture(stream, "decode of 4");
    v.value = capture.parameter<float>("value", 0);
    for (int i = 0; i < nodes; ++i) stream.launch(c.kernel("add"), {}, i == 0 ? out : second, in, 4, v.value);
    v.definition = capture.end();
    v.graph = v.definition.instantiate();
    return v;
  };
  const Variant base = make(1), variant = make(2);
  StepValues of_base = base.graph.values(), of_variant = variant.graph.values();
  check_throws(ErrorCode::kInvalidNode, {"decode of 4"}, [&] { variant.graph.launch(stream, of_base); });
  check_throws(ErrorCode::kInvalidNode, {"decode of 4"}, [&] { of_variant.set(base.value, 1.0F); });
  for (int i = 0; i < 10; ++i) {
    const float b = static_cast<float>(i), v = static_cast<float>(100 + i);
    of_base.set(base.value, b);
    base.graph.launch(stream, of_base);
    check_equal(download<float>(stream, out, 1).front(), 10 + b, "the base graph");
    of_variant.set(variant.value, v);
    variant.graph.launch(stream, of_variant);
    check_equal(download<float>(stream, out, 1).front(), 10 + v, "the variant");
    check_equal(download<float>(stream, second, 1).front(), 10 + v, "the variant's second node");
  }
  // An open step of the one holds up nothing of the other, not even for the thread that owes its values.
  const Step open = base.graph.launch_open(stream);
  for (int i = 0; i < 4; ++i) {
    const Step step = variant.graph.launch_open(other);
    of_variant.set(variant.value, static_cast<float>(i));
    variant.graph.publish(step, of_variant);
    variant.graph.wait(step, kLimit);
  }
  check_equal(download<float>(other, second, 1).front(), 13.0F, "the variant, beside an open step of the base");
  check(!base.graph.passed(open), "the open step stays open");
  of_base.set(base.value, 5.0F);
  base.graph.publish(open, of_base);
  check_equal(download<float>(stream, out, 1).front(), 15.0F, "the base graph, at last");
}

// What a launch costs does not grow faster than the graph, whether all its values change or none. Times are the least
// of many rounds, taken in turns; what grows with the square is beyond every noise, and stays so in all of them.
SLIPWAY_REPORT(B40_updates_grow_with_the_graph_and_no_faster, kInline) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  struct Timed {
    ScalarParameter<std::int32_t> value;
    ExecutableGraph graph;
    StepValues values;
    double same = std::numeric_limits<double>::max(), changed = same, host = same;
  };
  const auto make = [&](int nodes) {
    Timed t;
    Capture capture(stream);
    t.value = capture.parameter<std::int32_t>("value", 1);
    for (int i = 0; i < nodes; ++i) stream.launch(c.kernel("put_i32"), {}, out, t.value);
    t.graph = capture.end().instantiate();
    t.values = t.graph.values();
    return t;
  };
  std::int32_t last = 1;
  const auto measure = [&](Timed& t) {
    const auto timed = [&](double& least, bool change) {
      if (change) t.values.set(t.value, ++last);
      const std::uint64_t submitted = stream.submitted();
      const auto begin = Clock::now();
      t.graph.launch(stream, t.values);
      least = std::min(least, seconds_since(begin));
      check_equal(stream.submitted() - submitted, 1U, "submissions of a step");
    };
    timed(t.same, false);
    timed(t.changed, true);
    testing::Hold hold(device);
    hold.hold(stream);
    timed(t.host, false);
  };
  constexpr double kMost = 16;  // times the cost, for eight times the nodes
  Timed small = make(1024), large = make(8192);
  const auto grows = [&] {
    return std::max({large.same / small.same, large.changed / small.changed, large.host / small.host});
  };
  for (int round = 0; round < 20 || (round < 200 && grows() > kMost); ++round) {
    measure(small);
    measure(large);
  }
  stream.synchronize(kLimit);
  check(large.same <= kMost * small.same, "unchanged: " + std::to_string(large.same / small.same));
  check(large.changed <= kMost * small.changed, "changed: " + std::to_string(large.changed / small.changed));
  check(large.host <= kMost * small.host, "submitting: " + std::to_string(large.host / small.host));
}

// Refused updates leave no mark on the graph: what follows takes the same way as before.
SLIPWAY_REPORT(B40_refused_updates_are_forgotten, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  Capture capture(stream);
  const auto value = capture.parameter<std::int32_t>("value", 1);
  const Operation check_it =
      capture.operation("check", {value}, {OutputSpec::argument(ArgKind::kI32)}, [](OperationCall& call) {
        if (call.input<std::int32_t>(0) < 0) throw std::invalid_argument("negative");
        call.set(0, call.input<std::int32_t>(0));
      });
  stream.launch(find_kernel(module, "put_i32"), {}, out, check_it.output<std::int32_t>(0));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  for (int i = 0; i < 10; ++i) {
    values.set(value, -1);
    const Error error = check_throws(ErrorCode::kInvalidArgument, {"negative"}, [&] { graph.launch(stream, values); });
    if (i % 2 == 0) {
      values.set(value, 3);
      check_throws(ErrorCode::kInvalidArgument, {"other values"}, [&] { graph.publish({error.sequence()}, values); });
    }
    graph.cancel({error.sequence()}, "refused");
    graph.recover();
  }
  stream.synchronize(kLimit);
  const GraphCounters before = graph.counters();
  const std::uint64_t submitted = stream.submitted();
  for (int i = 0; i < 100; ++i) {
    values.set(value, i);
    graph.launch(stream, values);
  }
  const GraphCounters after = graph.counters();
  check_equal(stream.submitted() - submitted, std::uint64_t{100}, "submissions");
  check_equal(after.replay_first - before.replay_first, std::uint64_t{100}, "steps submitted before their values");
  check_equal(after.published - before.published, std::uint64_t{100}, "steps published");
  check_equal(after.cancelled - before.cancelled, std::uint64_t{0}, "steps cancelled");
  if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), 99, "the last value");
}

}  // namespace
}  // namespace slipway::reports
