// The layouts of the null device, its limits that belong to them, and the number of blocks that it would start.
#include <cstring>
#include <optional>
#include <utility>

#include "support.h"

namespace slipway::api_tests {
namespace {

using testing::StoredWork;
using testing::take_stored;

std::vector<std::uint32_t> words_of(const StoredWork& work) {
  std::vector<std::uint32_t> words(work.arguments.size() / 4);
  std::memcpy(words.data(), work.arguments.data(), words.size() * 4);
  return words;
}

// One call of each way to launch `kernel` with a grid, given as (x, y, z).
void launch_every_way(const Stream& stream, const Kernel& kernel, const Extent& grid) {
  const LaunchShape shape{.grid = grid};
  stream.launch(kernel, shape, DevicePtr{1 << 20}, 7, 0.5, true);
  LaunchPlan::create(kernel, {.shape = shape}).launch(stream, DevicePtr{1 << 20}, 7, 0.5, true);
  LaunchPlan::create(kernel, {.shape = shape, .fixed = {{1, 7}, {3, true}}}).launch(stream, DevicePtr{1 << 20}, 0.5);
  const LaunchPlan own_grid = LaunchPlan::create(kernel, {});
  const Argument arguments[] = {DevicePtr{1 << 20}, 7, 0.5, true};
  own_grid.launch_arguments(stream, grid, arguments);
  own_grid.typed_grid<Tensor<float>, std::int32_t, double, bool>()(stream, grid, Tensor<float>{DevicePtr{1 << 20}}, 7,
                                                                   0.5, true);
  Capture capture(stream);
  stream.launch(kernel, shape, DevicePtr{1 << 20}, 7, 0.5, true);
  const auto x = capture.parameter<std::int64_t>("x", grid.x);
  const Operation computes = capture.operation("grid", {x}, {OutputSpec::grid()}, [&](OperationCall& call) {
    call.set_grid(0, {call.input<std::int64_t>(0), grid.y, grid.z});
  });
  const LaunchShape computed{.grid = {}, .grid_from = computes.grid(0)};
  stream.launch(kernel, computed, DevicePtr{1 << 20}, 7, 0.5, true);
  const ExecutableGraph graph = capture.end().instantiate();
  graph.launch(stream, graph.values());
  stream.synchronize();
}

TEST(NullAbi, UnknownOnesAreRefusedByName) {
  EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"'vax'", "plain, ascend, ascend-simt, cuda"},
                      [] { (void)Device::open("null:abi=vax"); }));
}

// What a kernel of the reference system finds: control address, lock, workspace, the arguments, the grid.
TEST(NullAbi, AscendOnEveryWay) {
  const Device device = Device::open("null:store,abi=ascend");
  const Stream stream = device.create_stream();
  const Kernel kernel = device.load_table({}).kernel("k", parse_signature("tensor, i32, f64, bool"));
  launch_every_way(stream, kernel, {3, 2, 5});
  const std::vector<StoredWork> stored = take_stored(device);
  ASSERT_EQ(stored.size(), 7U);
  const std::vector<std::uint32_t> wanted{0, 1U << 11, 0, 0, 0, 0, 1U << 20, 0, 7, 0, 0, 0x3FE00000, 1, 3, 2, 5};
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(words_of(stored[i]), wanted) << i;
}

TEST(NullAbi, AscendSimtHasNothingInFront) {
  const Device device = Device::open("null:store,abi=ascend-simt");
  const Stream stream = device.create_stream();
  const Kernel kernel = device.load_table({}).kernel("k", parse_signature("tensor, i32, f64, bool"));
  launch_every_way(stream, kernel, {3, 2, 5});
  const std::vector<StoredWork> stored = take_stored(device);
  ASSERT_EQ(stored.size(), 7U);
  const std::vector<std::uint32_t> wanted{1U << 20, 0, 7, 0, 0, 0x3FE00000, 1, 3, 2, 5};
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(words_of(stored[i]), wanted) << i;
}

TEST(NullAbi, LimitOfAllBlocksIsTheSameOnEveryWay) {
  for (const char* uri : {"null:store,abi=ascend", "null:store,abi=ascend-simt"}) {
    const Device device = Device::open(uri);
    const Stream stream = device.create_stream();
    const Kernel kernel = device.load_table({}).kernel("k", parse_signature("tensor, i32, f64, bool"));
    EXPECT_EQ(device.info().max_grid_blocks, 65535U);
    for (const Extent& most : {Extent{65535, 1, 1}, Extent{1, 1, 65535}, Extent{255, 257, 1}}) {
      launch_every_way(stream, kernel, most);
      for (const StoredWork& work : take_stored(device)) EXPECT_EQ(work.total_blocks, 65535U);
    }
    for (const Extent& more : {Extent{65536, 1, 1}, Extent{256, 1, 256}, Extent{1 << 20, 1 << 20, 1 << 24},
                               Extent{2147483647, 2147483647, 2147483647}, Extent{65536, 65536, 65536}}) {
      const std::string words = std::to_string(more.x) + " x " + std::to_string(more.y) + " x " +
                                std::to_string(more.z) + " blocks; the device allows 65535 in all";
      const LaunchShape shape{.grid = more};
      const auto expect_refused = [&](const std::function<void()>& call) {
        EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {words}, call));
      };
      expect_refused([&] { stream.launch(kernel, shape, DevicePtr{1 << 20}, 7, 0.5, true); });
      expect_refused([&] { (void)LaunchPlan::create(kernel, {.shape = shape}); });
      const LaunchPlan own_grid = LaunchPlan::create(kernel, {});
      const Argument arguments[] = {DevicePtr{1 << 20}, 7, 0.5, true};
      expect_refused([&] { own_grid.launch_arguments(stream, more, arguments); });
      expect_refused([&] {
        own_grid.typed_grid<Tensor<float>, std::int32_t, double, bool>()(
            stream, more, Tensor<float>{DevicePtr{1 << 20}}, 7, 0.5, true);
      });
      expect_refused([&] {
        Capture capture(stream);
        const auto x = capture.parameter<std::int64_t>("x", more.x);
        (void)capture.operation("grid", {x}, {OutputSpec::grid()},
                                [&](OperationCall& call) { call.set_grid(0, more); });
      });
      stream.synchronize();
      EXPECT_TRUE(take_stored(device).empty());
    }
  }
}

// A zero runs nothing, also beside a dimension that would be too much; only a graph cannot know before.
TEST(NullAbi, ZeroGridsSucceed) {
  const Device device = Device::open("null:store,abi=ascend");
  const Stream stream = device.create_stream();
  const Kernel kernel = device.load_table({}).kernel("k", parse_signature("i32"));
  const LaunchPlan own_grid = LaunchPlan::create(kernel, {});
  const Argument seven = 7;
  for (const Extent& zero : {Extent{0, 1, 1}, Extent{1, 0, 1}, Extent{1, 1, 0}, Extent{0, 70000, 2147483647}}) {
    stream.launch(kernel, {.grid = zero}, 7);
    LaunchPlan::create(kernel, {.shape = LaunchShape{.grid = zero}}).launch(stream, 7);
    own_grid.launch_arguments(stream, zero, {&seven, 1});
  }
  stream.synchronize();
  EXPECT_TRUE(take_stored(device).empty());
  EXPECT_EQ(device.counters().empty_launches, 12U);
}

TEST(NullAbi, OtherDevicesHaveNoLimitOfAllBlocks) {
  const Device device = Device::open("null:store,abi=cuda");
  const Stream stream = device.create_stream();
  const Kernel kernel = device.load_table({}).kernel("k", parse_signature("i32"));
  stream.launch(kernel, {.grid = {2147483647, 65535, 65535}}, 7);
  EXPECT_EQ(take_stored(device).at(0).total_blocks, std::uint64_t{2147483647} * 65535 * 65535);
}

TEST(NullAbi, BlocksThatAreStartedAreTheSameOnEveryWay) {
  const Device device = Device::open("null:store,abi=ascend,block_cap=20");
  const Stream stream = device.create_stream();
  const Kernel kernel = device.load_table({}).kernel("k", parse_signature("tensor, i32, f64, bool"));
  for (const auto& [grid, started] : {std::pair{Extent{3, 2, 5}, 20U}, std::pair{Extent{3, 2, 2}, 12U}}) {
    launch_every_way(stream, kernel, grid);
    const std::vector<StoredWork> stored = take_stored(device);
    ASSERT_EQ(stored.size(), 7U);
    for (const StoredWork& work : stored) {
      EXPECT_EQ(work.launched_blocks, started);
      EXPECT_EQ(work.total_blocks, static_cast<std::uint64_t>(grid.x * grid.y * grid.z));
      EXPECT_EQ(words_of(work).at(13), 3U);  // kernels still see the grid that was asked for
    }
  }
}

TEST(NullAbi, ArgumentsBeyondTheLimitAreRefused) {
  for (const char* uri : {"null", "null:abi=plain", "null:abi=cuda", "null:abi=ascend"}) {
    const Device device = Device::open(uri);
    EXPECT_EQ(device.info().max_argument_bytes, 4096U) << uri;
    const Module module = device.load_table({});
    // The frame of Ascend takes 36 bytes of them.
    const bool framed = std::string(uri) == "null:abi=ascend";
    (void)module.kernel("k", parse_signature(framed ? "bytes(4060,4)" : "bytes(4096,4)"));
    EXPECT_TRUE(refused(ErrorCode::kInvalidArgument, {"4096"}, [&] {
      (void)module.kernel("k", parse_signature(framed ? "bytes(4061,4)" : "bytes(4092,4), bytes(8,4)"));
    }));
  }
}

}  // namespace
}  // namespace slipway::api_tests
