// The state machine of call sites: which way a call takes, and what that leaves in the slot.
#include "slipway/call_site.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/fence.h"
#include "launch/site_impl.h"
#include "slipway/testing.h"

namespace slipway {
namespace internal {
namespace {

SiteReason reason_of(Detour why) {
  switch (why) {
    case Detour::kProfilingRun: return SiteReason::kProfilingRun;
    case Detour::kBenchmarkRun: return SiteReason::kBenchmarkRun;
    case Detour::kUnknownOptions: break;
  }
  return SiteReason::kUnknownOptions;
}

// Could the general path succeed where a plan failed with this? What the stream or the device is in the way of, it
// would meet as well, and perhaps wait for twice.
bool is_about_the_plan(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kUnsupported:
    case ErrorCode::kInternal: return true;
    default: return false;
  }
}

bool takes_parameter(std::span<const Argument> arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const Argument& a) { return a.category() == Argument::Category::kParameter; });
}

}  // namespace

const PlanImpl* no_plan() noexcept {
  static const PlanImpl none;
  return &none;
}

SiteImpl::SiteImpl(std::shared_ptr<SelectorImpl> selector, CallSiteOptions options)
    : selector_(std::move(selector)), options_(std::move(options)) {
  name_ = options_.name.empty() ? selector_->name() : options_.name;
  const SelectorImpl::State state = selector_->look();
  const Candidate& first = state.candidates->front();
  device_ = first.kernel.impl()->device;
  brings_grid_ = internal::brings_grid(first.plan);
  packed_ = compute_layout(runtime_signature(), kNaturalAbi, kMaxArgumentBytes).take();
  counts_.name = name_;
  counts_.schema_hash = schema_hash(runtime_signature());
}

SiteImpl::~SiteImpl() = default;  // whoever calls holds a reference

void SiteImpl::note(SiteReason reason, std::string sentence) {
  ++counts_.reasons[static_cast<std::size_t>(reason)];
  counts_.last_reason = std::move(sentence);
}

void SiteImpl::clear_finalized() {
  store_rare(finalized, no_plan(), asymmetric_fences());
  DeviceImpl::await_fast_paths();
}

void SiteImpl::drop_plan(SiteReason why, std::string sentence) {
  clear_finalized();
  plan_.reset();  // what it launched keeps the kernel's code, by the retire list
  ++counts_.demotions;
  state_ = SiteState::kBound;
  note(why, std::move(sentence));
}

void SiteImpl::choice_changed() {
  const std::lock_guard lock(mutex_);
  if (version_ == selector_->look().version) return;
  if (plan_) drop_plan(SiteReason::kChoiceChanged, "another kernel than '" + plan_->kernel.name() + "' was chosen");
  else if (state_ == SiteState::kNegative) state_ = SiteState::kBound;
}

// Why no plan can be made for the choice as it is; nothing when it can.
std::optional<SiteReason> SiteImpl::refusal(const SelectorImpl::State& state, std::string& sentence) const {
  if (!state.chosen) {
    sentence = "the selector '" + selector_->name() + "' has not chosen among its " +
               std::to_string(state.candidates->size()) + " candidates";
    return SiteReason::kNotSettled;
  }
  if (state.held) {
    sentence = "the selector '" + selector_->name() + "' holds plans back";
    return SiteReason::kHeldBack;
  }
  if (!options_.schema) return std::nullopt;
  const Signature& mine = *options_.schema;
  const Signature& theirs = runtime_signature();
  const auto same_kind = [](const Parameter& a, const Parameter& b) {
    return a.kind == b.kind && a.size_bytes == b.size_bytes;
  };
  if (std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), same_kind)) return std::nullopt;
  sentence = "the site passes (" + to_string(mine) + "), but the kernel takes (" + to_string(theirs) + ")";
  return SiteReason::kSchemaConflict;
}

SiteImpl::Decision SiteImpl::become_negative(const SelectorImpl::State& state, SiteReason reason) {
  version_ = state.version;
  state_ = SiteState::kNegative;
  return {nullptr, (*state.candidates)[*state.chosen], reason};
}

SiteImpl::Decision SiteImpl::decide() {
  const std::lock_guard lock(mutex_);
  if (plan_) return {plan_, std::nullopt, SiteReason::kNotSettled, std::exchange(injected_, Status())};
  const SelectorImpl::State state = selector_->look();
  if (state_ == SiteState::kNegative && version_ == state.version) {
    return become_negative(state, SiteReason::kPlanRefused);
  }
  state_ = SiteState::kBound;
  std::string sentence;
  if (const auto reason = refusal(state, sentence)) {
    note(*reason, std::move(sentence));
    if (*reason == SiteReason::kSchemaConflict) return become_negative(state, *reason);
    return {nullptr, std::nullopt, *reason};
  }
  const Candidate& candidate = (*state.candidates)[*state.chosen];
  try {
    std::exchange(injected_, Status()).throw_if_error();
    plan_ = build_plan(candidate.kernel, candidate.plan);
  } catch (const Error& error) {
    const bool stable = error.stable() || (is_about_the_plan(error) && error.code() != ErrorCode::kOutOfMemory);
    note(stable ? SiteReason::kPlanRefused : SiteReason::kPlanFailed, error.what());
    if (stable) return become_negative(state, SiteReason::kPlanRefused);
    return {nullptr, candidate, SiteReason::kPlanFailed};
  }
  version_ = state.version;
  ++counts_.promotions;
  state_ = SiteState::kPlanned;
  return {plan_, std::nullopt, SiteReason::kNotSettled};
}

void SiteImpl::launch(const SiteCall& call) {
  device_->check_usable("a launch");
  StreamImpl& stream = deref(call.to, "the stream");
  check_same_device(*device_, stream.device(), "the stream");
  if (call.grid.has_value() != brings_grid_) {
    throw Error(ErrorCode::kInvalidArgument, "the call site '" + name_ + "' " +
                                                 (brings_grid_ ? "needs a grid with each call"
                                                               : "has a shape of its own, but a grid was given; leave "
                                                                 "it out"));
  }
  if (selector_->per_call()) {
    {
      const std::lock_guard lock(mutex_);
      state_ = SiteState::kOpaque;
      note(SiteReason::kPerCallChoice, "the selector '" + selector_->name() + "' chooses for each call");
    }
    return general(call, SiteReason::kPerCallChoice, std::nullopt);
  }
  std::optional<SiteReason> once;
  if (!options_.never_because.empty()) once = SiteReason::kNeverPlanned;
  else if (device_->hooks().needs_general()) once = SiteReason::kHook;
  else if (takes_parameter(call.given)) once = SiteReason::kGraphParameter;
  if (once) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ == SiteState::kEmpty) state_ = SiteState::kBound;
      note(*once, *once == SiteReason::kNeverPlanned ? options_.never_because
                  : *once == SiteReason::kHook       ? "a launch hook needs the general path"
                                                     : "an argument is a parameter of the graph being captured");
    }
    return general(call, *once, std::nullopt);
  }
  Decision decision = decide();
  if (decision.plan) return direct(call, decision);
  general(call, decision.reason, std::move(decision.candidate));
  // What the general run brought about, a choice for instance, may be all that was missing.
  if (decision.reason == SiteReason::kNotSettled && selector_->look().chosen) (void)decide();
}

void SiteImpl::detour(const SiteCall& call, SiteReason why, const std::optional<LaunchShape>& shape) {
  device_->check_usable("a launch");
  StreamImpl& stream = deref(call.to, "the stream");
  check_same_device(*device_, stream.device(), "the stream");
  {
    const std::lock_guard lock(mutex_);
    if (state_ == SiteState::kEmpty) state_ = SiteState::kBound;
    note(why, "one call asked for the general path");
  }
  general(call, why, std::nullopt, shape);
}

std::vector<Argument> SiteImpl::arguments_of(const SiteCall& call) const {
  if (!call.packed) return {call.given.begin(), call.given.end()};
  std::vector<Argument> arguments;
  const Signature& signature = runtime_signature();
  arguments.reserve(signature.size());
  for (std::size_t i = 0; i < signature.size(); ++i) {
    arguments.push_back(unpack_argument(signature[i], call.packed + packed_.slots[i].offset));
  }
  return arguments;
}

bool SiteImpl::misses_guard(const SiteCall& call, const PlanImpl& plan, std::span<const Argument> given) const {
  if (call.packed) return check_guards(plan, call.packed) != GuardMiss::kNone;
  if (given.size() != plan.runtime_signature.size()) return false;  // refused for its count
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (check_specialisation(plan.runtime_signature[i], given[i]) != GuardMiss::kNone) return true;
  }
  return false;
}

void SiteImpl::direct(const SiteCall& call, const Decision& decision) {
  StreamImpl& stream = *call.to.impl();
  const std::shared_ptr<PlanImpl>& plan = decision.plan;
  if (misses_guard(call, *plan, call.given)) {
    {
      const std::lock_guard lock(mutex_);
      note(SiteReason::kGuard, "an argument was not what '" + plan->kernel.name() + "' was specialised for");
    }
    return general(call, SiteReason::kGuard, std::nullopt);
  }
  (void)take_hook_threw();
  try {
    decision.injected.throw_if_error();
    if (!call.packed) LaunchPlan(plan).launch_arguments(call.to, call.grid, call.given);
    else if (call.grid) detail::launch_grid(call.packed, stream, *plan, call.addresses, *call.grid);
    else detail::launch_static(call.packed, stream, *plan, call.addresses);
  } catch (const Error& error) {
    if (take_hook_threw() || error.submitted() || !is_about_the_plan(error)) throw;
    {
      const std::lock_guard lock(mutex_);
      if (!error.stable()) {
        note(SiteReason::kCallFailed, error.what());
      } else if (plan_ == plan) {
        drop_plan(SiteReason::kCallRefused, error.what());
        state_ = SiteState::kNegative;  // of the same version
      }
    }
    return general(call, error.stable() ? SiteReason::kCallRefused : SiteReason::kCallFailed, std::nullopt);
  }
  passed(plan);
}

void SiteImpl::passed(const std::shared_ptr<PlanImpl>& plan) {
  const std::lock_guard lock(mutex_);
  ++(state_ == SiteState::kFinalized ? counts_.hits : counts_.planned);
  if (plan_ != plan) return;  // another was chosen meanwhile
  state_ = SiteState::kFinalized;
  finalized.store(plan.get(), std::memory_order_seq_cst);
}

Candidate SiteImpl::pick(const SiteCall& call, SiteReason reason, std::span<const Argument> arguments) {
  const SelectorImpl::State state = selector_->look();
  const SelectorImpl::Candidates& candidates = *state.candidates;
  const KernelSelector::Choose& choose = selector_->choose_for_call();
  if (choose && !(state.chosen && reason != SiteReason::kGuard)) {
    const std::size_t index = choose(KernelSelector(selector_), SiteCallView{call.to, arguments, call.grid});
    if (index < candidates.size()) return candidates[index];
    throw Error(ErrorCode::kOutOfRange, "the selector '" + selector_->name() + "' chose candidate " +
                                            std::to_string(index) + " for a call, but has " +
                                            std::to_string(candidates.size()) + "; count from 0");
  }
  const Candidate& preferred = candidates[state.chosen.value_or(0)];
  if (state.chosen && reason != SiteReason::kGuard) return preferred;
  if (reason == SiteReason::kGuard && preferred.plan.fallback) {
    return {*preferred.plan.fallback, preferred.plan};
  }
  for (const Candidate& candidate : candidates) {
    if (fits(candidate, all_arguments(candidate, arguments))) return candidate;
  }
  return preferred;  // refused there, with the reason
}

void SiteImpl::general(const SiteCall& call, SiteReason reason, std::optional<Candidate> candidate,
                       const std::optional<LaunchShape>& given_shape) {
  StreamImpl& stream = *call.to.impl();
  const std::vector<Argument> arguments = arguments_of(call);
  if (!candidate) candidate = pick(call, reason, arguments);
  KernelImpl& kernel = *candidate->kernel.impl();
  device_->check_usable("a launch", kernel.generation);
  const LaunchShape shape = given_shape ? *given_shape : shape_of(*candidate, call.grid, arguments);
  const CheckedShape checked = check_shape(device_->info(), kernel.code->name, shape);
  launch_general(stream, kernel, checked, all_arguments(*candidate, arguments));
  const std::lock_guard lock(mutex_);
  ++counts_.general;
}

LaunchPlan SiteImpl::freeze() {
  {
    const std::lock_guard lock(mutex_);
    if (plan_) return LaunchPlan(plan_);
  }
  throw Error(ErrorCode::kFailedPrecondition, "the call site '" + name_ + "' has no plan to freeze: " + explain());
}

SiteState SiteImpl::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void SiteImpl::inject(Status failure) {
  const std::lock_guard lock(mutex_);
  injected_ = std::move(failure);
  clear_finalized();  // so that the next call comes by
}

SiteReport SiteImpl::report() const {
  const std::lock_guard lock(mutex_);
  SiteReport report = counts_;
  report.state = state_;
  report.hits += hits.get();
  const SelectorImpl::State state = selector_->look();
  if (state.chosen) report.kernel = (*state.candidates)[*state.chosen].kernel.name();
  return report;
}

}  // namespace internal

using internal::deref;
using internal::SiteImpl;

namespace {
constexpr const char* kSite = "the call site";

SiteImpl& usable(const CallSite& site) {
  SiteImpl& impl = deref(site, kSite);
  impl.device().check_process("a call site");
  return impl;
}
}  // namespace

CallSite CallSite::create(const KernelSelector& selector, const CallSiteOptions& options) {
  deref(selector, "the selector of a call site").device().check_usable("creating a call site");
  auto site = std::make_shared<SiteImpl>(selector.impl(), options);
  selector.impl()->add_site(site);
  internal::register_site(site);
  return CallSite(std::move(site));
}

CallSite CallSite::create(const Kernel& kernel, const PlanOptions& plan, const CallSiteOptions& options) {
  (void)deref(kernel, "the kernel of a call site");
  return create(KernelSelector::create(kernel.name(), {Candidate{kernel, plan}}), options);
}

void CallSite::launch_arguments(const Stream& stream, std::optional<Extent> grid,
                                std::span<const Argument> arguments) const {
  deref(*this, kSite).launch({stream, grid, arguments, nullptr, 0});
}

void CallSite::launch_detour(const Stream& stream, Detour why, std::optional<LaunchShape> shape,
                             std::span<const Argument> arguments, std::optional<Extent> grid) const {
  deref(*this, kSite).detour({stream, grid, arguments, nullptr, 0}, internal::reason_of(why), shape);
}

LaunchPlan CallSite::freeze() const { return usable(*this).freeze(); }
SiteState CallSite::state() const { return usable(*this).state(); }
SiteReport CallSite::report() const { return usable(*this).report(); }
std::string CallSite::explain() const { return usable(*this).explain(); }

namespace testing {

void fail_next_planned_launch(const CallSite& site, ErrorCode code, bool submitted, bool stable) {
  slipway::internal::ErrorDetails details;
  details.code = code;
  details.sentence = "a planned launch was made to fail; it was asked for by a test";
  details.submitted = submitted;
  details.stable = stable;
  deref(site, kSite).inject(slipway::internal::Status(std::move(details)));
}

}  // namespace testing
}  // namespace slipway
