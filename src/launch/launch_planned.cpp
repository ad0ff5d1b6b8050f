// The fast path: guards, the right to submit, a copy of the template, the run-time arguments, one release store.
#include <cstring>
#include <string>

#include "launch/plan_impl.h"

namespace slipway {
namespace internal {
namespace {

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool in_range(const RangeGuard& guard, const std::byte* packed) noexcept {
  const std::byte* at = packed + guard.offset;
  std::int64_t value = 0;
  switch (guard.kind) {
    case ArgKind::kI8: value = load<std::int8_t>(at); break;
    case ArgKind::kI16: value = load<std::int16_t>(at); break;
    case ArgKind::kI32: value = load<std::int32_t>(at); break;
    case ArgKind::kU8: value = load<std::uint8_t>(at); break;
    case ArgKind::kU16: value = load<std::uint16_t>(at); break;
    case ArgKind::kU32: value = load<std::uint32_t>(at); break;
    case ArgKind::kU64: {
      const auto wide = load<std::uint64_t>(at);
      if (wide > INT64_MAX) return guard.max == INT64_MAX;
      value = static_cast<std::int64_t>(wide);
      break;
    }
    default: value = load<std::int64_t>(at); break;
  }
  return value >= guard.min && value <= guard.max;
}

inline GuardMiss check_guards(const PlanImpl& plan, const std::byte* packed) noexcept {
  std::uint64_t misaligned = 0;
  for (const AlignmentGuard& guard : plan.alignment_guards) {
    misaligned |= load<std::uint64_t>(packed + guard.offset) & guard.mask;
  }
  if (misaligned != 0) [[unlikely]] return GuardMiss::kAlignment;
  for (const RangeGuard& guard : plan.range_guards) {
    if (!in_range(guard, packed)) [[unlikely]] return GuardMiss::kRange;
  }
  return GuardMiss::kNone;
}

// Both sides are 16-byte aligned and padded; a loop of vector moves beats a call of memcpy at these sizes.
inline void copy_words(std::byte* to, const std::byte* from, std::uint32_t bytes) noexcept {
  for (std::uint32_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
}

inline void write_record(const PlanImpl& plan, std::byte* place, const std::byte* packed) noexcept {
  if (plan.contiguous) [[likely]] {
    copy_words(place, plan.record, plan.arguments_at);
    copy_words(place + plan.arguments_at, packed, plan.record_bytes - plan.arguments_at);
    return;
  }
  copy_words(place, plan.record, plan.record_bytes);
  for (const ArgumentRun& run : plan.runs) std::memcpy(place + run.to, packed + run.from, run.bytes);
}

// Everything but the common case: waits, refusals, blocking mode, the timeline, shared streams.
[[gnu::noinline]] void launch_slow(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape,
                                   const std::byte* packed) {
  check_same_device(*plan.device, stream.device(), "the stream");
  stream.device().check_usable("a launch", plan.kernel.impl()->generation);
  alignas(kRecordAlignment) std::byte record[sizeof(LaunchRecord) + sizeof(LaunchExtent) + kMaxArgumentBytes + 64];
  write_record(plan, record, packed);
  if (shape) std::memcpy(record + sizeof(LaunchRecord), &shape->extent, sizeof(LaunchExtent));
  stream.submit(record, plan.record_bytes, plan.kernel.name(),
                [](StreamCounters& counters) { counters.planned_launches.add(); });
}

// True: the record was submitted.
inline bool try_launch(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape, const std::byte* packed) {
  if (&stream.device() != plan.device) [[unlikely]] return false;
  Sink* sink = stream.try_enter();
  if (!sink) [[unlikely]] return false;
  std::byte* place = sink->try_reserve(plan.record_bytes);
  if (!place) [[unlikely]] {
    stream.leave();
    return false;
  }
  write_record(plan, place, packed);
  if (shape) std::memcpy(place + sizeof(LaunchRecord), &shape->extent, sizeof(LaunchExtent));
  stream.counters().planned_launches.add();
  const bool must_kick = sink->commit(plan.record_bytes);
  stream.leave();
  if (must_kick) stream.kick();
  return true;
}

[[gnu::noinline]] void launch_empty(const PlanImpl& plan, StreamImpl& stream) {
  check_same_device(*plan.device, stream.device(), "the stream");
  stream.check_open();
  plan.device->counters().empty_launches.fetch_add(1, std::memory_order_relaxed);
}

Reason reason_of(GuardMiss miss) noexcept {
  return miss == GuardMiss::kAlignment ? Reason::kGuardAlignment
         : miss == GuardMiss::kRange   ? Reason::kGuardRange
                                       : Reason::kGuardDtype;
}

}  // namespace

[[gnu::noinline]] void launch_missed(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape,
                                     const std::byte* packed, GuardMiss miss) {
  check_same_device(*plan.device, stream.device(), "the stream");
  plan.device->counters().note(reason_of(miss));
  KernelImpl& kernel = *(plan.fallback ? *plan.fallback : plan.kernel).impl();
  std::vector<Argument> arguments(kernel.code->signature.size(), Argument(DevicePtr{0}));
  for (std::size_t i = 0; i < plan.runtime_index.size(); ++i) {
    arguments[plan.runtime_index[i]] = unpack_argument(plan.runtime_signature[i], packed + plan.packed_offsets[i]);
  }
  for (const auto& [index, argument] : plan.fixed) arguments[index] = argument;
  launch_general(stream, kernel, shape, arguments);
}

}  // namespace internal

namespace detail {

using internal::CheckedShape;
using internal::GuardMiss;
using internal::PlanImpl;
using internal::StreamImpl;

void launch_static(const PlanImpl& plan, StreamImpl& stream, const std::byte* packed) {
  const GuardMiss miss = internal::check_guards(plan, packed);
  if (miss != GuardMiss::kNone) [[unlikely]] return internal::launch_missed(plan, stream, plan.shape, packed, miss);
  if (plan.empty) [[unlikely]] return internal::launch_empty(plan, stream);
  if (!internal::try_launch(plan, stream, nullptr, packed)) [[unlikely]] {
    internal::launch_slow(plan, stream, nullptr, packed);
  }
}

void launch_grid(const PlanImpl& plan, StreamImpl& stream, const Extent& grid, const std::byte* packed) {
  CheckedShape shape = plan.shape;
  internal::check_grid(plan.device->info(), plan.kernel.impl()->code->name, grid, shape);
  const GuardMiss miss = internal::check_guards(plan, packed);
  if (miss != GuardMiss::kNone) [[unlikely]] return internal::launch_missed(plan, stream, shape, packed, miss);
  if (shape.empty) [[unlikely]] return internal::launch_empty(plan, stream);
  if (!internal::try_launch(plan, stream, &shape, packed)) [[unlikely]] {
    internal::launch_slow(plan, stream, &shape, packed);
  }
}

}  // namespace detail
}  // namespace slipway
