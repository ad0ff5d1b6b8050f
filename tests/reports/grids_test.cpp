// B06: large grids were launched as nothing. B07: a grid of zero blocks ended the program.
#include <limits>

#include "report.h"

namespace slipway::reports {
namespace {

using testing::StoredWork;

std::vector<StoredWork> launches_of(const Device& device) {
  std::vector<StoredWork> launches = testing::take_stored(device);
  std::erase_if(launches, [](const StoredWork& work) { return work.kind != StoredWork::Kind::kLaunch; });
  return launches;
}

// Products around 2^31, 2^32 and 2^64: neither nothing nor negative, on every path, in graphs too.
SLIPWAY_REPORT(B06_products_beyond_32_bits, kStore) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = device.allocate(4);
  const Tensor<std::uint32_t> t = cnt.tensor<std::uint32_t>();
  const LaunchPlan with_grid = LaunchPlan::create(count, {});
  const auto typed_grid = with_grid.typed_grid<Tensor<std::uint32_t>>();
  for (const Extent& grid :
       {Extent{16384, 16384, 16}, Extent{46341, 46341, 1}, Extent{65536, 65535, 1}, Extent{65536, 32768, 2},
        Extent{65536, 1, 65535}, Extent{2147483647, 2, 1}, Extent{2147483647, 65535, 65535}, Extent{1, 65535, 65535}}) {
    const auto total =
        static_cast<std::uint64_t>(grid.x) * static_cast<std::uint64_t>(grid.y) * static_cast<std::uint64_t>(grid.z);
    const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}});
    const auto typed = plan.typed<Tensor<std::uint32_t>>();
    (void)testing::take_stored(device);
    const auto all_paths = [&] {
      stream.launch(count, {.grid = grid}, cnt);
      plan.launch(stream, cnt);
      typed(stream, t);
      typed_grid(stream, grid, t);
      const Argument argument = cnt;
      with_grid.launch_arguments(stream, grid, {&argument, 1});
    };
    all_paths();
    Capture capture(stream);
    all_paths();
    capture.end().instantiate().launch(stream);
    stream.synchronize(kLimit);
    const std::vector<StoredWork> launches = launches_of(device);
    check_equal(launches.size(), 10U, "launches, each submitted once");
    for (const StoredWork& work : launches) check_equal(work.total_blocks, total, "blocks of a launch");
  }
}

// Each dimension at its limit, one above it and far above it, the same verdict on every path.
SLIPWAY_REPORT(B06_limits_are_named, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = device.allocate(4);
  const Tensor<std::uint32_t> t = cnt.tensor<std::uint32_t>();
  const auto typed_grid = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
  const Dim3 limits = device.info().max_grid;
  const std::int64_t most[] = {limits.x, limits.y, limits.z};
  const char* const names[] = {"grid.x", "grid.y", "grid.z"};
  const std::uint64_t before = stream.submitted();
  for (std::size_t d = 0; d < 3; ++d) {
    for (const std::int64_t value : {most[d] + 1, most[d] * 2 + 1, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1,
                                     std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
      if (value >= 0 && value <= most[d]) continue;
      Extent grid;
      (d == 0 ? grid.x : d == 1 ? grid.y : grid.z) = value;
      const std::string text = std::to_string(value), limit = std::to_string(most[d]);
      const auto refused = [&](const std::function<void()>& call) {
        check_throws(ErrorCode::kInvalidArgument, {"'count'", names[d], text, limit}, call);
      };
      refused([&] { stream.launch(count, {.grid = grid}, cnt); });
      refused([&] { typed_grid(stream, grid, t); });
      refused([&] { (void)LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}}); });
    }
  }
  check_equal(stream.submitted(), before, "submissions after refusals");
  if (c.can(kRuns)) return;  // the largest grids are for a device that runs nothing
  for (const Extent& grid : {Extent{most[0], 1, 1}, Extent{1, most[1], 1}, Extent{1, 1, most[2]}}) {
    typed_grid(stream, grid, t);
    stream.launch(count, {.grid = grid}, cnt);
  }
  stream.synchronize(kLimit);
  check_equal(stream.submitted() - before >= 6, true, "launches at the limits");
}

// 65,537 blocks, in one dimension and split in two: each index once, and the tail of the split beyond the last.
SLIPWAY_REPORT(B06_every_block_runs_once, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel index = c.kernel("index");
  const Memory out = device.allocate(std::uint64_t{9} * 4 * 65538);
  for (const Extent& grid : {Extent{65537, 1, 1}, Extent{32769, 2, 1}, Extent{2, 32769, 1}, Extent{3, 5, 4369}}) {
    const auto blocks = static_cast<std::size_t>(grid.x * grid.y * grid.z);
    stream.fill(out.address(), 0xFFFFFFFF, 4, 9 * 65538);
    stream.launch(index, {.grid = grid}, out);
    const auto words = download<std::uint32_t>(stream, out, 9 * 65538);
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t linear =
          words[9 * b] +
          static_cast<std::size_t>(grid.x) * (words[9 * b + 1] + static_cast<std::size_t>(grid.y) * words[9 * b + 2]);
      check_equal(linear, b, "the block that wrote here");
    }
    for (std::size_t b = blocks; b < 65538; ++b) check_equal(words[9 * b], 0xFFFFFFFFU, "behind the last block");
  }
}

const Extent kZeroGrids[] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0, 0, 0}, {0, 5, 7}, {5, 0, 7}, {5, 7, 0}};

// After a good launch: nothing runs, all succeed, what follows is in order, an event behind them fires.
SLIPWAY_REPORT(B07_zero_blocks_run_nothing, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Kernel count = find_kernel(module, "count");
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Event event = device.create_event();
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
  const Tensor<std::uint32_t> t = cnt.tensor<std::uint32_t>();
  const auto typed_grid = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
  stream.launch(count, {}, t);
  typed_grid(stream, {}, t);
  std::uint64_t empty = 0;
  const std::uint64_t before = stream.submitted();
  for (const Extent& grid : kZeroGrids) {
    stream.launch(count, {.grid = grid}, t);
    typed_grid(stream, grid, t);
    LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}}).typed<Tensor<std::uint32_t>>()(stream, t);
    LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}}).launch(stream, t);
    empty += 4;
  }
  for (const Extent& block : {Extent{0, 1, 1}, Extent{1, 0, 1}, Extent{1, 1, 0}, Extent{4, 4, 0}}) {
    stream.launch(count, {.block = block}, t);
    LaunchPlan::create(count, {.block = block}).typed_grid<Tensor<std::uint32_t>>()(stream, {}, t);
    empty += 2;
  }
  check_equal(device.counters().empty_launches, empty, "empty launches counted");
  check_equal(stream.submitted(), before, "submissions of empty launches");
  stream.mark(event);
  other.wait(event);
  other.synchronize(kLimit);
  check(event.query(), "an event behind empty launches fires");
  typed_grid(stream, {3, 1, 1}, t);
  stream.synchronize(kLimit);
  if (c.can(kRuns)) check_equal(download<std::uint32_t>(stream, cnt, 1).front(), 5U, "blocks that ran");
}

// A node of a graph goes to zero blocks and back.
SLIPWAY_REPORT(B07_a_node_goes_to_zero_blocks_and_back, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1), behind = zeros<std::uint32_t>(device, stream, 1);
  stream.synchronize(kLimit);
  struct Size {
    std::int32_t x, y, z;
  };
  Capture capture(stream);
  const auto size = capture.parameter<Size>("size", Size{1, 1, 1});
  const Operation grid = capture.operation("grid", {size}, {OutputSpec::grid()}, [](OperationCall& call) {
    const auto s = call.input<Size>(0);
    call.set_grid(0, {s.x, s.y, s.z});
  });
  stream.launch(count, {.grid = {0, 1, 1}}, cnt);  // captured as nothing
  stream.launch(count, {.grid_from = grid.grid(0)}, cnt);
  LaunchShape spread;  // which the cpu device runs otherwise
  spread.spread = true;
  spread.grid_from = grid.grid(0);
  stream.launch(count, spread, cnt);
  stream.launch(count, {}, behind);
  const ExecutableGraph graph = capture.end().instantiate();
  StepValues values = graph.values();
  std::uint32_t blocks = 0, replays = 0;
  for (const Size& s : {Size{1, 1, 1}, Size{0, 1, 1}, Size{3, 1, 1}, Size{3, 0, 1}, Size{3, 1, 0}, Size{0, 0, 0},
                        Size{2, 3, 4}, Size{0, 9, 9}, Size{1, 1, 1}}) {
    values.set(size, s);
    graph.launch(stream, values);
    blocks += 2 * static_cast<std::uint32_t>(s.x * s.y * s.z);
    check_equal(download<std::uint32_t>(stream, cnt, 1).front(), blocks, "blocks that ran");
    check_equal(download<std::uint32_t>(stream, behind, 1).front(), ++replays, "launches behind it");
  }
}

}  // namespace
}  // namespace slipway::reports
