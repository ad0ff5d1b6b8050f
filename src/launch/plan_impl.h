// A launch plan, as its fast path reads it: the record as a template, and what a call has to write and check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/handles.h"
#include "launch/grid_rule.h"
#include "record/layout.h"
#include "slipway/plan.h"

namespace slipway::internal {

// Run-time arguments reach the plan packed at their natural offsets (detail::PackedArguments), and go to where
// the device's layout wants them, run by run.
struct ArgumentRun {
  std::uint32_t from;
  std::uint32_t to;  // in the record
  std::uint32_t bytes;
};

struct AlignmentGuard {
  std::uint32_t offset;  // of the address in the packed run-time arguments
  std::uint32_t parameter;
  std::uint64_t mask;  // bits that must be zero
};

struct RangeGuard {
  std::uint32_t offset;
  std::uint32_t parameter;
  ArgKind kind;
  std::int64_t min;
  std::int64_t max;
};

struct alignas(64) PlanImpl {
  // What the fast path reads: one line. In a direct plan the run-time arguments go into the record as they are packed,
  // up to its end, and nothing but alignment has to be checked.
  const DeviceImpl* static_for = nullptr;  // the plan's device when it is direct and its shape is static, else null
  const DeviceImpl* direct_for = nullptr;  // the same, whether the shape is static or each call's
  const std::byte* record = nullptr;       // the template
  std::uint64_t guard_bits = 0;            // of all alignment guards: no tensor has one of them, no guard is missed
  std::uint32_t record_bytes = 0;
  std::uint32_t packed_bytes = 0;  // of the run-time arguments, rounded up to 16
  bool has_extent = false;
  bool has_static_shape = false;
  bool takes_grid = false;
  bool has_wider_slots = false;     // than the values packed for them
  std::uint32_t grid_words_at = 0;  // in the record, where the device's layout has them; else 0
  DeviceImpl* device = nullptr;
  std::unique_ptr<PlanGrid> grid;  // computes each call's grid; null where that is static or given

  std::vector<AlignmentGuard> alignment_guards;
  std::vector<RangeGuard> range_guards;
  std::vector<ArgumentRun> runs;

  // For everything else.
  std::shared_ptr<std::byte[]> record_storage;
  Kernel kernel;
  std::optional<Kernel> fallback;
  CheckedShape shape;                         // without a static shape: its grid is each call's
  Signature runtime_signature;                // of the run-time arguments, in order
  std::vector<std::uint32_t> runtime_index;   // their positions in the kernel's signature
  std::vector<std::uint32_t> packed_offsets;  // their places in the packed arguments
  std::vector<std::pair<std::size_t, Argument>> fixed;
  std::vector<std::vector<std::byte>> fixed_bytes;  // what fixed bytes arguments point to
};

GuardMiss check_guards(const PlanImpl& plan, const std::byte* packed) noexcept;
std::shared_ptr<PlanImpl> build_plan(const Kernel& kernel, const PlanOptions& options);

// The general path for a call whose packed arguments miss a guard: through the fallback kernel, or refused.
void launch_missed(const PlanImpl& plan, StreamImpl& stream, const CheckedShape& shape, const std::byte* packed,
                   GuardMiss miss);

}  // namespace slipway::internal

namespace slipway::detail {
void check_types(const std::string& where, std::span<const Parameter> parameters, std::span<const Parameter> signature,
                 std::span<const std::uint32_t> index);
}
