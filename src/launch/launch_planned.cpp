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

inline bool is_aligned(const PlanImpl& plan, const std::byte* packed) noexcept {
  std::uint64_t misaligned = 0;
  for (const AlignmentGuard& guard : plan.alignment_guards) {
    misaligned |= load<std::uint64_t>(packed + guard.offset) & guard.mask;
  }
  return misaligned == 0;
}

GuardMiss check_guards(const PlanImpl& plan, const std::byte* packed) noexcept {
  if (!is_aligned(plan, packed)) [[unlikely]]
    return GuardMiss::kAlignment;
  for (const RangeGuard& guard : plan.range_guards) {
    if (!in_range(guard, packed)) [[unlikely]]
      return GuardMiss::kRange;
  }
  return GuardMiss::kNone;
}

inline void write_record(const PlanImpl& plan, std::byte* place, const std::byte* packed) noexcept {
  std::memcpy(place, plan.record, plan.record_bytes);
  for (const ArgumentRun& run : plan.runs) std::memcpy(place + run.to, packed + run.from, run.bytes);
}

// Sixteen bytes in one register. Records, templates and packed arguments are all aligned to them and padded.
using Word = std::uint64_t __attribute__((vector_size(16), may_alias));

// Of direct plans: the head of the record, then the arguments. Loops of words beat memcpy at these sizes.
inline void write_direct(const PlanImpl& plan, std::byte* place, const CheckedShape* shape,
                         const std::byte* packed) noexcept {
  const auto* head = reinterpret_cast<const Word*>(plan.record);
  *reinterpret_cast<Word*>(place) = head[0];
  std::byte* to = place + sizeof(LaunchRecord);
  if (plan.has_extent) {
    if (shape) {
      std::memcpy(to, &shape->extent, sizeof(LaunchExtent));
    } else {
      reinterpret_cast<Word*>(to)[0] = head[1];
      reinterpret_cast<Word*>(to)[1] = head[2];
    }
    to += sizeof(LaunchExtent);
  }
  const std::size_t bytes = plan.packed_bytes;
  for (std::size_t i = 0; i != bytes; i += sizeof(Word)) {
    *reinterpret_cast<Word*>(to + i) = *reinterpret_cast<const Word*>(packed + i);
  }
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

[[gnu::noinline]] void kick(StreamImpl& stream) { stream.kick(); }

// The fast path, for plans and calls that need nothing special; it calls nothing, so that it keeps its values in
// registers that need no saving. False: nothing was submitted, and launch_checked() is to find out why.
template <bool kDirect>
inline bool try_launch(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape, const std::byte* packed) {
  if (!stream.try_enter()) [[unlikely]]
    return false;
  Sink& sink = stream.sink();
  if (!sink.has_room(plan.record_bytes)) [[unlikely]] {
    stream.leave();
    return false;
  }
  if constexpr (kDirect) {
    write_direct(plan, sink.place(), shape, packed);
  } else {
    write_record(plan, sink.place(), packed);
    if (shape) std::memcpy(sink.place() + sizeof(LaunchRecord), &shape->extent, sizeof(LaunchExtent));
  }
  stream.counters().planned_launches.add();
  const bool must_kick = sink.commit(plan.record_bytes);
  stream.leave();
  if (must_kick) [[unlikely]]
    kick(stream);
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

// The grid of a call whose plan computes it; then the call is one that was given its grid.
[[gnu::noinline]] void launch_by_rule(const PlanImpl& plan, StreamImpl& stream, const std::byte* packed,
                                      std::uint64_t addresses) {
  detail::launch_grid(plan, stream, plan.grid->evaluate(packed), packed, addresses);
}

}  // namespace

[[gnu::noinline]] void launch_missed(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape,
                                     const std::byte* packed, GuardMiss miss) {
  check_same_device(*plan.device, stream.device(), "the stream");
  stream.note(reason_of(miss), plan.kernel.name());
  KernelImpl& kernel = *(plan.fallback ? *plan.fallback : plan.kernel).impl();
  std::vector<Argument> arguments(kernel.code->signature.size(), Argument(DevicePtr{0}));
  for (std::size_t i = 0; i < plan.runtime_index.size(); ++i) {
    arguments[plan.runtime_index[i]] = unpack_argument(plan.runtime_signature[i], packed + plan.packed_offsets[i]);
  }
  for (const auto& [index, argument] : plan.fixed) arguments[index] = argument;
  launch_general(stream, kernel, shape, arguments);
}

// A call that was not submitted at once: it misses a guard or looks as if it did, is empty, has to wait, or its plan
// must be checked or written value by value. `given` is the shape when it is the call's, else null.
[[gnu::noinline]] void launch_checked(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape,
                                      const CheckedShape* given, const std::byte* packed) {
  const GuardMiss miss = check_guards(plan, packed);
  if (miss != GuardMiss::kNone) [[unlikely]]
    return launch_missed(plan, stream, shape, packed, miss);
  if (shape.empty) [[unlikely]]
    return launch_empty(plan, stream);
  if (&stream.device() == plan.direct_for) {
    if (try_launch<true>(plan, stream, given, packed)) return;
  } else if (&stream.device() == plan.device) {
    if (try_launch<false>(plan, stream, given, packed)) return;
  }
  launch_slow(plan, stream, given, packed);
}

}  // namespace internal

namespace detail {

using internal::CheckedShape;
using internal::PlanImpl;
using internal::StreamImpl;

void launch_static(const PlanImpl& plan, StreamImpl& stream, const std::byte* packed, std::uint64_t addresses) {
  const bool plain = &stream.device() == plan.static_for && (addresses & plan.guard_bits) == 0;
  if (plain && internal::try_launch<true>(plan, stream, nullptr, packed)) [[likely]]
    return;
  if (plan.grid) return internal::launch_by_rule(plan, stream, packed, addresses);
  internal::launch_checked(plan, stream, plan.shape, nullptr, packed);
}

void launch_grid(const PlanImpl& plan, StreamImpl& stream, const Extent& grid, const std::byte* packed,
                 std::uint64_t addresses) {
  CheckedShape shape = plan.shape;
  internal::check_grid(plan.device->info(), plan.kernel.impl()->code->name, grid, shape);
  const bool plain = &stream.device() == plan.direct_for && (addresses & plan.guard_bits) == 0 && !shape.empty;
  if (plain && internal::try_launch<true>(plan, stream, &shape, packed)) [[likely]]
    return;
  internal::launch_checked(plan, stream, shape, &shape, packed);
}

}  // namespace detail
}  // namespace slipway
