// Conditional nodes: no device runs them otherwise than the host expects.
#include <atomic>
#include <thread>

#include "harness.h"

namespace slipway::conformance {
namespace {

using Ids = std::vector<std::uint32_t>;

struct Rig {
  Context& c;
  const Device& device = c.device();
  Stream stream = device.create_stream();
  Kernel log = c.kernel("log_id"), put = c.kernel("put_u32"), count = c.kernel("count");
  Memory buffer = make_log(device, stream, 1000);
  Memory condition = zeros<std::uint32_t>(device, stream, 128);

  // Two of them, where a tensor may begin on every device.
  Tensor<std::uint32_t> at(std::uint64_t i) const { return condition.tensor<std::uint32_t>(64 * i); }
  GraphBody logs(std::uint32_t id) const {
    return [this, id](const Stream& s) { s.launch(log, {}, buffer.tensor<std::uint32_t>(), id); };
  }
  Ids ran() {
    Ids ids = read_log(stream, buffer);
    stream.fill(buffer.address(), 0, 4, 1);
    return ids;
  }
};

void if_and_switch_take_the_body_that_the_host_expects(Context& c) {
  Rig rig{c};
  const auto as = [&](DType type) { return Condition(rig.condition.address(), type); };
  Capture capture(rig.stream, "ways");
  const auto value = capture.parameter<std::uint32_t>("value");
  rig.stream.launch(rig.put, {}, rig.at(0), value);
  capture.if_node(rig.stream, as(DType::kU32), rig.logs(1));
  capture.if_node(rig.stream, as(DType::kBool), rig.logs(2));
  capture.if_else_node(rig.stream, as(DType::kI32), rig.logs(3), rig.logs(4));
  capture.switch_node(rig.stream, as(DType::kI32), {rig.logs(10), nullptr, rig.logs(12)});
  capture.switch_node(rig.stream, as(DType::kU32), {rig.logs(20), rig.logs(21)});
  rig.logs(5)(rig.stream);
  const ExecutableGraph graph = capture.end().instantiate({.depth = 4});
  StepValues values = graph.values();
  Ids wanted;
  for (const std::uint32_t v : {0U, 1U, 2U, 3U, 256U, 0xffffffffU, 0x80000000U, 2U, 0U}) {
    values.set(value, v);
    graph.launch(rig.stream, values);
    if (v != 0) wanted.push_back(1);
    if ((v & 255) != 0) wanted.push_back(2);
    wanted.push_back(v != 0 ? 3 : 4);
    if (v == 0 || v == 2) wanted.push_back(10 + v);
    if (v < 2) wanted.push_back(20 + v);
    wanted.push_back(5);
  }
  check_equal(rig.ran(), wanted, "the ids of all steps");
}

// The condition counts up to zero, so each turn changes what the next one reads.
void loops_turn_as_often_as_the_device_says(Context& c) {
  Rig rig{c};
  Capture capture(rig.stream, "loops");
  const auto outer = capture.parameter<std::uint32_t>("outer"), inner = capture.parameter<std::uint32_t>("inner");
  const auto id = capture.parameter<std::uint32_t>("id");
  rig.stream.launch(rig.put, {}, rig.at(0), outer);
  capture.while_node(rig.stream, rig.at(0), [&](const Stream& s) {
    s.launch(rig.put, {}, rig.at(1), inner);
    capture.while_node(
        s, rig.at(1),
        [&](const Stream& t) {
          t.launch(rig.log, {}, rig.buffer.tensor<std::uint32_t>(), id);
          t.launch(rig.count, {}, rig.at(1));
        },
        10);
    s.launch(rig.log, {}, rig.buffer.tensor<std::uint32_t>(), 7U);
    s.launch(rig.count, {}, rig.at(0));
  });
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  Ids wanted;
  for (std::uint32_t step = 0; step < 6; ++step) {
    const std::uint32_t turns = step % 3, nested = step % 4;
    values.set(outer, 0U - turns);
    values.set(inner, 0U - nested);
    values.set(id, 100 + step);
    graph.launch(rig.stream, values);
    for (std::uint32_t i = 0; i < turns; ++i) {
      wanted.insert(wanted.end(), nested, 100 + step);
      wanted.push_back(7);
    }
  }
  check_equal(rig.ran(), wanted, "the ids of all turns");
}

void values_reach_only_the_way_that_is_taken(Context& c) {
  Rig rig{c};
  int called = 0;
  Capture capture(rig.stream, "values");
  const auto way = capture.parameter<std::uint32_t>("way"), v = capture.parameter<std::uint32_t>("v");
  const auto times = [&](const char* name, std::uint32_t factor) {
    return capture.operation(name, {v}, {OutputSpec::argument(ArgKind::kU32)},
                             [factor](OperationCall& call) { call.set(0, call.input<std::uint32_t>(0) * factor); });
  };
  const Operation twice = times("twice", 2), thrice = times("thrice", 3);
  const auto log = [&](const Operation& op) {
    return [&, op](const Stream& s) {
      s.launch(rig.log, {}, rig.buffer.tensor<std::uint32_t>(), op.output<std::uint32_t>(0));
    };
  };
  rig.stream.launch(rig.put, {}, rig.at(0), way);
  capture.if_else_node(
      rig.stream, rig.at(0),
      [&](const Stream& s) {
        log(twice)(s);
        s.host_function([&] { ++called; });
        capture.external(s, "external", {v}, [&](ExternalCall& call) { called += call.input<std::uint32_t>(0) < 100; });
      },
      log(thrice));
  log(thrice)(rig.stream);
  const ExecutableGraph graph = capture.end().instantiate({.depth = 2});
  StepValues values = graph.values();
  Ids wanted;
  int calls = 0;
  for (std::uint32_t step = 1; step <= 30; ++step) {
    const std::uint32_t taken = step % 5 < 2 ? 1 : 0;
    values.set(way, taken);
    values.set(v, step);
    if (step % 2 == 0) {
      graph.launch(rig.stream, values);
    } else {
      const Step open = graph.launch_open(rig.stream);
      graph.publish(open, values);
    }
    wanted.insert(wanted.end(), {taken != 0 ? 2 * step : 3 * step, 3 * step});
    calls += taken != 0 ? 2 : 0;
  }
  check_equal(rig.ran(), wanted, "the ids of all steps");
  check_equal(called, calls, "host functions and external operations that ran");
}

void a_loop_ends_at_its_limit_and_when_it_is_cancelled(Context& c) {
  Rig rig{c};
  std::atomic<int> turns{0};
  const auto make = [&](std::uint64_t most) {
    Capture capture(rig.stream, "endless");
    capture.while_node(
        rig.stream, rig.at(0),
        [&](const Stream& s) {
          rig.logs(1)(s);
          s.host_function([&] { ++turns; });
          s.fill(rig.buffer.address(), 0, 4, 1);
        },
        most);
    rig.logs(2)(rig.stream);
    return capture.end().instantiate();
  };
  const ExecutableGraph limited = make(5), endless = make(UINT64_MAX);
  rig.stream.fill(rig.condition.address(), 1, 4, 1);
  limited.launch(rig.stream);
  check_throws(ErrorCode::kTimeout, {"'endless'", "after 5 turns"}, [&] { rig.stream.synchronize(kLimit); });
  check_equal(turns.load(), 5, "turns before the limit");
  limited.recover();
  turns = 0;
  std::thread canceller([&] {
    wait_until([&] { return turns > 3; }, "turns of the loop");
    endless.cancel({1}, "enough");
  });
  endless.launch(rig.stream);
  canceller.join();
  check_throws(ErrorCode::kCancelled, {"enough"}, [&] { rig.stream.synchronize(kLimit); });
  endless.recover();
  for (const std::uint32_t id : rig.ran()) check_equal(id, 1U, "what follows a loop that failed");
  rig.stream.fill(rig.condition.address(), 0, 4, 1);
  endless.launch(rig.stream);
  check_equal(rig.ran(), Ids{2}, "what follows a loop that takes no turn");
}

void a_graph_with_a_loop_becomes_a_body(Context& c) {
  Rig rig{c};
  ExecutableGraph child;
  {
    Capture capture(rig.stream, "child");
    const auto n = capture.parameter<std::uint32_t>("n", 0U - 2U);
    rig.stream.launch(rig.put, {}, rig.at(1), n);
    capture.while_node(rig.stream, rig.at(1), [&](const Stream& s) {
      rig.logs(1)(s);
      s.launch(rig.count, {}, rig.at(1));
    });
    child = capture.end().instantiate();
  }
  Capture capture(rig.stream, "parent");
  const auto way = capture.parameter<std::uint32_t>("way");
  rig.stream.launch(rig.put, {}, rig.at(0), way);
  capture.if_node(rig.stream, rig.at(0), [&](const Stream& s) {
    child.launch(s, child.values());
    rig.logs(2)(s);
  });
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  Ids wanted;
  for (std::uint32_t step = 0; step < 6; ++step) {
    values.set(way, step % 2);
    values.set(definition.parameter<std::uint32_t>("child/n"), 0U - step);
    graph.launch(rig.stream, values);
    if (step % 2 == 0) continue;
    wanted.insert(wanted.end(), step, 1);
    wanted.push_back(2);
  }
  check_equal(rig.ran(), wanted, "the ids of all steps");
}

// Memory is zero here, and counts as zero where nothing runs: no body is taken, and everybody agrees.
void conditions_move_when_the_graph_is_rebound(Context& c) {
  Rig rig{c};
  Memory moved = zeros<std::uint32_t>(rig.device, rig.stream, 128);
  Capture capture(rig.stream, "moving");
  capture.if_else_node(rig.stream, rig.at(0), rig.logs(1), rig.logs(2));
  rig.stream.launch(rig.put, {}, rig.at(0), 5U);
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(rig.stream);
  graph.launch(rig.stream);
  check_equal(rig.ran(), Ids{2, 1}, "before");
  graph.rebind(rig.condition.address(), 512, moved.address());
  rig.stream.fill(rig.condition.address(), 0, 4, 1);
  graph.launch(rig.stream);  // where it lies now is still zero
  graph.launch(rig.stream);
  check_equal(rig.ran(), Ids{2, 1}, "behind the move");
  std::uint32_t left = 1;
  rig.stream.copy_to_host(&left, rig.condition.address(), 4);
  rig.stream.synchronize(kLimit);
  check_equal(left, 0U, "what lay there before");
}

void a_self_check_takes_the_same_way(Context& c) {
  Rig rig{c};
  Capture capture(rig.stream, "checked");
  const auto turns = capture.parameter<std::uint32_t>("turns");
  rig.stream.launch(rig.put, {}, rig.at(0), turns);
  capture.while_node(rig.stream, rig.at(0), [&](const Stream& s) {
    rig.logs(1)(s);
    s.launch(rig.count, {}, rig.at(0));
  });
  capture.if_node(rig.stream, rig.at(0), rig.logs(2));
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(turns, 0U - 3);
  const SelfCheckResult result = self_check(graph, rig.stream, values);
  check(result.equal, "a replay differs from its nodes: " + result.difference);
  check_equal(result.nodes_run, std::size_t{1 + 3 * 2}, "nodes that ran one at a time");
  check_equal(rig.ran(), Ids{}, "what is left of it");
}

void conditions_that_are_zero_take_no_body(Context& c) {
  Rig rig{c};
  std::atomic<int> called{0}, last{0};
  const GraphBody calls = [&](const Stream& s) { s.host_function([&] { ++called; }); };
  Capture capture(rig.stream);
  const auto id = capture.parameter<std::uint32_t>("id");
  capture.if_node(rig.stream, rig.at(0), calls);
  capture.while_node(rig.stream, rig.at(0), calls);
  capture.if_else_node(
      rig.stream, rig.at(0), [&](const Stream& s) { s.launch(rig.log, {}, rig.buffer.tensor<std::uint32_t>(), id); },
      [&](const Stream& s) { s.host_function([&] { ++last; }); });
  const ExecutableGraph graph = capture.end().instantiate({.depth = 1});
  StepValues values = graph.values();
  for (int i = 0; i < 10; ++i) graph.launch(rig.stream, values);
  rig.stream.synchronize(kLimit);
  check_equal(called.load(), 0, "bodies that ran");
  check_equal(last.load(), 10, "bodies of else that ran");
  check_equal(graph.counters().published, std::uint64_t{10}, "published steps");
}

void conditions_are_checked(Context& c) {
  Rig rig{c};
  const auto none = [&](const Stream& s) { rig.logs(1)(s); };
  Capture capture(rig.stream, "checked");
  check_throws(ErrorCode::kInvalidArgument, {"null address"},
               [&] { capture.if_node(rig.stream, Condition(kNullDevicePtr, DType::kI32), none); });
  check_throws(ErrorCode::kInvalidArgument, {"of type f32"},
               [&] { capture.while_node(rig.stream, rig.condition.tensor<float>(), none); });
  check_throws(ErrorCode::kOutOfRange, {"only 2 left"}, [&] {
    capture.if_node(rig.stream, Condition(offset(rig.condition.address(), 510), DType::kU32), none);
  });
  if (!rig.device.info().host_addressable) {
    check_throws(ErrorCode::kInvalidArgument, {"in no memory of this device"},
                 [&] { capture.if_node(rig.stream, Condition(DevicePtr{4096}, DType::kU32), none); });
  }
}

constexpr Test kTests[] = {
    {"if_and_switch_take_the_body_that_the_host_expects", if_and_switch_take_the_body_that_the_host_expects, kRuns},
    {"loops_turn_as_often_as_the_device_says", loops_turn_as_often_as_the_device_says, kRuns},
    {"values_reach_only_the_way_that_is_taken", values_reach_only_the_way_that_is_taken, kRuns},
    {"a_loop_ends_at_its_limit_and_when_it_is_cancelled", a_loop_ends_at_its_limit_and_when_it_is_cancelled, kRuns},
    {"a_graph_with_a_loop_becomes_a_body", a_graph_with_a_loop_becomes_a_body, kRuns},
    {"conditions_move_when_the_graph_is_rebound", conditions_move_when_the_graph_is_rebound, kRuns},
    {"a_self_check_takes_the_same_way", a_self_check_takes_the_same_way, kRuns},
    {"conditions_that_are_zero_take_no_body", conditions_that_are_zero_take_no_body},
    {"conditions_are_checked", conditions_are_checked},
};

}  // namespace

const Suite kConditionalsSuite{"conditionals", "conditional nodes of graphs", kTests};

}  // namespace slipway::conformance
