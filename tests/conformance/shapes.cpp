// Grids, blocks and scratch.
#include <limits>

#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

using Words = std::vector<std::uint32_t>;

// B07: a zero anywhere: nothing runs, the launch succeeds, order and events hold.
void zero_dimensions(Context& c) {
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
  for (const Extent grid : {Extent{0, 1, 1}, Extent{1, 0, 1}, Extent{1, 1, 0}, Extent{0, 0, 0}}) {
    const std::uint64_t before = stream.submitted();
    stream.launch(count, {.grid = grid}, t);
    typed_grid(stream, grid, t);
    const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}});
    plan.launch(stream, t);
    plan.typed<Tensor<std::uint32_t>>()(stream, t);
    empty += 4;
    check_equal(stream.submitted(), before, "submissions of empty launches");
  }
  for (const Extent block : {Extent{0, 1, 1}, Extent{1, 0, 1}, Extent{1, 1, 0}}) {
    stream.launch(count, {.block = block}, t);
    LaunchPlan::create(count, {.block = block}).typed_grid<Tensor<std::uint32_t>>()(stream, {}, t);
    empty += 2;
  }
  stream.mark(event);
  other.wait(event);
  other.synchronize(kLimit);
  check(event.query(), "an event behind empty launches fires");
  typed_grid(stream, {2, 1, 1}, t);
  stream.synchronize(kLimit);
  check_equal(device.counters().empty_launches, empty, "empty launches counted");
  if (c.can(kRuns)) check_equal(download<std::uint32_t>(stream, cnt, 1), Words{4}, "blocks that ran");
  // Wrong arguments stay wrong when nothing would run.
  check_throws(ErrorCode::kInvalidArgument, {"expected 1"}, [&] { stream.launch(count, {.grid = {0, 1, 1}}, t, 5); });
}

// The same verdict, with dimension, value and limit, on every path.
void extents_beyond_the_limit(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = device.allocate(4);
  const auto typed_grid = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
  const Dim3 grid_limit = device.info().max_grid, block_limit = device.info().max_block;
  const std::uint64_t before = stream.submitted();
  const char* const names[] = {"x", "y", "z"};
  for (int d = 0; d < 3; ++d) {
    const std::int64_t most = d == 0 ? grid_limit.x : d == 1 ? grid_limit.y : grid_limit.z;
    for (const std::int64_t value :
         {most + 1, std::int64_t{-1}, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1,
          std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
      if (value >= 0 && value <= most) continue;
      Extent grid;
      (d == 0 ? grid.x : d == 1 ? grid.y : grid.z) = value;
      const std::string name = std::string("grid.") + names[d], text = std::to_string(value),
                        limit = std::to_string(most);
      check_throws(ErrorCode::kInvalidArgument, {"'count'", name, text, limit},
                   [&] { stream.launch(count, {.grid = grid}, cnt); });
      check_throws(ErrorCode::kInvalidArgument, {"'count'", name, text, limit},
                   [&] { typed_grid(stream, grid, cnt.tensor<std::uint32_t>()); });
      check_throws(ErrorCode::kInvalidArgument, {"'count'", name, text, limit},
                   [&] { (void)LaunchPlan::create(count, {.shape = LaunchShape{.grid = grid}}); });
      // One dimension being zero does not make another's value right.
      (d == 0 ? grid.y : grid.x) = 0;
      check_throws(ErrorCode::kInvalidArgument, {name, text}, [&] { stream.launch(count, {.grid = grid}, cnt); });
    }
    const std::int64_t most_items = d == 0 ? block_limit.x : d == 1 ? block_limit.y : block_limit.z;
    for (const std::int64_t value : {most_items + 1, std::int64_t{-1}, (std::int64_t{1} << 32) + 1}) {
      Extent block{1, 1, 1};
      (d == 0 ? block.x : d == 1 ? block.y : block.z) = value;
      const std::string name = std::string("block.") + names[d], text = std::to_string(value),
                        limit = std::to_string(most_items);
      check_throws(ErrorCode::kInvalidArgument, {"'count'", name, text, limit},
                   [&] { stream.launch(count, {.block = block}, cnt); });
      check_throws(ErrorCode::kInvalidArgument, {"'count'", name, text, limit},
                   [&] { (void)LaunchPlan::create(count, {.block = block}); });
    }
  }
  const std::uint64_t items = device.info().max_block_items;
  if (std::uint64_t{block_limit.x} * block_limit.y > items) {
    const Extent block{block_limit.x, block_limit.y, 1};
    check_throws(ErrorCode::kInvalidArgument, {"work items", std::to_string(items)},
                 [&] { stream.launch(count, {.block = block}, cnt); });
  }
  check_equal(stream.submitted(), before, "submissions after refusals");
}

// B06: products of 2^31 and 2^32 are neither negative nor zero.
void products_beyond_32_bits(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel count = c.kernel("count");
  const Memory cnt = device.allocate(4);
  const auto typed_grid = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
  struct Case {
    Extent grid;
    std::uint64_t total;
  };
  for (const Case& k :
       {Case{{16384, 16384, 16}, 4294967296}, Case{{46341, 46341, 1}, 2147488281}, Case{{65536, 65535, 1}, 4294901760},
        Case{{2147483647, 65535, 65535}, 2147483647ULL * 65535 * 65535}}) {
    (void)testing::take_stored(device);
    const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{.grid = k.grid}});
    stream.launch(count, {.grid = k.grid}, cnt);
    typed_grid(stream, k.grid, cnt.tensor<std::uint32_t>());
    plan.launch(stream, cnt);
    plan.typed<Tensor<std::uint32_t>>()(stream, cnt.tensor<std::uint32_t>());
    stream.synchronize(kLimit);
    int launches = 0;
    for (const testing::StoredWork& work : testing::take_stored(device)) {
      if (work.kind != testing::StoredWork::Kind::kLaunch) continue;
      ++launches;
      check_equal(work.total_blocks, k.total, "blocks of a launch");
      check_equal(std::uint64_t{work.grid.x}, static_cast<std::uint64_t>(k.grid.x), "its grid.x");
    }
    check_equal(launches, 4, "launches submitted, each once");
  }
}

void shapes_arrive(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel kernel = c.kernel("scratch");
  const Memory out = device.allocate(4096);
  (void)testing::take_stored(device);
  const LaunchShape shape{.grid = {3, 2, 4}, .block = {8, 4, 2}, .shared_bytes = 512};
  stream.launch(kernel, shape, out, 1, 2);
  LaunchPlan::create(kernel, {.shape = shape}).launch(stream, out, 1, 2);
  LaunchPlan::create(kernel, {.block = shape.block, .shared_bytes = 512})
      .typed_grid<Tensor<std::uint32_t>, std::uint32_t, std::uint32_t>()(stream, shape.grid,
                                                                         out.tensor<std::uint32_t>(), 1, 2);
  stream.synchronize(kLimit);
  int launches = 0;
  for (const testing::StoredWork& work : testing::take_stored(device)) {
    if (work.kind != testing::StoredWork::Kind::kLaunch) continue;
    ++launches;
    check_equal(work.name, "scratch", "the kernel");
    check(work.grid == Dim3{3, 2, 4} && work.block == Dim3{8, 4, 2}, "grid and block");
    check_equal(work.shared_bytes, 512U, "shared bytes");
    check_equal(work.total_blocks, 24U, "blocks");
  }
  check_equal(launches, 3, "launches");
}

void check_index(const Words& words, const Dim3& grid, const Dim3& block, const std::string& what) {
  std::size_t at = 0;
  for (std::uint32_t z = 0; z < grid.z; ++z) {
    for (std::uint32_t y = 0; y < grid.y; ++y) {
      for (std::uint32_t x = 0; x < grid.x; ++x, at += 9) {
        const Words wanted{x, y, z, grid.x, grid.y, grid.z, block.x, block.y, block.z};
        check_equal(
            Words(words.begin() + static_cast<std::ptrdiff_t>(at), words.begin() + static_cast<std::ptrdiff_t>(at) + 9),
            wanted, what);
      }
    }
  }
}

Extent extent_of(const Dim3& d) { return {d.x, d.y, d.z}; }

void every_block_runs_once_with_its_index(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel index = c.kernel("index"), count = c.kernel("count");
  const auto typed_grid = LaunchPlan::create(index, {}).typed_grid<Tensor<std::uint32_t>>();
  const Memory out = device.allocate(9 * 4 * 1100);
  for (const Dim3 grid :
       {Dim3{1, 1, 1}, Dim3{7, 1, 1}, Dim3{1, 5, 1}, Dim3{1, 1, 3}, Dim3{5, 3, 2}, Dim3{1024, 1, 1}, Dim3{3, 64, 5}}) {
    const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
    for (const bool spread : {false, true}) {
      const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
      stream.fill(out.address(), 0xEEEEEEEE, 4, 9 * 1100);
      stream.launch(index, {.grid = extent_of(grid), .spread = spread}, out);
      stream.launch(count, {.grid = extent_of(grid), .spread = spread}, cnt);
      check_index(download<std::uint32_t>(stream, out, 9 * blocks), grid, {1, 1, 1}, "general path");
      check_equal(download<std::uint32_t>(stream, cnt, 1), Words{static_cast<std::uint32_t>(blocks)},
                  "blocks that ran");
      stream.fill(out.address(), 0xEEEEEEEE, 4, 9 * 1100);
      LaunchPlan::create(index, {.shape = LaunchShape{.grid = extent_of(grid), .spread = spread}}).launch(stream, out);
      check_index(download<std::uint32_t>(stream, out, 9 * blocks), grid, {1, 1, 1}, "plan");
      LaunchPlan::create(count, {.spread = spread})
          .typed_grid<Tensor<std::uint32_t>>()(stream, extent_of(grid), cnt.tensor<std::uint32_t>());
      check_equal(download<std::uint32_t>(stream, cnt, 1), Words{static_cast<std::uint32_t>(2 * blocks)},
                  "blocks that ran");
    }
    stream.fill(out.address(), 0xEEEEEEEE, 4, 9 * 1100);
    typed_grid(stream, extent_of(grid), out.tensor<std::uint32_t>());
    check_index(download<std::uint32_t>(stream, out, 9 * blocks), grid, {1, 1, 1}, "typed launch with a grid");
  }
}

void block_sizes_reach_the_kernel(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel index = c.kernel("index"), add = c.kernel("add");
  const Memory out = device.allocate(9 * 4 * 64);
  for (const Dim3 block : {Dim3{1, 1, 1}, Dim3{16, 1, 1}, Dim3{4, 2, 1}, Dim3{2, 2, 4}}) {
    stream.launch(index, {.grid = {2, 2, 1}, .block = extent_of(block)}, out);
    check_index(download<std::uint32_t>(stream, out, 36), {2, 2, 1}, block, "general path");
    stream.fill(out.address(), 0, 4, 36);
    LaunchPlan::create(index, {.block = extent_of(block)})
        .typed_grid<Tensor<std::uint32_t>>()(stream, {2, 2, 1}, out.tensor<std::uint32_t>());
    check_index(download<std::uint32_t>(stream, out, 36), {2, 2, 1}, block, "typed launch with a grid");
  }
  std::vector<float> values(1000), wanted(1000);
  for (std::size_t i = 0; i < 1000; ++i) values[i] = static_cast<float>(i), wanted[i] = values[i] + 2;
  const Memory in = upload(device, stream, values), sums = zeros<float>(device, stream, 1000);
  for (const LaunchShape& shape :
       {LaunchShape{}, LaunchShape{.grid = {10, 1, 1}, .block = {16, 1, 1}},
        LaunchShape{.grid = {1, 1, 1}, .block = {64, 1, 1}}, LaunchShape{.grid = {2000, 1, 1}}}) {
    stream.fill(sums.address(), 0, 4, 1000);
    stream.launch(add, shape, sums, in, 1000, 2.0F);
    check_equal(download<float>(stream, sums, 1000), wanted, "1000 sums by whatever shape");
  }
}

void scratch_of_each_block(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel scratch = c.kernel("scratch");
  const Memory out = device.allocate(4 * 64);
  for (const std::uint32_t words : {1U, 16U, 1000U, 4000U}) {
    const LaunchShape shape{.grid = {4, 2, 8}, .shared_bytes = std::int64_t{4} * words};
    for (const bool spread : {false, true}) {
      LaunchShape s = shape;
      s.spread = spread;
      stream.fill(out.address(), 0, 4, 64);
      if (spread) LaunchPlan::create(scratch, {.shape = s}).launch(stream, out, words, 5);
      else stream.launch(scratch, s, out, words, 5);
      const Words sums = download<std::uint32_t>(stream, out, 64);
      for (std::uint32_t b = 0; b < 64; ++b) {
        check_equal(sums[b], 5 * words + (b + 1) * (words * (words - 1) / 2),
                    "the sum over " + std::to_string(words) + " words of scratch");
      }
    }
  }
}

void scratch_beyond_the_limit(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel scratch = c.kernel("scratch");
  const Memory out = device.allocate(64);
  const auto most = static_cast<std::int64_t>(device.info().max_shared_bytes);
  for (const std::int64_t bytes :
       {most + 1, std::int64_t{-1}, std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::max()}) {
    check_throws(ErrorCode::kInvalidArgument,
                 {"'scratch'", "shared_bytes", std::to_string(bytes), std::to_string(most)},
                 [&] { stream.launch(scratch, {.shared_bytes = bytes}, out, 1, 1); });
    check_throws(ErrorCode::kInvalidArgument, {"'scratch'", "shared_bytes", std::to_string(bytes)},
                 [&] { (void)LaunchPlan::create(scratch, {.shared_bytes = bytes}); });
  }
}

constexpr Test kTests[] = {
    {"zero_dimensions_B07", zero_dimensions},
    {"extents_beyond_the_limit_B06", extents_beyond_the_limit},
    {"products_beyond_32_bits_B06", products_beyond_32_bits, kStores},
    {"shapes_arrive", shapes_arrive, kStores},
    {"every_block_runs_once_with_its_index", every_block_runs_once_with_its_index, kRuns},
    {"block_sizes_reach_the_kernel", block_sizes_reach_the_kernel, kRuns},
    {"scratch_of_each_block", scratch_of_each_block, kRuns},
    {"scratch_beyond_the_limit", scratch_beyond_the_limit},
};

}  // namespace

const Suite kShapesSuite{"shapes", "grids, blocks, scratch and their limits", kTests};

}  // namespace slipway::conformance
