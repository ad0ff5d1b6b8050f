#include "drivers/null/null_executor.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/parker.h"

namespace slipway::internal {

using testing::StoredWork;

void NullExecutor::store(StoredWork work) {
  if (!options_.store) return;
  const std::lock_guard lock(mutex_);
  stored_.push_back(std::move(work));
}

std::vector<StoredWork> NullExecutor::take_stored() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stored_, {});
}

void NullExecutor::fault(const KernelCode& code, std::uint64_t launch_number) {
  environment_.lose(Status(ErrorCode::kDeviceLost, "the null device was told to fault at launch " +
                                                       std::to_string(options_.fault_at) + ", and kernel '" +
                                                       code.name + "' was launch " + std::to_string(launch_number) +
                                                       "; call Device::reset() to go on"));
  throw Error(environment_.lost_cause().shared());
}

void NullExecutor::launch(const LaunchRecord& launch, Lane& lane) {
  const KernelCode& code = *launch.code;
  const std::uint64_t number = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number == options_.fault_at || environment_.lost.load(std::memory_order_relaxed)) fault(code, number);
  if (options_.busy_ns > 0) {
    const std::int64_t until = now_ns() + options_.busy_ns;
    while (now_ns() < until) cpu_relax();
  }
  if (!options_.store) return;
  StoredWork work;
  work.kind = StoredWork::Kind::kLaunch;
  work.name = code.name;
  work.stream_id = reinterpret_cast<std::uintptr_t>(&lane);
  work.sequence = lane.sequence + 1 - lane.base;
  const LaunchExtent* extent = extent_of(launch);
  work.grid = extent ? extent->grid : Dim3{1, 1, 1};
  work.block = extent ? extent->block : Dim3{1, 1, 1};
  work.shared_bytes = extent ? extent->shared_bytes : 0;
  work.total_blocks = std::uint64_t{work.grid.x} * work.grid.y * work.grid.z;
  work.launched_blocks = block_count(work.grid, code.most_blocks);
  const std::byte* arguments = arguments_of(launch);
  work.arguments.assign(arguments, arguments + code.layout.size_bytes);
  store(std::move(work));
}

void NullExecutor::copy(const CopyRecord&, const void*) { store({.kind = StoredWork::Kind::kCopy, .name = "copy"}); }
void NullExecutor::fill(const FillRecord&) { store({.kind = StoredWork::Kind::kFill, .name = "fill"}); }

void NullExecutor::event(const EventRecord& record, RecordKind kind) {
  if (!record.event) return;  // a mark of our own, or a hold
  const bool is_mark = kind == RecordKind::kEventMark;
  store({.kind = is_mark ? StoredWork::Kind::kEventMark : StoredWork::Kind::kEventWait,
         .name = is_mark ? "mark" : "wait"});
}

void NullExecutor::host_function(const HostFunctionRecord& record) {
  store({.kind = StoredWork::Kind::kHostFunction, .name = record.payload->name});
}

}  // namespace slipway::internal
