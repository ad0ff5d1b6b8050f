// Capturing work, replaying it, and the values that change between replays.
#include <atomic>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Ids = std::vector<std::uint32_t>;

void captured_work_runs_when_it_is_replayed(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory small = zeros<std::uint8_t>(device, stream, 16), large = zeros<std::uint8_t>(device, stream, 100'000);
  const Memory sums = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  std::vector<std::uint8_t> few(8, 3), many(100'000, 7), back(16);
  std::atomic<int> called{0};
  Capture capture(stream);
  stream.copy_to_device(small.address(), few.data(), few.size());
  stream.copy_to_device(large.address(), many.data(), many.size());
  stream.fill(offset(small.address(), 8), 9, 1, 4);
  stream.copy(offset(small.address(), 12), large.address(), 4);
  stream.launch(c.kernel("add"), {.grid = {2, 1, 1}}, sums.tensor<float>(), sums.tensor<float>(), 4, 0.5F);
  stream.host_function([&] { ++called; });
  stream.copy_to_host(back.data(), small.address(), back.size());
  const GraphDefinition definition = capture.end();
  few.assign(8, 0);  // what is captured is the caller's no longer
  many.assign(100'000, 0);
  check_equal(definition.node_count(), std::size_t{7}, "nodes");
  stream.synchronize(kLimit);
  check_equal(called.load(), 0, "host functions that ran while they were captured");
  check_equal(download<float>(stream, sums, 4), std::vector<float>(4), "what a captured launch wrote");
  const ExecutableGraph graph = definition.instantiate();
  for (int i = 1; i <= 3; ++i) {
    back.assign(16, 0);
    stream.fill(small.address(), 0, 1, 16);
    graph.launch(stream);
    stream.synchronize(kLimit);
    const std::vector<std::uint8_t> wanted{3, 3, 3, 3, 3, 3, 3, 3, 9, 9, 9, 9, 7, 7, 7, 7};
    check_equal(back, wanted, "the bytes after replay " + std::to_string(i));
    check_equal(called.load(), i, "calls of the host function");
    check_equal(download<float>(stream, sums, 4), std::vector<float>(4, 0.5F * static_cast<float>(i)), "the sums");
  }
}

void a_replay_has_its_place_in_the_stream(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Kernel log = c.kernel("log_id");
  const Memory buffer = make_log(device, stream, 100);
  const Tensor<std::uint32_t> to = buffer.tensor<std::uint32_t>();
  Capture capture(stream);
  for (std::uint32_t i = 10; i < 15; ++i) stream.launch(log, {}, to, i);
  const ExecutableGraph graph = capture.end().instantiate();
  const Event done = device.create_event();
  stream.launch(log, {}, to, 1U);
  graph.launch(stream);
  stream.launch(log, {}, to, 2U);
  graph.launch(stream);
  stream.mark(done);
  other.wait(done);
  other.launch(log, {}, to, 3U);
  graph.launch(other);
  check_equal(read_log(other, buffer), Ids{1, 10, 11, 12, 13, 14, 2, 10, 11, 12, 13, 14, 3, 10, 11, 12, 13, 14},
              "ids in the order of submission");
}

void forks_and_joins_keep_their_order(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), side = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory a = zeros<float>(device, stream, 1), b = zeros<float>(device, stream, 1),
               sum = zeros<float>(device, stream, 1);
  stream.synchronize(kLimit);
  const Event fork = device.create_event(), join = device.create_event();
  Capture capture(stream);
  stream.launch(add, {}, a.tensor<float>(), a.tensor<float>(), 1, 1.0F);
  stream.mark(fork);
  side.wait(fork);
  side.launch(add, {}, b.tensor<float>(), a.tensor<float>(), 1, 10.0F);
  side.mark(join);
  stream.wait(join);
  stream.launch(add, {}, sum.tensor<float>(), b.tensor<float>(), 1, 100.0F);
  const ExecutableGraph graph = capture.end().instantiate();
  for (int i = 1; i <= 5; ++i) {
    graph.launch(stream);
    check_equal(download<float>(stream, sum, 1).front(), 110.0F + static_cast<float>(i), "a, then b, then the sum");
  }
  side.launch(add, {}, a.tensor<float>(), a.tensor<float>(), 1, 1.0F);  // the side stream works by itself again
  check_equal(download<float>(side, a, 1).front(), 6.0F, "after the graph");
}

template <class T>
void check_parameter(Context& c, const char* kernel, const std::vector<T>& values) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory out = zeros<T>(device, stream, 1);
  Capture capture(stream, kernel);
  const auto value = capture.parameter<T>("value");
  stream.launch(c.kernel(kernel), {}, out.tensor<T>(), value);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues step = graph.values();
  for (const T& v : values) {
    step.set(value, v);
    graph.launch(stream, step);
    const T got = download<T>(stream, out, 1).front();
    std::string what = kernel;
    what += " got other bits than were published";
    check(std::memcmp(&got, &v, sizeof(T)) == 0, what);
  }
}

void parameters_of_every_kind(Context& c) {
  check_parameter<std::int8_t>(c, "put_i8", {1, -128, 127});
  check_parameter<std::int16_t>(c, "put_i16", {1, -32768, 32767});
  check_parameter<std::int32_t>(c, "put_i32", {1, INT32_MIN, INT32_MAX});
  check_parameter<std::int64_t>(c, "put_i64", {1, INT64_MIN, INT64_MAX});
  check_parameter<std::uint8_t>(c, "put_u8", {1, 0, 255});
  check_parameter<std::uint16_t>(c, "put_u16", {1, 0, 65535});
  check_parameter<std::uint32_t>(c, "put_u32", {1, 0, UINT32_MAX});
  check_parameter<std::uint64_t>(c, "put_u64", {1, 0, UINT64_MAX});
  check_parameter<float>(c, "put_f32", {1.5F, -0.0F, 3e38F});
  check_parameter<double>(c, "put_f64", {1.5, -0.0, 1e300});
  check_parameter<Half>(c, "put_f16", {Half{0x3c00}, Half{0xfbff}});
}

void operations_compute_arguments_and_grids(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory counter = zeros<std::uint32_t>(device, stream, 1), seen = zeros<std::int32_t>(device, stream, 1);
  int calls = 0;
  Capture capture(stream, "split");
  const auto n = capture.parameter<std::int32_t>("n", 1);
  const Operation split = capture.operation("split", {n}, {OutputSpec::grid(), OutputSpec::argument(ArgKind::kI32)},
                                            [&calls](OperationCall& call) {
                                              ++calls;
                                              const auto value = call.input<std::int32_t>(0);
                                              if (value < 0) throw std::invalid_argument("negative");
                                              call.set_grid(0, {.x = value});
                                              call.set(1, value * 10);
                                            });
  stream.launch(c.kernel("count"), {.grid_from = split.grid(0)}, counter);
  stream.launch(c.kernel("put_i32"), {}, seen, split.output<std::int32_t>(1));
  stream.launch(c.kernel("count"), {.grid_from = split.grid(0)}, counter);
  const ExecutableGraph graph = capture.end().instantiate();
  calls = 0;
  StepValues values = graph.values();
  std::uint32_t blocks = 0;
  for (const std::int32_t value : {3, 0, 5, 1}) {  // to zero blocks and back
    values.set(n, value);
    graph.launch(stream, values);
    blocks += 2 * static_cast<std::uint32_t>(value);
    check_equal(download<std::uint32_t>(stream, counter, 1).front(), blocks, "blocks that ran");
    check_equal(download<std::int32_t>(stream, seen, 1).front(), value * 10, "the output of the operation");
  }
  check_equal(calls, 4, "calls of the operation");
  // A refusal leaves the step open: with other values it goes on.
  values.set(n, -1);
  std::uint64_t refused = 0;
  const Error error = check_throws(ErrorCode::kInvalidArgument, {"'split'", "(n = -1)", "negative", "stays open"},
                                   [&] { graph.launch(stream, values); });
  refused = error.sequence();
  check(error.submitted(), "the replay was submitted before its values were refused");
  graph.cancel({refused}, "no such length");
  check_throws(ErrorCode::kCancelled, {"no such length"}, [&] { stream.synchronize(kLimit); });
  graph.recover();
  values.set(n, 2);
  graph.launch(stream, values);
  check_equal(download<std::uint32_t>(stream, counter, 1).front(), blocks + 4, "blocks after recover()");
}

void external_operations_are_called_in_their_place(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory buffer = make_log(device, stream, 100);
  stream.synchronize(kLimit);
  std::vector<std::uint32_t> seen;
  std::uint32_t logged = 0, refused = 0;
  void* native = nullptr;
  Capture capture(stream, "external");
  const auto a = capture.parameter<std::uint32_t>("a"), b = capture.parameter<std::uint32_t>("b");
  const Operation sum = capture.operation(
      "sum", {a, b}, {OutputSpec::argument(ArgKind::kU32)},
      [](OperationCall& call) { call.set(0, call.input<std::uint32_t>(0) + call.input<std::uint32_t>(1)); });
  stream.launch(c.kernel("log_id"), {}, buffer, a);
  stream.copy_to_host(&logged, buffer.address(), 4);
  capture.external(stream, "vendor", {a, sum.output<std::uint32_t>(0)}, [&](ExternalCall& call) {
    native = call.native_stream();
    seen.insert(seen.end(), {call.input<std::uint32_t>(0), call.input<std::uint32_t>(1), logged});
    if (seen.back() == 3) throw std::runtime_error("boom");
    try {
      (void)call.input<float>(0);
    } catch (const Error& e) {
      refused += e.code() == ErrorCode::kInvalidArgument;
    }
  });
  stream.launch(c.kernel("log_id"), {}, buffer, b);
  const GraphDefinition definition = capture.end();
  check(seen.empty(), "it was called while it was captured");
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  for (std::uint32_t i = 1; i <= 2; ++i) {
    values.set(a, i);
    values.set(b, 10 * i);
    const Step step = graph.launch_open(stream, Publisher::kOtherThread);
    const auto run = [&] {  // in-line, publishing runs it
      graph.publish(step, values);
      stream.synchronize(kLimit);
    };
    if (i == 1) run();
    else check_throws(ErrorCode::kKernelFailed, {"'vendor'", "boom"}, run);
  }
  check_equal(seen, Ids{1, 11, 1, 2, 22, 3}, "the values of both steps, and what had run before");
  check_equal(refused, 1U, "inputs of another type that were refused");
  check((native != nullptr) == (c.driver().name == std::string_view("opencl")),
        "the native stream, where there is one");
  graph.recover();
  const Stream other = device.create_stream();
  check_throws(ErrorCode::kInvalidArgument, {"'vendor'", "not part of the capture"}, [&] {
    Capture next(stream);
    next.external(other, "vendor", {}, [](ExternalCall&) {});
  });
  check_equal(read_log(stream, buffer), Ids{1, 10, 2}, "ids: nothing behind the failure");
}

void executables_of_one_definition_are_independent(Context& c) {
  const Device& device = c.device();
  const Stream first = device.create_stream(), second = device.create_stream();
  const Memory buffer = make_log(device, first, 100);
  first.synchronize(kLimit);
  Capture capture(first);
  const auto id = capture.parameter<std::uint32_t>("id", 5U);
  first.launch(c.kernel("log_id"), {}, buffer, id);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph a = definition.instantiate(), b = definition.instantiate();
  StepValues for_a = a.values(), for_b = b.values();
  for_a.set(id, 1U);
  for_b.set(id, 2U);
  const Step open = a.launch_open(first, Publisher::kOtherThread);
  b.launch(second, for_b);  // not held up by the other's gate
  second.synchronize(kLimit);
  a.publish(open, for_a);
  a.wait(open, kLimit);
  b.launch(second, b.values());
  second.synchronize(kLimit);
  check_equal(read_log(first, buffer), Ids{2, 1, 5}, "ids of both executables");
}

void a_capture_that_is_abandoned_leaves_no_trace(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory buffer = make_log(device, stream, 10);
  const Tensor<std::uint32_t> to = buffer.tensor<std::uint32_t>();
  {
    Capture capture(stream);
    stream.launch(c.kernel("log_id"), {}, to, 1U);
    check_throws(ErrorCode::kFailedPrecondition, {"captur"}, [&] { stream.synchronize(kLimit); });
  }
  stream.launch(c.kernel("log_id"), {}, to, 2U);
  check_equal(read_log(stream, buffer), Ids{2}, "ids after the capture");
}

// Needs no kernel that runs: what was submitted is one replay, and the counters say so.
void replays_are_counted(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory memory = device.allocate(64);
  Capture capture(stream, "counted");
  const auto id = capture.parameter<std::uint32_t>("id");
  stream.launch(find_kernel(module, "log_id"), {}, memory, id);
  const ExecutableGraph graph = capture.end().instantiate({.depth = 4});
  StepValues values = graph.values();
  const std::uint64_t before = stream.submitted();
  for (std::uint32_t i = 0; i < 10; ++i) {
    stream.fill(memory.address(), 0, 4, 16);
    values.set(id, i);
    graph.launch(stream, values);
  }
  stream.synchronize(kLimit);
  const GraphCounters counters = graph.counters();
  check_equal(counters.launches, std::uint64_t{10}, "launches");
  check_equal(counters.published, std::uint64_t{10}, "published steps");
  check_equal(counters.replay_first, std::uint64_t{10}, "steps whose replay came first");
  check(stream.submitted() - before >= 20, "fills and replays were submitted");
  check(graph.passed({10}), "the last step has passed");
}

constexpr Test kTests[] = {
    {"captured_work_runs_when_it_is_replayed", captured_work_runs_when_it_is_replayed, kRuns},
    {"a_replay_has_its_place_in_the_stream", a_replay_has_its_place_in_the_stream, kRuns},
    {"forks_and_joins_keep_their_order", forks_and_joins_keep_their_order, kRuns},
    {"parameters_of_every_kind", parameters_of_every_kind, kRuns},
    {"operations_compute_arguments_and_grids", operations_compute_arguments_and_grids, kRuns},
    {"external_operations_are_called_in_their_place", external_operations_are_called_in_their_place, kRuns},
    {"executables_of_one_definition_are_independent", executables_of_one_definition_are_independent, kRuns},
    {"a_capture_that_is_abandoned_leaves_no_trace", a_capture_that_is_abandoned_leaves_no_trace, kRuns},
    {"replays_are_counted", replays_are_counted},
};

}  // namespace

const Suite kGraphsSuite{"graphs", "capture, replay, parameters and operations", kTests};

}  // namespace slipway::conformance
