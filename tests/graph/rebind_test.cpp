// Rebinding: an executable's work goes on with memory elsewhere.
#include <optional>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Rebinding : public GraphOn {
 protected:
  Memory numbers(std::int32_t value, std::uint64_t bytes = 256) {
    Memory memory = device.allocate(bytes);
    stream.fill(memory.address(), static_cast<std::uint32_t>(value), 4, bytes / 4);
    return memory;
  }
  std::int32_t first(const Memory& memory) {
    std::int32_t value = 0;
    stream.copy_to_host(&value, memory.address(), 4);
    stream.synchronize();
    return value;
  }
};

TEST_P(Rebinding, MovesBothSidesOfCopiesFillsAndArguments) {
  std::optional<Memory> old(numbers(1));
  const Memory other = numbers(5), target = numbers(0);
  std::int32_t seen = 0;
  Capture capture(stream, "moving");
  stream.launch(module.kernel("sum"), {}, target.tensor<std::int32_t>(), old->tensor<std::int32_t>(),
                old->tensor<std::int32_t>(1));
  stream.copy(offset(target.address(), 16), offset(old->address(), 32), 16);
  stream.copy(offset(old->address(), 64), other.address(), 16);
  stream.fill(offset(old->address(), 128), 7, 4, 2);
  stream.copy_to_host(&seen, offset(old->address(), 4), 4);
  const std::int32_t nine = 9;
  stream.copy_to_device(offset(old->address(), 192), &nine, 4);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate(), second = definition.instantiate();
  graph.launch(stream);
  stream.synchronize();
  const DevicePtr where = old->address();
  const Memory moved = numbers(100);
  old.reset();
  expect_error(ErrorCode::kStaleAddress, "that was freed", [&] { graph.launch(stream); });
  graph.rebind(where, 256, moved.address());
  EXPECT_EQ(graph.counters().rebinds, 1U);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(first(target), 200);
  std::vector<std::int32_t> now(64), copied(64);
  stream.copy_to_host(now.data(), moved.address(), 256);
  stream.copy_to_host(copied.data(), target.address(), 256);
  stream.synchronize();
  EXPECT_EQ(copied[4], 100);
  EXPECT_EQ(now[16], 5);
  EXPECT_EQ(now[32], 7);
  EXPECT_EQ(now[34], 100);
  EXPECT_EQ(now[48], 9);
  EXPECT_EQ(seen, 100);
  // executables are independent
  expect_error(ErrorCode::kStaleAddress, "that was freed", [&] { second.launch(stream); });
  EXPECT_EQ(second.counters().rebinds, 0U);
}

TEST_P(Rebinding, MovesConditions) {
  const Memory out = numbers(0);
  for (const Tier tier : {Tier::kReadLate, Tier::kCut}) {
    std::optional<Memory> old(numbers(1));
    stream.fill(out.address(), 0, 4, 64);
    Capture capture(stream, "asking");
    const auto n = capture.parameter<std::int32_t>("n", 1);
    stream.launch(module.kernel("put"), {}, out.tensor<std::int32_t>(8), n);
    capture.if_else_node(
        stream, old->tensor<std::int32_t>(1),
        [&](const Stream& s) {
          s.launch(module.kernel("count"), {}, out.tensor<std::int32_t>());
          capture.if_node(s, old->tensor<std::int32_t>(2),
                          [&](const Stream& t) { t.launch(module.kernel("count"), {}, out.tensor<std::int32_t>(16)); });
        },
        [&](const Stream& s) { s.launch(module.kernel("count"), {}, out.tensor<std::int32_t>(32)); });
    const ExecutableGraph graph = capture.end().instantiate({.tier = tier});
    const DevicePtr where = old->address();
    old.reset();
    expect_error(ErrorCode::kStaleAddress, "the condition of an 'if'", [&] { graph.launch(stream, graph.values()); });
    const Memory yes = numbers(1), no = numbers(0);
    graph.rebind(where, 256, yes.address());
    graph.launch(stream, graph.values());
    graph.rebind(yes.address(), 256, no.address());
    graph.launch(stream, graph.values());
    graph.launch(stream, graph.values());
    std::vector<std::int32_t> now(64);
    stream.copy_to_host(now.data(), out.address(), 256);
    stream.synchronize();
    EXPECT_EQ(now[0], 1);
    EXPECT_EQ(now[16], 1);
    EXPECT_EQ(now[32], 2);
    EXPECT_EQ(now[8], 1);
    expect_error(ErrorCode::kInvalidArgument, "the condition of an 'if' (node 1 of graph 'asking') was to move",
                 [&] { graph.rebind(no.address(), 128, offset(yes.address(), 2)); });
  }
}

TEST_P(Rebinding, MovesWhatIsAConditionAndNothingElse) {
  const Memory first = numbers(1), second = numbers(1), third = numbers(1);
  Capture capture(stream, "idle");
  capture.switch_node(stream, first.tensor<std::int32_t>(), {nullptr, nullptr});
  const ExecutableGraph graph = capture.end().instantiate();
  graph.rebind(first, second);
  graph.rebind(second, third);
  graph.launch(stream);
  stream.synchronize();
}

TEST_P(Rebinding, TheSamePlaceMayBeTakenAgainAndAgain) {
  Memory memory = numbers(1);
  const Memory target = numbers(0);
  Capture capture(stream);
  stream.copy(target.address(), memory.address(), 4);
  const ExecutableGraph graph = capture.end().instantiate();
  for (std::int32_t i = 2; i < 12; ++i) {
    const DevicePtr old = memory.address();
    if (i % 2 == 0) memory = Memory();  // the allocator may give the same place
    Memory next = numbers(i);
    graph.rebind(old, 256, next.address());
    memory = next;
    graph.launch(stream);
    EXPECT_EQ(first(target), i);
  }
  memory = Memory();
  expect_error(ErrorCode::kStaleAddress, "the source of a copy", [&] { graph.launch(stream); });
}

TEST_P(Rebinding, WhatIsNotMovedStaysStale) {
  std::optional<Memory> a(numbers(1)), b(numbers(2));
  const Memory target = numbers(0);
  Capture capture(stream);
  stream.copy(target.address(), a->address(), 4);
  stream.copy(offset(target.address(), 4), b->address(), 4);
  stream.copy(offset(target.address(), 8), offset(a->address(), 128), 4);
  const ExecutableGraph graph = capture.end().instantiate();
  const DevicePtr old_a = a->address(), old_b = b->address();
  a.reset();
  b.reset();
  const Memory new_a = numbers(3), new_b = numbers(4), rest = numbers(5);
  graph.rebind(old_a, 128, new_a.address());  // only the first half
  graph.rebind(old_b, 256, new_b.address());
  expect_error(ErrorCode::kStaleAddress, "the source of a copy", [&] { graph.launch(stream); });
  graph.rebind(offset(old_a, 128), 128, rest.address());
  graph.launch(stream);
  std::vector<std::int32_t> seen(3);
  stream.copy_to_host(seen.data(), target.address(), 12);
  stream.synchronize();
  EXPECT_EQ(seen, (std::vector<std::int32_t>{3, 4, 5}));
}

TEST_P(Rebinding, ANewBlockInAnothersOldPlaceIsNotTakenForIt) {
  std::vector<std::int32_t> x(64, 1), y(64, 2), z(64, 3);
  const auto adopt = [&](std::vector<std::int32_t>& of) { return device.adopt_memory(host_address(of.data()), 256); };
  std::optional<Memory> a(adopt(x)), b(adopt(y));
  const Memory target = numbers(0);
  Capture capture(stream);
  stream.copy(target.address(), a->address(), 4);
  stream.copy(offset(target.address(), 4), b->address(), 4);
  const ExecutableGraph graph = capture.end().instantiate();
  a.reset();
  b.reset();
  stream.synchronize();
  const Memory new_a = adopt(y);  // where b was
  graph.rebind(host_address(x.data()), 256, new_a.address());
  const Memory new_b = adopt(z);
  graph.rebind(host_address(y.data()), 256, new_b.address());
  graph.launch(stream);
  std::vector<std::int32_t> seen(2);
  stream.copy_to_host(seen.data(), target.address(), 8);
  stream.synchronize();
  EXPECT_EQ(seen, (std::vector<std::int32_t>{2, 3}));
  graph.rebind(new_a, new_b);  // now it is the only one there
  graph.launch(stream);
  EXPECT_EQ(first(target), 3);
}

TEST_P(Rebinding, IsRefusedWithNothingChanged) {
  const Memory memory = numbers(1), small = numbers(2, 64), target = numbers(0), unused = numbers(3);
  const Kernel aligned =
      module.kernel("sum", parse_signature("inout tensor<i32>, in tensor<i32> align=64, in tensor<i32>"));
  Capture capture(stream, "refusing");
  stream.launch(aligned, {}, target, memory, memory);
  stream.copy(offset(target.address(), 64), offset(memory.address(), 32), 64);
  const ExecutableGraph graph = capture.end().instantiate();
  const auto refuses = [&](ErrorCode code, const std::string& words, DevicePtr from, std::uint64_t bytes,
                           DevicePtr to) { expect_error(code, words, [&] { graph.rebind(from, bytes, to); }); };
  refuses(ErrorCode::kInvalidArgument, "nothing in it refers to them", unused.address(), 256, memory.address());
  refuses(ErrorCode::kInvalidArgument, "say where the memory lay", kNullDevicePtr, 256, unused.address());
  refuses(ErrorCode::kInvalidArgument, "say where the memory lay", memory.address(), 0, unused.address());
  refuses(ErrorCode::kOutOfRange, "takes 256 bytes, but its memory block of 64 bytes", memory.address(), 256,
          small.address());
  std::int32_t here = 0;
  refuses(ErrorCode::kInvalidArgument, "is in no memory of this device", memory.address(), 4, host_address(&here));
  refuses(ErrorCode::kInvalidArgument, "argument 1 of kernel 'sum' (node 0 of graph 'refusing') was to move from 0x",
          memory.address(), 128, offset(unused.address(), 32));
  // the copy's 64 bytes from 32 on do not fit, though the range that was named does
  refuses(ErrorCode::kOutOfRange, "the source of a copy (node 1 of graph 'refusing')", memory.address(), 64,
          small.address());
  EXPECT_EQ(graph.counters().rebinds, 0U);
  graph.launch(stream);
  EXPECT_EQ(first(target), 2);
  graph.rebind(memory, unused);
  graph.launch(stream);
  EXPECT_EQ(first(target), 6);
  Capture parent(stream);
  expect_error(ErrorCode::kUnsupported, "inside a capture after it was rebound", [&] { graph.launch(stream); });
}

TEST_P(Rebinding, StepsInFlightKeepTheOldAddress) {
  for (const Tier tier : {Tier::kReadLate, Tier::kCut}) {
    const Memory a = numbers(1), b = numbers(2), log = numbers(0, 1024);
    Capture capture(stream);
    const auto bias = capture.parameter<std::int32_t>("bias");
    const Memory sum = device.allocate(64), biased = device.allocate(64);
    stream.launch(module.kernel("put"), {}, biased.tensor<std::int32_t>(), bias);
    stream.launch(module.kernel("sum"), {}, sum.tensor<std::int32_t>(), a.tensor<std::int32_t>(),
                  biased.tensor<std::int32_t>());
    const ExecutableGraph graph = capture.end().instantiate({.depth = 3, .tier = tier});
    StepValues values = graph.values();
    std::int32_t first_seen = 0, second_seen = 0, third_seen = 0;
    values.set(bias, 10);
    const Step one = graph.launch_open(stream, Publisher::kOtherThread);
    stream.copy_to_host(&first_seen, sum.address(), 4);
    const Step two = graph.launch_open(stream, Publisher::kOtherThread);
    stream.copy_to_host(&second_seen, sum.address(), 4);
    std::thread publisher([&] {
      graph.publish(two, values);
      values.set(bias, 20);
      graph.publish(one, values);
    });
    graph.rebind(a, b);  // waits for both
    EXPECT_TRUE(graph.passed(two));
    publisher.join();
    graph.launch(stream, values);
    stream.copy_to_host(&third_seen, sum.address(), 4);
    stream.synchronize();
    EXPECT_EQ(first_seen, 21);
    EXPECT_EQ(second_seen, 11);
    EXPECT_EQ(third_seen, 22);
  }
}

TEST_P(Rebinding, NeverWaitsForItselfOrForEver) {
  const Memory a = numbers(1), b = numbers(2);
  Capture capture(stream);
  const auto value = capture.parameter<std::int32_t>("value");
  stream.launch(module.kernel("put"), {}, a.tensor<std::int32_t>(), value);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  values.set(value, 3);
  const Step mine = graph.launch_open(stream);
  expect_error(ErrorCode::kWouldDeadlock, "rebinding a graph would wait for step 1", [&] { graph.rebind(a, b); });
  graph.publish(mine, values);
  const Step others = graph.launch_open(stream, Publisher::kOtherThread);
  expect_error(ErrorCode::kTimeout, "step 2 had not passed",
               [&] { graph.rebind(a, b, std::chrono::milliseconds(10)); });
  graph.publish(others, values);
  graph.rebind(a, b);
  graph.launch(stream, values);
  EXPECT_EQ(first(b), 3);
}

TEST_P(Rebinding, ReachesEveryBranchAndFirstValues) {
  const Memory a = numbers(1), b = numbers(2), out = numbers(0);
  const Stream side = device.create_stream();
  const Event forked = device.create_event(), joined = device.create_event();
  Capture capture(stream);
  const auto where =
      capture.parameter<const std::int32_t*>("where", reinterpret_cast<const std::int32_t*>(a.address()));
  stream.mark(forked);
  side.wait(forked);
  side.launch(module.kernel("sum"), {}, out.tensor<std::int32_t>(), a.tensor<std::int32_t>(), a.tensor<std::int32_t>());
  stream.launch(module.kernel("sum"), {}, out.tensor<std::int32_t>(1), a.tensor<std::int32_t>(), where);
  side.mark(joined);
  stream.wait(joined);
  const ExecutableGraph graph = capture.end().instantiate();
  graph.rebind(a, b);
  graph.launch(stream, graph.values());
  std::vector<std::int32_t> seen(2);
  stream.copy_to_host(seen.data(), out.address(), 8);
  stream.synchronize();
  EXPECT_EQ(seen, (std::vector<std::int32_t>{4, 4}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Rebinding, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
