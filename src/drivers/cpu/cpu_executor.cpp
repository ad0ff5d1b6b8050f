#include "drivers/cpu/cpu_executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace slipway::internal {
namespace {

// Scratch of the block that runs on this thread. Kept and only ever grown, so that steady launches do not
// allocate.
void* shared_scratch(std::uint32_t bytes) {
  if (bytes == 0) return nullptr;
  struct Free {
    void operator()(void* p) const noexcept { std::free(p); }
  };
  static thread_local std::unique_ptr<void, Free> scratch;
  static thread_local std::uint32_t size = 0;
  if (bytes > size) {
    const std::uint32_t rounded = (bytes + 63) / 64 * 64;
    scratch.reset(std::aligned_alloc(64, rounded));
    size = scratch ? rounded : 0;
    if (!scratch) throw std::bad_alloc();
  }
  return scratch.get();
}

struct BlockRun {
  const KernelCode* code;
  const std::byte* arguments;
  const LaunchExtent* extent;
};

// Runs the blocks [begin, end) in the order x, then y, then z.
void run_range(void* context, std::uint64_t begin, std::uint64_t end) {
  const BlockRun& run = *static_cast<const BlockRun*>(context);
  const Dim3& grid = run.extent->grid;
  Block block;
  block.grid = grid;
  block.size = run.extent->block;
  block.shared_bytes = run.extent->shared_bytes;
  block.shared = shared_scratch(block.shared_bytes);
  if (begin != 0) {  // divisions take as long as a small kernel
    const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
    block.index = {static_cast<std::uint32_t>(begin % grid.x), static_cast<std::uint32_t>(begin / grid.x % grid.y),
                   static_cast<std::uint32_t>(begin / plane)};
  }
  const KernelEntry entry = run.code->entry;
  const void* const entry_context = run.code->context;
  for (std::uint64_t i = begin; i < end; ++i) {
    entry(run.arguments, block, entry_context);
    if (++block.index.x < grid.x) continue;
    block.index.x = 0;
    if (++block.index.y < grid.y) continue;
    block.index.y = 0;
    ++block.index.z;
  }
}

template <class T>
void fill_with(void* to, std::uint64_t pattern, std::uint64_t count) noexcept {
  std::fill_n(static_cast<T*>(to), count, static_cast<T>(pattern));
}

}  // namespace

void CpuExecutor::run_blocks(const LaunchRecord& launch, const LaunchExtent& extent, const KernelCode& code,
                             const std::byte* arguments) {
  if (extent.grid.x == 0 || extent.grid.y == 0 || extent.grid.z == 0) return;  // only an update can say so
  BlockRun run{&code, arguments, &extent};
  const std::uint64_t plane = std::uint64_t{extent.grid.x} * extent.grid.y;
  const std::uint64_t total = plane * extent.grid.z;  // fits: see max_grid
  const unsigned workers = engine_->options().workers;
  if ((launch.header.flags & kLaunchSpread) == 0 || workers < 2 || total < 2) return run_range(&run, 0, total);
  SpreadJob job;
  job.run = run_range;
  job.context = &run;
  job.total = total;
  // Four chunks a worker: small enough that a late helper evens out, few enough that taking one is nothing.
  job.chunk = std::max<std::uint64_t>(1, total / (std::uint64_t{workers} * 4));
  engine_->spread(job);
}

void CpuExecutor::copy(const CopyRecord& record, const void* source) {
  std::memcpy(reinterpret_cast<void*>(record.to), source, record.bytes);
}

void CpuExecutor::fill(const FillRecord& record) {
  void* to = reinterpret_cast<void*>(record.to);
  switch (record.header.flags) {
    case 1: std::memset(to, static_cast<int>(record.pattern), record.count); break;
    case 2: fill_with<std::uint16_t>(to, record.pattern, record.count); break;
    case 4: fill_with<std::uint32_t>(to, record.pattern, record.count); break;
    default: fill_with<std::uint64_t>(to, record.pattern, record.count); break;
  }
}

}  // namespace slipway::internal
