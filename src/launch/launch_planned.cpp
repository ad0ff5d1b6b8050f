// The fast path: guards, the right to submit, a copy of the template, the run-time arguments, one release store.
#include <cstring>
#include <string>

#include "device/hooks.h"
#include "launch/plan_impl.h"
#include "launch/site_impl.h"

namespace slipway {
namespace internal {
namespace {

bool in_range(const RangeGuard& guard, const std::byte* packed) noexcept {
  std::int64_t value = 0;
  if (!load_integer(guard.kind, packed + guard.offset, value)) return guard.max == INT64_MAX;  // a u64 above it
  return value >= guard.min && value <= guard.max;
}

inline bool is_aligned(const PlanImpl& plan, const std::byte* packed) noexcept {
  std::uint64_t misaligned = 0;
  for (const AlignmentGuard& guard : plan.alignment_guards) {
    misaligned |= detail::load_argument<std::uint64_t>(packed + guard.offset) & guard.mask;
  }
  return misaligned == 0;
}

}  // namespace

GuardMiss check_guards(const PlanImpl& plan, const std::byte* packed) noexcept {
  if (!is_aligned(plan, packed)) [[unlikely]]
    return GuardMiss::kAlignment;
  for (const RangeGuard& guard : plan.range_guards) {
    if (!in_range(guard, packed)) [[unlikely]]
      return GuardMiss::kRange;
  }
  return GuardMiss::kNone;
}

namespace {

inline void write_record(const PlanImpl& plan, std::byte* place, const CheckedShape* shape,
                         const std::byte* packed) noexcept {
  std::memcpy(place, plan.record, plan.record_bytes);
  if (shape) {
    std::memcpy(place + sizeof(LaunchRecord), &shape->extent, sizeof(LaunchExtent));
    if (plan.grid_words_at != 0) std::memcpy(place + plan.grid_words_at, &shape->extent.grid, sizeof(Dim3));
  }
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

void launch_as_general(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape, const std::byte* packed,
                       Reason reason) {
  check_same_device(*plan.device, stream.device(), "the stream");
  stream.note(reason, plan.kernel.name());
  const bool missed =
      reason == Reason::kGuardAlignment || reason == Reason::kGuardRange || reason == Reason::kGuardDtype;
  KernelImpl& kernel = *(missed && plan.fallback ? *plan.fallback : plan.kernel).impl();
  std::vector<Argument> arguments(kernel.code->signature.size(), Argument(DevicePtr{0}));
  for (std::size_t i = 0; i < plan.runtime_index.size(); ++i) {
    arguments[plan.runtime_index[i]] = unpack_argument(plan.runtime_signature[i], packed + plan.packed_offsets[i]);
  }
  for (const auto& [index, argument] : plan.fixed) arguments[index] = argument;
  launch_general(stream, kernel, shape, arguments);
}

// Everything but the common case: waits, refusals, blocking mode, the timeline, shared streams.
[[gnu::noinline]] void launch_slow(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape,
                                   const std::byte* packed) {
  check_same_device(*plan.device, stream.device(), "the stream");
  stream.device().check_usable("a launch", plan.kernel.impl()->generation);
  const CheckedShape& launched = shape ? *shape : plan.shape;
  const bool hooks = (stream.sink().slow_flags() & kSlowHooks) != 0;
  if (hooks && stream.device().hooks().needs_general()) {
    return launch_as_general(plan, stream, launched, packed, Reason::kHookNeedsGeneral);
  }
  alignas(kRecordAlignment) std::byte record[sizeof(LaunchRecord) + sizeof(LaunchExtent) + kMaxArgumentBytes + 64];
  write_record(plan, record, shape, packed);
  const auto submit = [&] {
    return stream.submit(record, plan.record_bytes, plan.kernel.name(),
                         [](StreamCounters& counters) { counters.planned_launches.add(); });
  };
  if (hooks) launch_hooked(stream, plan.kernel.name(), launched.extent, true, submit);
  else submit();
}

[[gnu::noinline]] void kick(StreamImpl& stream) { stream.kick(); }

// The fast path, for plans and calls that need nothing special; it calls nothing, so that it keeps its values in
// registers that need no saving. The stream is entered, and left here. False: nothing was submitted, and the slow
// path is to find out why.
template <bool kDirect>
inline bool launch_entered(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape, const std::byte* packed,
                           Counter* hits = nullptr) {
  Sink& sink = stream.sink();
  if (!sink.has_room(plan.record_bytes)) [[unlikely]] {
    stream.leave();
    return false;
  }
  if constexpr (kDirect) {
    write_direct(plan, sink.place(), shape, packed);
  } else {
    write_record(plan, sink.place(), shape, packed);
  }
  stream.counters().planned_launches.add();
  if (hits) hits->add();
  const bool must_kick = sink.commit(plan.record_bytes);
  stream.leave();
  if (must_kick) [[unlikely]]
    kick(stream);
  return true;
}

template <bool kDirect>
inline bool try_launch(const PlanImpl& plan, StreamImpl& stream, const CheckedShape* shape, const std::byte* packed) {
  if (!stream.try_enter()) [[unlikely]]
    return false;
  return launch_entered<kDirect>(plan, stream, shape, packed);
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
  detail::launch_grid(packed, stream, plan, addresses, plan.grid->evaluate(packed));
}

}  // namespace

[[gnu::noinline]] void launch_missed(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape,
                                     const std::byte* packed, GuardMiss miss) {
  launch_as_general(plan, stream, shape, packed, reason_of(miss));
}

// Of a good grid, the shape; false for an empty grid or one that check_grid() refuses.
inline bool take_grid(const PlanImpl& plan, const Extent& grid, CheckedShape& shape) noexcept {
  if (plan.shape.empty) return false;  // in its block, or in the grid that stands for each call's
  const DeviceInfo& info = plan.device->info();
  const Dim3& most = info.max_grid;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > most.x || grid.y > most.y || grid.z > most.z) return false;
  std::uint64_t blocks = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(grid.x * grid.y), static_cast<std::uint64_t>(grid.z),
                             &blocks) ||
      blocks > info.max_grid_blocks)
    return false;
  shape = plan.shape;
  shape.extent.grid = {static_cast<std::uint32_t>(grid.x), static_cast<std::uint32_t>(grid.y),
                       static_cast<std::uint32_t>(grid.z)};
  return true;
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
using internal::SiteImpl;
using internal::StreamImpl;

void launch_static(const std::byte* packed, StreamImpl& stream, const PlanImpl& plan, std::uint64_t addresses) {
  const bool plain = &stream.device() == plan.static_for && (addresses & plan.guard_bits) == 0;
  if (plain && internal::try_launch<true>(plan, stream, nullptr, packed)) [[likely]]
    return;
  if (plan.grid) return internal::launch_by_rule(plan, stream, packed, addresses);
  internal::launch_checked(plan, stream, plan.shape, nullptr, packed);
}

void launch_grid(const std::byte* packed, StreamImpl& stream, const PlanImpl& plan, std::uint64_t addresses,
                 const Extent& grid) {
  CheckedShape shape = plan.shape;
  internal::check_grid(plan.device->info(), plan.kernel.impl()->code->name, grid, shape);
  const bool plain = &stream.device() == plan.direct_for && (addresses & plan.guard_bits) == 0 && !shape.empty;
  if (plain && internal::try_launch<true>(plan, stream, &shape, packed)) [[likely]]
    return;
  internal::launch_checked(plan, stream, shape, &shape, packed);
}

namespace {

// What the fast path of a site leaves: these keep it free of a frame.
[[gnu::noinline]] void launch_site_slow(const std::byte* packed, StreamImpl& stream, SiteImpl& site,
                                        std::uint64_t addresses, const Extent* grid = nullptr) {
  const Stream to(stream.shared_from_this());
  site.launch({to, grid ? std::optional(*grid) : std::nullopt, {}, packed, addresses});
}
// The stream is entered, and left here. Functions that compute a grid may take long: they are called by the slow path.
[[gnu::noinline]] void launch_site_indirect(const std::byte* packed, StreamImpl& stream, SiteImpl& site,
                                            std::uint64_t addresses, const PlanImpl& plan) {
  if (&stream.device() == plan.device && internal::check_guards(plan, packed) == internal::GuardMiss::kNone) {
    CheckedShape shape;
    Extent grid;
    const bool computed = plan.grid && plan.grid->try_evaluate(packed, grid) && internal::take_grid(plan, grid, shape);
    if (computed || (plan.has_static_shape && !plan.shape.empty)) {
      if (internal::launch_entered<false>(plan, stream, computed ? &shape : nullptr, packed, &site.hits)) return;
      return launch_site_slow(packed, stream, site, addresses);
    }
  }
  stream.leave();
  launch_site_slow(packed, stream, site, addresses);
}

}  // namespace

// A finalized site's plan is read while the stream is entered: whoever takes it away waits for those who are inside.
void launch_static(const std::byte* packed, StreamImpl& stream, SiteImpl& site, std::uint64_t addresses) {
  if (!stream.try_enter()) [[unlikely]]
    return launch_site_slow(packed, stream, site, addresses);
  const PlanImpl& plan = *site.finalized.load(std::memory_order_seq_cst);
  if (&stream.device() != plan.static_for || (addresses & plan.guard_bits) != 0) [[unlikely]]
    return launch_site_indirect(packed, stream, site, addresses, plan);
  if (!internal::launch_entered<true>(plan, stream, nullptr, packed, &site.hits)) [[unlikely]]
    launch_site_slow(packed, stream, site, addresses);
}

void launch_grid(const std::byte* packed, StreamImpl& stream, SiteImpl& site, std::uint64_t addresses,
                 const Extent& grid) {
  if (stream.try_enter()) [[likely]] {
    const PlanImpl& plan = *site.finalized.load(std::memory_order_seq_cst);
    CheckedShape shape;
    if (&stream.device() != plan.device || !internal::take_grid(plan, grid, shape)) {
      stream.leave();
    } else if (plan.direct_for && (addresses & plan.guard_bits) == 0) [[likely]] {
      if (internal::launch_entered<true>(plan, stream, &shape, packed, &site.hits)) [[likely]]
        return;
    } else if (internal::check_guards(plan, packed) == internal::GuardMiss::kNone) {
      if (internal::launch_entered<false>(plan, stream, &shape, packed, &site.hits)) return;
    } else {
      stream.leave();
    }
  }
  launch_site_slow(packed, stream, site, addresses, &grid);
}

}  // namespace detail
}  // namespace slipway
