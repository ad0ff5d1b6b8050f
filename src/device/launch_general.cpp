// The general path of a launch: what a plan does once, done for this one call.
#include <cstring>
#include <string>
#include <vector>

#include "device/handles.h"
#include "device/hooks.h"
#include "record/layout.h"

namespace slipway::internal {
namespace {

void check_dimension(const std::string& kernel, const std::string& name, std::int64_t value, std::uint32_t limit) {
  if (value >= 0 && value <= std::int64_t{limit}) return;
  throw Error(ErrorCode::kInvalidArgument, "kernel '" + kernel + "' was launched with " + name + " = " +
                                               std::to_string(value) + "; the device allows 0 to " +
                                               std::to_string(limit) + ", so split the work or use another dimension");
}

// Refusals stand apart: what is checked at each launch of a plan without a static shape stays short.
[[gnu::noinline, gnu::cold]] void refuse_extent(const std::string& kernel, const std::string& what,
                                                const Extent& extent, const Dim3& limit) {
  check_dimension(kernel, what + ".x", extent.x, limit.x);
  check_dimension(kernel, what + ".y", extent.y, limit.y);
  check_dimension(kernel, what + ".z", extent.z, limit.z);
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_blocks(const DeviceInfo& info, const std::string& kernel,
                                                          const Dim3& grid) {
  throw Error(ErrorCode::kInvalidArgument,
              "kernel '" + kernel + "' was launched with a grid of " + std::to_string(grid.x) + " x " +
                  std::to_string(grid.y) + " x " + std::to_string(grid.z) + " blocks; the device allows " +
                  std::to_string(info.max_grid_blocks) + " in all, so split the work or do more in a block");
}

inline Dim3 check_extent(const std::string& kernel, const char* what, const Extent& extent, const Dim3& limit) {
  // Negative ones are larger than any limit.
  const auto x = static_cast<std::uint64_t>(extent.x), y = static_cast<std::uint64_t>(extent.y),
             z = static_cast<std::uint64_t>(extent.z);
  if (x > limit.x || y > limit.y || z > limit.z) [[unlikely]]
    refuse_extent(kernel, what, extent, limit);
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
}

CaptureTarget& require_capture(CaptureTarget* target, const std::string& kernel) {
  if (target) return *target;
  throw Error(ErrorCode::kFailedPrecondition,
              "kernel '" + kernel +
                  "' was launched with a graph's parameter, but its stream is not being "
                  "captured; pass a value, or capture first");
}

bool any_zero(const Dim3& d) noexcept { return d.x == 0 || d.y == 0 || d.z == 0; }

}  // namespace

void check_grid(const DeviceInfo& info, const std::string& kernel, const Extent& grid, CheckedShape& shape) {
  shape.extent.grid = check_extent(kernel, "grid", grid, info.max_grid);
  const Dim3& g = shape.extent.grid;
  // Three factors of up to 2^32: the first two fit 64 bits.
  std::uint64_t blocks = 0;
  if (__builtin_mul_overflow(std::uint64_t{g.x} * g.y, std::uint64_t{g.z}, &blocks) || blocks > info.max_grid_blocks)
      [[unlikely]]
    refuse_blocks(info, kernel, g);
  shape.empty = blocks == 0 || any_zero(shape.extent.block);
}

CheckedShape check_shape(const DeviceInfo& info, const std::string& kernel, const LaunchShape& shape) {
  CheckedShape checked;
  const bool own_block = shape.block.x == 0 && shape.block.y == 0 && shape.block.z == 0;
  checked.extent.block = own_block ? Dim3{1, 1, 1} : check_extent(kernel, "block", shape.block, info.max_block);
  check_grid(info, kernel, shape.grid, checked);
  const Dim3& b = checked.extent.block;
  // Three factors of up to 2^32: the first two fit 64 bits, the third is compared by division.
  const std::uint64_t plane = std::uint64_t{b.x} * b.y;
  if (plane != 0 && b.z > info.max_block_items / plane) {
    throw Error(ErrorCode::kInvalidArgument, "kernel '" + kernel + "' was launched with a block of " +
                                                 std::to_string(b.x) + " x " + std::to_string(b.y) + " x " +
                                                 std::to_string(b.z) + " work items; the device allows " +
                                                 std::to_string(info.max_block_items) + " in all");
  }
  if (shape.shared_bytes < 0 || static_cast<std::uint64_t>(shape.shared_bytes) > info.max_shared_bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                "kernel '" + kernel + "' was launched with shared_bytes = " + std::to_string(shape.shared_bytes) +
                    "; the device allows 0 to " + std::to_string(info.max_shared_bytes));
  }
  checked.extent.shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes);
  if (shape.spread) checked.flags |= kLaunchSpread;
  checked.grid_from = shape.grid_from;
  if (shape.grid_from.capture != 0 || checked.extent.grid != Dim3{1, 1, 1} || b != Dim3{1, 1, 1} ||
      shape.shared_bytes != 0) {
    checked.flags |= kLaunchHasExtent;
  }
  return checked;
}

void launch_general(StreamImpl& stream, KernelImpl& kernel, const CheckedShape& shape,
                    std::span<const Argument> arguments) {
  const KernelCode& code = *kernel.code;
  DeviceImpl& device = stream.device();
  if (arguments.size() != code.signature.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "kernel '" + code.name + "' expected " + std::to_string(code.signature.size()) + " arguments, got " +
                    std::to_string(arguments.size()) + "; its signature is (" + to_string(code.signature) + ")");
  }
  alignas(kRecordAlignment) std::byte record[sizeof(LaunchRecord) + sizeof(LaunchExtent) + kMaxArgumentBytes];
  auto* launch = reinterpret_cast<LaunchRecord*>(record);
  const bool has_extent = (shape.flags & kLaunchHasExtent) != 0;
  const std::uint32_t offset = sizeof(LaunchRecord) + (has_extent ? sizeof(LaunchExtent) : 0);
  const std::uint32_t bytes = round_up_record(offset + code.layout.size_bytes);
  std::memset(record, 0, bytes);
  write_frame(code.layout, shape.extent.grid, record + offset);
  std::vector<ParameterUse> uses;
  const auto target = stream.capture();
  if (shape.grid_from.capture != 0) {
    require_capture(target.get(), code.name)
        .initial_value(Argument::parameter(shape.grid_from.number, shape.grid_from.capture, ArgKind::kBytes));
    uses.push_back({ParameterUse::kGrid, shape.grid_from.number});
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument argument = arguments[i];
    if (argument.category() == Argument::Category::kParameter) {
      uses.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(argument.as_unsigned())});
      argument = require_capture(target.get(), code.name).initial_value(argument);
    }
    const Parameter& parameter = code.signature[i];
    const ArgumentSlot& slot = code.layout.slots[i];
    if (argument.device_id() != 0 && argument.device_id() != device.id()) {
      throw Error(ErrorCode::kInvalidArgument, "argument " + std::to_string(i) + " of kernel '" + code.name +
                                                   "' is memory of another device than the stream's '" +
                                                   device.info().uri + "'; copy it there first");
    }
    pack_argument(code.name, i, parameter, slot.size, argument, record + offset + slot.offset).throw_if_error();
    const GuardMiss miss = check_specialisation(parameter, argument);
    if (miss != GuardMiss::kNone) specialisation_error(code.name, i, parameter, argument, miss).throw_if_error();
  }
  if (shape.empty && uses.empty()) {
    device.counters().empty_launches.fetch_add(1, std::memory_order_relaxed);
    return stream.check_open();
  }
  device.driver().check_launch(code, shape.extent).throw_if_error();
  launch->header = {bytes, RecordKind::kLaunch, shape.flags, static_cast<std::uint16_t>(offset)};
  launch->code = &code;
  if (has_extent) std::memcpy(record + sizeof(LaunchRecord), &shape.extent, sizeof(LaunchExtent));
  const auto submit = [&] {
    return stream.submit(
        record, bytes, code.name, [](StreamCounters& counters) { counters.general_launches.add(); }, uses);
  };
  if ((stream.sink().slow_flags() & kSlowHooks) != 0) launch_hooked(stream, code.name, shape.extent, false, submit);
  else submit();
}

}  // namespace slipway::internal
