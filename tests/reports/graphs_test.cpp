// B03: nodes of one kernel shared their arguments. B11: what a captured copy reads was recycled. B32: an update went to
// the wrong object.
#include <atomic>
#include <memory>

#include "report.h"

namespace slipway::reports {
namespace {

// Nodes of one kernel, each with a value of its own, some that change and some that do not.
SLIPWAY_REPORT(B03_nodes_of_one_kernel_keep_their_arguments, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  constexpr std::size_t kNodes = 6;
  const Memory in = upload(device, stream, std::vector<float>(4, 10));
  std::vector<Memory> outs;
  for (std::size_t i = 0; i < kNodes; ++i) outs.push_back(zeros<float>(device, stream, 4));
  stream.synchronize(kLimit);
  Capture capture(stream);
  std::vector<ScalarParameter<float>> parameters;
  for (std::size_t i = 0; i < kNodes; ++i) {
    const float value = static_cast<float>(i + 1);
    if (i % 2 == 0) {
      parameters.push_back(capture.parameter<float>("c" + std::to_string(i), value));
      stream.launch(add, {}, outs[i], in, 4, parameters.back());
    } else {
      stream.launch(add, {}, outs[i], in, 4, value);
    }
  }
  const ExecutableGraph graph = capture.end().instantiate();
  const auto expect = [&](std::vector<float> wanted) {
    for (std::size_t i = 0; i < kNodes; ++i) {
      check_equal(download<float>(stream, outs[i], 4), std::vector<float>(4, wanted[i]),
                  "the output of node " + std::to_string(i));
    }
  };
  StepValues values = graph.values();
  graph.launch(stream, values);
  expect({11, 12, 13, 14, 15, 16});
  values.set(parameters[0], 5.0F);
  graph.launch(stream, values);
  expect({15, 12, 13, 14, 15, 16});
  values.set(parameters[2], -10.0F);
  {
    // Two steps and a launch beside them, all submitted before any of them runs.
    testing::Hold hold(device);
    hold.hold(stream);
    graph.launch(stream, values);
    stream.launch(add, {}, outs[1], outs[0], 4, 100.0F);
    values.set(parameters[1], 7.0F);
    graph.launch(stream, values);
    stream.launch(add, {}, outs[5], outs[2], 4, 1000.0F);
  }
  expect({15, 12, 17, 14, 0, 1017});
}

// The source of a captured copy is the graph's: small ones in the record, large ones in a block of its own.
SLIPWAY_REPORT(B11_captured_copies_keep_their_source, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  for (const std::size_t bytes : {1U, 12U, 4095U, 4096U, 4097U, 16384U, 100000U}) {
    const Memory memory = device.allocate(bytes);
    auto source = std::make_unique<std::vector<std::uint8_t>>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) (*source)[i] = static_cast<std::uint8_t>(i * 7 + 3);
    const std::vector<std::uint8_t> wanted = *source;
    Capture capture(stream);
    stream.copy_to_device(memory.address(), source->data(), bytes);
    const GraphDefinition definition = capture.end();
    source->assign(bytes, 0x99);
    source.reset();
    std::vector<std::vector<std::uint8_t>> junk(20, std::vector<std::uint8_t>(bytes, 0x99));  // in its place, perhaps
    const ExecutableGraph graph = definition.instantiate();
    for (int i = 0; i < 3; ++i) {
      stream.fill(memory.address(), 0, 1, bytes);
      graph.launch(stream);
      check(download<std::uint8_t>(stream, memory, bytes) == wanted,
            "the copy of " + std::to_string(bytes) + " bytes in replay " + std::to_string(i + 1));
    }
  }
  check_equal(device.counters().staged_bytes, 0U, "bytes staged for copies that have passed");
}

// A captured callback is called in each replay with its own data, which goes once, with the graph.
SLIPWAY_REPORT(B11_captured_callbacks_last_as_long_as_their_graph, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  std::atomic<int> sum{0};
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  {
    Capture capture(stream);
    for (const auto& data : {one, two}) stream.host_function([&sum, data] { sum += *data; });
    GraphDefinition definition = capture.end();
    const ExecutableGraph graph = definition.instantiate(), again = definition.instantiate();
    definition = {};
    for (int i = 1; i <= 5; ++i) {
      graph.launch(stream);
      stream.synchronize(kLimit);
      check_equal(sum.load(), 3 * i, "the sum after replay " + std::to_string(i));
    }
    again.launch(stream);
    stream.synchronize(kLimit);
    check_equal(sum.load(), 18, "the sum after a replay of the other executable");
    check(one.use_count() == 2 && two.use_count() == 2, "the graph owns the data, once");
  }
  device.synchronize(kLimit);
  check(one.use_count() == 1 && two.use_count() == 1, "the data is gone with the graph");
}

// Values belong to one executable; its definition and its siblings keep theirs.
SLIPWAY_REPORT(B32_updates_reach_their_executable_only, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory in = upload(device, stream, std::vector<float>(1, 10));
  const Memory a = zeros<float>(device, stream, 1), b = zeros<float>(device, stream, 1),
               twin = zeros<float>(device, stream, 1);
  stream.synchronize(kLimit);
  Capture capture(stream, "both");
  const auto n0 = capture.parameter<float>("n0", 1), n1 = capture.parameter<float>("n1", 2);
  stream.launch(add, {}, a, in, 1, n0);
  stream.launch(add, {}, b, in, 1, n1);
  stream.launch(add, {}, twin, in, 1, n0);  // the same value is used by a second kernel
  const GraphDefinition definition = capture.end();
  const ExecutableGraph first = definition.instantiate(), second = definition.instantiate();
  const auto expect = [&](float wanted_a, float wanted_b, const char* what) {
    check_equal(download<float>(stream, a, 1).front(), wanted_a, std::string(what) + ": n0");
    check_equal(download<float>(stream, b, 1).front(), wanted_b, std::string(what) + ": n1");
    check_equal(download<float>(stream, twin, 1).front(), wanted_a, std::string(what) + ": n0 in its other place");
  };
  StepValues values = first.values();
  values.set(n0, 10.0F);
  for (int i = 0; i < 3; ++i) {
    first.launch(stream, values);
    expect(20, 12, "the updated executable");
    second.launch(stream, second.values());
    expect(11, 12, "its sibling");
    const ExecutableGraph fresh = definition.instantiate();
    fresh.launch(stream, fresh.values());
    expect(11, 12, "a fresh one");
  }
}

// What belongs to another graph is refused; what is called the same is found by its name, whatever the order.
SLIPWAY_REPORT(B32_values_of_another_graph_are_refused, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const Memory in = upload(device, stream, std::vector<float>(1, 10));
  const Memory a = zeros<float>(device, stream, 1), b = zeros<float>(device, stream, 1);
  stream.synchronize(kLimit);
  const auto capture_nodes = [&](bool reversed) {
    Capture capture(stream, reversed ? "reversed" : "forward");
    ScalarParameter<float> n0, n1;
    for (const bool is_first : {!reversed, reversed}) {
      if (is_first) n0 = capture.parameter<float>("n0", 1);
      else n1 = capture.parameter<float>("n1", 2);
      stream.launch(add, {}, is_first ? a : b, in, 1, is_first ? n0 : n1);
    }
    return capture.end();
  };
  const GraphDefinition forward = capture_nodes(false), reversed = capture_nodes(true);
  const ExecutableGraph f = forward.instantiate(), r = reversed.instantiate();
  const auto f0 = forward.parameter<float>("n0");
  for (const GraphDefinition& definition : {forward, reversed}) {
    const ExecutableGraph graph = definition.instantiate();
    StepValues values = graph.values();
    values.set(definition.parameter<float>("n0"), 100.0F);
    values.set(definition.parameter<float>("n1"), 200.0F);
    graph.launch(stream, values);
    check_equal(download<float>(stream, a, 1).front(), 110.0F, "n0 by its name");
    check_equal(download<float>(stream, b, 1).front(), 210.0F, "n1 by its name");
  }
  StepValues of_r = r.values();
  check_throws(ErrorCode::kInvalidNode, {"another graph", "'reversed'"}, [&] { of_r.set(f0, 5.0F); });
  check_throws(ErrorCode::kInvalidNode, {"'forward'", "'reversed'"}, [&] { f.launch(stream, r.values()); });
  check_throws(ErrorCode::kInvalidNode, {"another capture"}, [&] {
    Capture capture(stream);
    stream.launch(add, {}, a, in, 1, f0);
  });
  check_throws(ErrorCode::kInvalidNode, {"'twice'", "another capture"}, [&] {
    Capture capture(stream);
    (void)capture.operation("twice", {f0}, {OutputSpec::argument(ArgKind::kF32)}, [](OperationCall&) {});
  });
  r.launch(stream, of_r);  // the refused value left nothing behind
  check_equal(download<float>(stream, a, 1).front(), 11.0F, "n0 as it was");
  check_equal(download<float>(stream, b, 1).front(), 12.0F, "n1 as it was");
}

}  // namespace
}  // namespace slipway::reports
