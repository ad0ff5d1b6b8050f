// Building plans: everything is looked up, checked and laid out here, so that a launch need not.
#include "slipway/plan.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "launch/plan_impl.h"

namespace slipway {
namespace internal {
namespace {

void take_fixed(PlanImpl& plan, const KernelCode& code, const PlanOptions& options) {
  for (const auto& [index, argument] : options.fixed) {
    const std::string where = "fixed argument " + std::to_string(index) + " of a plan for kernel '" + code.name + "'";
    if (index >= code.signature.size()) {
      throw Error(ErrorCode::kInvalidArgument, where + " is beyond the last of its " +
                                                   std::to_string(code.signature.size()) + " parameters; count from 0");
    }
    if (code.signature[index].kind == ArgKind::kTensor) {
      throw Error(ErrorCode::kInvalidArgument, where +
                                                   " is a tensor, and a tensor's address is not constant; pass it "
                                                   "at each launch");
    }
    const bool twice =
        std::any_of(plan.fixed.begin(), plan.fixed.end(), [&, i = index](auto& f) { return f.first == i; });
    if (twice) throw Error(ErrorCode::kInvalidArgument, where + " is given twice; give it once");
    const GuardMiss miss = check_specialisation(code.signature[index], argument);
    if (miss != GuardMiss::kNone) {
      specialisation_error(code.name, index, code.signature[index], argument, miss).throw_if_error();
    }
    plan.fixed.emplace_back(index, argument);
  }
}

// Where the grid comes from. A rule whose grid is always the same leaves it in plan.grid for build().
void take_grid(PlanImpl& plan, const KernelCode& code, const PlanOptions& options) {
  plan.has_static_shape = options.shape.has_value();
  plan.takes_grid = !options.shape && !options.grid;
  if (!options.grid) return;
  if (options.shape) {
    throw Error(ErrorCode::kInvalidArgument, "a plan for kernel '" + code.name +
                                                 "' was given a static shape and a grid rule; give one of them, and "
                                                 "with the rule the block and the shared bytes by themselves");
  }
  plan.grid = std::make_unique<PlanGrid>(*options.grid, code.name, code.signature, plan.fixed);
  plan.has_static_shape = plan.grid->constant().has_value();
}

void lay_out_runtime(PlanImpl& plan, const KernelCode& code, std::uint32_t arguments_offset) {
  std::uint32_t packed = 0;
  for (std::uint32_t i = 0; i < code.signature.size(); ++i) {
    const bool is_fixed = std::any_of(plan.fixed.begin(), plan.fixed.end(), [&](auto& f) { return f.first == i; });
    if (is_fixed) continue;
    const Parameter& p = code.signature[i];
    const std::uint32_t size = size_of(p, kNaturalAbi), align = alignment_of(p, kNaturalAbi);
    packed = (packed + align - 1) / align * align;
    const bool follows = !plan.runtime_index.empty() && plan.runtime_index.back() + 1 == i;
    plan.runtime_signature.push_back(p);
    plan.runtime_index.push_back(i);
    plan.packed_offsets.push_back(packed);
    // The slot may be wider than the value (a 4-byte bool): the template's zeros fill the rest.
    const std::uint32_t to = arguments_offset + code.layout.slots[i].offset;
    // Neighbours that keep their distance on both sides are moved as one, padding included; never over a fixed argument
    // between them, nor into a wider slot, whose rest would take what happens to be in the padding.
    plan.has_wider_slots |= code.layout.slots[i].size != size;
    const std::uint32_t most_padding = code.layout.zero_filled ? 0 : 7;
    if (follows && !plan.has_wider_slots && plan.runs.back().to - plan.runs.back().from == to - packed &&
        plan.runs.back().from + plan.runs.back().bytes + most_padding >= packed) {
      plan.runs.back().bytes = packed + size - plan.runs.back().from;
    } else {
      plan.runs.push_back({packed, to, size});
    }
    if (p.kind == ArgKind::kTensor && p.pointer_alignment > 1) {
      plan.alignment_guards.push_back({packed, i, p.pointer_alignment - 1});
      plan.guard_bits |= p.pointer_alignment - 1;
    }
    const Parameter any;
    if (p.min_value != any.min_value || p.max_value != any.max_value) {
      plan.range_guards.push_back({packed, i, p.kind, p.min_value, p.max_value});
    }
    packed += size;
  }
  plan.packed_bytes = round_up_record(packed);  // as detail::PackedArguments rounds it
}

// May the record's tail be written in whole words? Not when something fixed lies behind the run-time arguments.
void find_direct(PlanImpl& plan, const ArgumentLayout& layout, std::uint32_t arguments_offset) {
  if (layout.has_grid_words || layout.zero_filled) return;
  if (plan.has_wider_slots || plan.runs.size() > 1 || !plan.fixed.empty() || !plan.range_guards.empty() ||
      plan.shape.empty)
    return;
  if (!plan.runs.empty() && (plan.runs.front().from != 0 || plan.runs.front().to != arguments_offset)) return;
  if (plan.record_bytes > arguments_offset + plan.packed_bytes) return;
  plan.record_bytes = arguments_offset + plan.packed_bytes;
  plan.direct_for = plan.device;
  if (plan.has_static_shape) plan.static_for = plan.device;
}

}  // namespace

std::shared_ptr<PlanImpl> build_plan(const Kernel& kernel, const PlanOptions& options) {
  KernelImpl& k = deref(kernel, "the kernel of a plan");
  const KernelCode& code = *k.code;
  k.device->check_usable("creating a launch plan", k.generation);
  auto plan = std::make_shared<PlanImpl>();
  plan->device = k.device.get();
  plan->kernel = kernel;
  if (options.fallback) {
    KernelImpl& fallback = deref(*options.fallback, "the fallback kernel of a plan");
    check_same_device(*k.device, *fallback.device, "the fallback kernel of a plan");
    const auto same_kind = [](const Parameter& a, const Parameter& b) {
      return a.kind == b.kind && a.size_bytes == b.size_bytes;
    };
    if (!std::equal(code.signature.begin(), code.signature.end(), fallback.code->signature.begin(),
                    fallback.code->signature.end(), same_kind)) {
      throw Error(ErrorCode::kInvalidArgument, "the fallback kernel '" + fallback.code->name + "' takes (" +
                                                   to_string(fallback.code->signature) + "), but '" + code.name +
                                                   "' takes (" + to_string(code.signature) +
                                                   "); both must take the same kinds");
    }
    plan->fallback = options.fallback;
  }
  const DeviceInfo& info = k.device->info();
  take_fixed(*plan, code, options);
  take_grid(*plan, code, options);
  LaunchShape shape = options.shape.value_or(LaunchShape{{}, options.block, options.shared_bytes, options.spread});
  if (plan->grid && plan->has_static_shape) shape.grid = *std::exchange(plan->grid, nullptr)->constant();
  plan->shape = check_shape(info, code.name, shape);
  if (!plan->has_static_shape) plan->shape.flags |= kLaunchHasExtent;
  if (!plan->shape.empty) k.device->driver().check_launch(code, plan->shape.extent).throw_if_error();

  plan->has_extent = (plan->shape.flags & kLaunchHasExtent) != 0;
  const std::uint32_t offset = sizeof(LaunchRecord) + (plan->has_extent ? sizeof(LaunchExtent) : 0);
  plan->record_bytes = round_up_record(offset + code.layout.size_bytes);
  lay_out_runtime(*plan, code, offset);
  if (code.layout.has_grid_words) plan->grid_words_at = offset + code.layout.grid_offset;
  if (plan->grid) plan->grid->locate(plan->runtime_index, plan->packed_offsets);
  find_direct(*plan, code.layout, offset);

  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= kRecordAlignment);  // make_shared promises less
  plan->record_storage.reset(new std::byte[plan->record_bytes]{});
  std::byte* record = plan->record_storage.get();
  LaunchRecord launch{};
  launch.header = {plan->record_bytes, RecordKind::kLaunch, plan->shape.flags, static_cast<std::uint16_t>(offset)};
  launch.code = &code;
  std::memcpy(record, &launch, sizeof launch);
  if (plan->has_extent) std::memcpy(record + sizeof launch, &plan->shape.extent, sizeof(LaunchExtent));
  write_frame(code.layout, plan->shape.extent.grid, record + offset);
  for (auto& [index, argument] : plan->fixed) {
    const ArgumentSlot& slot = code.layout.slots[index];
    pack_argument(code.name, index, code.signature[index], slot.size, argument, record + offset + slot.offset)
        .throw_if_error();
    if (argument.category() != Argument::Category::kBytes) continue;
    // The caller's struct need not outlive this call.
    const auto* data = static_cast<const std::byte*>(argument.data());
    plan->fixed_bytes.emplace_back(data, data + argument.size_bytes());
    argument = Argument::bytes(plan->fixed_bytes.back().data(), argument.size_bytes(), argument.align_bytes());
  }
  plan->record = record;
  return plan;
}

}  // namespace internal

LaunchPlan LaunchPlan::create(const Kernel& kernel, const PlanOptions& options) {
  return LaunchPlan(internal::build_plan(kernel, options));
}

const Kernel& LaunchPlan::kernel() const { return internal::deref(*this, "the launch plan").kernel; }
bool LaunchPlan::has_static_shape() const { return internal::deref(*this, "the launch plan").has_static_shape; }
bool LaunchPlan::takes_grid() const { return internal::deref(*this, "the launch plan").takes_grid; }
std::size_t LaunchPlan::runtime_argument_count() const {
  return internal::deref(*this, "the launch plan").runtime_signature.size();
}

void LaunchPlan::launch_arguments(const Stream& stream, std::optional<Extent> grid,
                                  std::span<const Argument> arguments) const {
  internal::PlanImpl& plan = internal::deref(*this, "the launch plan");
  internal::StreamImpl& s = internal::deref(stream, "the stream");
  const std::string& name = plan.kernel.name();
  if (grid.has_value() != plan.takes_grid) {
    throw Error(ErrorCode::kInvalidArgument,
                "a plan for kernel '" + name + "' " +
                    (!grid                   ? "has no static shape; give a grid with each launch"
                     : plan.has_static_shape ? "has a static shape, but a grid was given; leave it out"
                                             : "computes its grid, but a grid was given; leave it out"));
  }
  if (arguments.size() != plan.runtime_signature.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a plan for kernel '" + name + "' expected " + std::to_string(plan.runtime_signature.size()) +
                    " run-time arguments, got " + std::to_string(arguments.size()) + "; leave out the fixed ones");
  }
  alignas(16) std::byte packed[internal::kMaxArgumentBytes + 64];
  std::memset(packed, 0, plan.packed_bytes);
  std::uint64_t addresses = 0;
  internal::GuardMiss miss = internal::GuardMiss::kNone;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& p = plan.runtime_signature[i];
    const std::size_t index = plan.runtime_index[i];
    if (arguments[i].device_id() != 0 && arguments[i].device_id() != plan.device->id()) {
      throw Error(ErrorCode::kInvalidArgument, "argument " + std::to_string(index) + " of kernel '" + name +
                                                   "' is memory of another device; copy it to '" +
                                                   plan.device->info().uri + "' first");
    }
    internal::pack_argument(name, index, p, internal::size_of(p, internal::kNaturalAbi), arguments[i],
                            packed + plan.packed_offsets[i])
        .throw_if_error();
    if (p.kind == ArgKind::kTensor) addresses |= arguments[i].as_unsigned();
    if (internal::check_specialisation(p, arguments[i]) != internal::GuardMiss::kDtype) continue;
    miss = internal::GuardMiss::kDtype;
    if (!plan.fallback) {
      check_same_device(*plan.device, s.device(), "the stream");
      s.note(Reason::kGuardDtype, name);
      internal::specialisation_error(name, index, p, arguments[i], miss).throw_if_error();
    }
  }
  if (miss == internal::GuardMiss::kDtype) {
    check_same_device(*plan.device, s.device(), "the stream");
    internal::CheckedShape shape = plan.shape;
    if (plan.grid) grid = plan.grid->evaluate(packed);
    if (grid) internal::check_grid(plan.device->info(), name, *grid, shape);
    return internal::launch_missed(plan, s, shape, packed, miss);
  }
  if (grid) detail::launch_grid(packed, s, plan, addresses, *grid);
  else detail::launch_static(packed, s, plan, addresses);
}

namespace detail {

// Types of a typed handle against the run-time parameters. `index`: where those are in the signature, if not in order.
void check_types(const std::string& where, std::span<const Parameter> parameters, std::span<const Parameter> signature,
                 std::span<const std::uint32_t> index) {
  if (parameters.size() != signature.size()) {
    throw Error(ErrorCode::kInvalidArgument, where + "has " + std::to_string(parameters.size()) + " types, but " +
                                                 std::to_string(signature.size()) +
                                                 " arguments are given at run time; leave out the fixed ones");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& given = parameters[i];
    const Parameter& wanted = signature[i];
    const bool both_known = given.dtype != DType::kUnknown && wanted.dtype != DType::kUnknown;
    const bool written = given.kind == ArgKind::kTensor && given.access == Access::kIn && wanted.access != Access::kIn;
    const bool same = given.kind == wanted.kind && (!both_known || given.dtype == wanted.dtype) && !written &&
                      (given.kind != ArgKind::kBytes ||
                       (given.size_bytes == wanted.size_bytes && given.align_bytes == wanted.align_bytes));
    if (same) continue;
    throw Error(ErrorCode::kInvalidArgument, where + "has the type " + to_string({given}) + " for argument " +
                                                 std::to_string(index.empty() ? i : index[i]) + ", which is " +
                                                 to_string({wanted}) + "; use the matching C++ type");
  }
}

void check_typed(const internal::PlanImpl* plan, std::span<const Parameter> parameters, bool takes_grid) {
  if (!plan) {
    throw Error(ErrorCode::kInvalidArgument, "a typed handle of an empty plan was asked for; create the plan first");
  }
  const std::string& name = plan->kernel.name();
  const std::string where = "a typed handle of a plan for kernel '" + name + "' ";
  if (plan->takes_grid != takes_grid) {
    throw Error(ErrorCode::kInvalidArgument,
                where + (plan->takes_grid         ? "without a static shape was asked for with typed(); "
                                                    "use typed_grid(), whose calls bring the grid"
                         : plan->has_static_shape ? "with a static shape was asked for with "
                                                    "typed_grid(); use typed()"
                                                  : "that computes its grid was asked for with typed_grid(); "
                                                    "use typed()"));
  }
  check_types(where, parameters, plan->runtime_signature, plan->runtime_index);
}

void throw_empty(bool plan_is_empty) {
  throw Error(ErrorCode::kInvalidArgument,
              plan_is_empty ? "an empty typed handle was called; get one from typed() of a plan or a call site"
                            : "the stream is an empty handle; use one that a Device made");
}

}  // namespace detail
}  // namespace slipway
