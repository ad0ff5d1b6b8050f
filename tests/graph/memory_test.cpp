// The memory that graphs refer to: their own, watched, and unknown.
#include <optional>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

class Addresses : public GraphOn {};

// B30: a replay never reads what was freed.
TEST_P(Addresses, FreedMemoryIsRefusedAndNothingRuns) {
  std::optional<Memory> memory(device.allocate(256)), unrelated(device.allocate(64));
  std::int32_t counter = 0;
  Capture capture(stream, "watching");
  stream.launch(module.kernel("count"), {}, &counter);
  stream.launch(module.kernel("put"), {}, memory->tensor<std::int32_t>(3), 7);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate(), other = definition.instantiate();
  graph.launch(stream);
  unrelated.reset();  // no graph refers to it
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(counter, 2);
  memory.reset();
  for (const ExecutableGraph& g : {graph, other, definition.instantiate()}) {
    const std::uint64_t before = stream.submitted();
    expect_error(ErrorCode::kStaleAddress, "argument 0 of kernel 'put' in graph 'watching'", [&] { g.launch(stream); });
    expect_error(ErrorCode::kStaleAddress, "256 bytes", [&] { g.launch(stream); });
    EXPECT_EQ(stream.submitted(), before);
  }
  {  // nor can it become a part of another, which would take what lies there now for its own
    Capture parent(stream, "parent");
    expect_error(ErrorCode::kStaleAddress, "argument 0 of kernel 'put' in graph 'watching'",
                 [&] { graph.launch(stream); });
  }
  stream.synchronize();
  EXPECT_EQ(counter, 2);
}

TEST_P(Addresses, MemoryInTheSamePlaceIsNotTheSame) {
  std::optional<Memory> memory(device.allocate(256));
  Capture capture(stream);
  stream.fill(memory->address(), 1, 4, 4);
  const ExecutableGraph graph = capture.end().instantiate();
  const DevicePtr address = memory->address();
  memory.reset();
  stream.synchronize();
  std::vector<Memory> again;
  for (int i = 0; i < 64; ++i) {
    again.push_back(device.allocate(256));
    if (again.back().address() == address) break;
  }
  expect_error(ErrorCode::kStaleAddress, "the destination of a fill", [&] { graph.launch(stream); });
}

TEST_P(Addresses, CopiesAreWatchedOnTheDevicesSide) {
  std::vector<std::int32_t> host(64, 1);
  for (const bool source : {false, true}) {
    std::optional<Memory> from(device.allocate(256)), to(device.allocate(256));
    Capture capture(stream);
    stream.copy_to_device(to->address(), host.data(), 256);
    stream.copy(to->address(), from->address(), 256);
    stream.copy_to_host(host.data(), to->address(), 256);
    const ExecutableGraph graph = capture.end().instantiate();
    graph.launch(stream);
    stream.synchronize();
    if (source) from.reset();
    else to.reset();
    expect_error(ErrorCode::kStaleAddress, source ? "the source of a copy" : "the destination of a copy",
                 [&] { graph.launch(stream); });
  }
}

TEST_P(Addresses, MemoryAllocatedDuringTheCaptureIsTheGraphs) {
  const std::uint64_t before = device.counters().live_memory_bytes;
  {
    ExecutableGraph graph;
    std::int32_t seen = 0;
    {
      Capture capture(stream);
      const Memory own = device.allocate(256);
      std::thread([&] { (void)device.allocate(64); }).join();  // another thread's is not
      stream.launch(module.kernel("put"), {}, own.tensor<std::int32_t>(), 5);
      stream.copy_to_host(&seen, own.address(), 4);
      graph = capture.end().instantiate();
    }
    const Memory after = device.allocate(64);
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(seen, 5);
    EXPECT_EQ(device.counters().live_memory_bytes, before + 256 + 64);
  }
  stream.synchronize();
  device.synchronize();
  EXPECT_EQ(device.counters().live_memory_bytes, before);
}

TEST_P(Addresses, AnAbandonedCaptureKeepsNothing) {
  const std::uint64_t before = device.counters().live_memory_bytes;
  {
    Capture capture(stream);
    (void)device.allocate(256);
  }
  stream.synchronize();
  EXPECT_EQ(device.counters().live_memory_bytes, before);
}

TEST_P(Addresses, UnknownAddressesAreListed) {
  std::int32_t here = 0;
  const Memory memory = device.allocate(64);
  Capture capture(stream);
  stream.launch(module.kernel("put"), {}, &here, 7);
  stream.launch(module.kernel("put"), {}, memory.tensor<std::int32_t>(), 7);
  const GraphDefinition definition = capture.end();
  const std::string text = definition.dump();
  EXPECT_NE(text.find("unwatched argument 0 of kernel 'put'"), std::string::npos) << text;
  EXPECT_EQ(text.find("unwatched", text.find("unwatched") + 1), std::string::npos) << text;
  EXPECT_NE(definition.dump(GraphDefinition::Format::kJson).find("\"unwatched\": [\"argument 0"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, Addresses, ::testing::Values("cpu:inline", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
