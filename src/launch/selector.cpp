#include "slipway/selector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "device/handles.h"
#include "launch/grid_rule.h"
#include "launch/selector_impl.h"
#include "launch/site_impl.h"

namespace slipway {
namespace internal {
namespace {

bool is_fixed(const Candidate& candidate, std::size_t index) {
  const auto& fixed = candidate.plan.fixed;
  return std::any_of(fixed.begin(), fixed.end(), [&](const auto& f) { return f.first == index; });
}

void check_candidates(const std::string& name, const SelectorImpl::Candidates& candidates, const Signature& runtime) {
  if (candidates.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the kernel selector '" + name + "' has no candidates; give at least one");
  }
  const bool given = brings_grid(candidates.front().plan);
  const KernelImpl& first = deref(candidates.front().kernel, "a candidate of a kernel selector");
  for (const Candidate& c : candidates) {
    const KernelImpl& kernel = deref(c.kernel, "a candidate of a kernel selector");
    check_same_device(*first.device, *kernel.device, "a candidate of a kernel selector");
    const Signature mine = runtime_signature_of(c);
    const bool same = std::equal(
        mine.begin(), mine.end(), runtime.begin(), runtime.end(), [](const Parameter& a, const Parameter& b) {
          return a.kind == b.kind && a.size_bytes == b.size_bytes && a.align_bytes == b.align_bytes;
        });
    if (!same) {
      throw Error(ErrorCode::kInvalidArgument, "the candidate '" + c.kernel.name() + "' of the kernel selector '" +
                                                   name + "' takes (" + to_string(mine) +
                                                   ") at run time, but others take (" + to_string(runtime) +
                                                   "); all must take the same kinds");
    }
    if (brings_grid(c.plan) != given) {
      throw Error(ErrorCode::kInvalidArgument, "the candidate '" + c.kernel.name() + "' of the kernel selector '" +
                                                   name + "' has " + (given ? "a" : "no") +
                                                   " shape or grid of its own, unlike others; all must or none");
    }
  }
}

void check_index(const std::string& name, std::size_t index, std::size_t count) {
  if (index < count) return;
  throw Error(ErrorCode::kOutOfRange, "candidate " + std::to_string(index) + " of the kernel selector '" + name +
                                          "' was chosen, which has " + std::to_string(count) + "; count from 0");
}

}  // namespace

Signature runtime_signature_of(const Candidate& candidate) {
  Signature runtime;
  const Signature& all = candidate.kernel.signature();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_fixed(candidate, i)) runtime.push_back(all[i]);
  }
  return runtime;
}

std::vector<Argument> all_arguments(const Candidate& candidate, std::span<const Argument> runtime) {
  const std::size_t count = candidate.kernel.signature().size();
  const std::size_t wanted = count - std::min(count, candidate.plan.fixed.size());
  if (runtime.size() != wanted) {
    throw Error(ErrorCode::kInvalidArgument, "a call site of kernel '" + candidate.kernel.name() + "' expected " +
                                                 std::to_string(wanted) + " run-time arguments, got " +
                                                 std::to_string(runtime.size()) + "; leave out the fixed ones");
  }
  std::vector<Argument> all;
  all.reserve(count);
  auto next = runtime.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto& fixed = candidate.plan.fixed;
    const auto found = std::find_if(fixed.begin(), fixed.end(), [&](const auto& f) { return f.first == i; });
    all.push_back(found != fixed.end() ? found->second : *next++);
  }
  return all;
}

bool brings_grid(const PlanOptions& plan) noexcept { return !plan.shape && !plan.grid; }

LaunchShape shape_of(const Candidate& candidate, const std::optional<Extent>& grid, std::span<const Argument> runtime) {
  const PlanOptions& plan = candidate.plan;
  if (plan.shape) return *plan.shape;
  LaunchShape shape;
  shape.block = plan.block;
  shape.shared_bytes = plan.shared_bytes;
  shape.spread = plan.spread;
  shape.grid = grid.value_or(Extent{});
  if (!plan.grid) return shape;
  // As a plan computes it: from the run-time arguments, packed.
  const Signature& signature = candidate.kernel.signature();
  PlanGrid rule(*plan.grid, candidate.kernel.name(), signature, plan.fixed);
  if (const auto constant = rule.constant()) {
    shape.grid = *constant;
    return shape;
  }
  (void)all_arguments(candidate, runtime);  // counts them
  const Signature mine = runtime_signature_of(candidate);
  const ArgumentLayout layout = compute_layout(mine, kNaturalAbi, kMaxArgumentBytes).take();
  alignas(16) std::byte packed[kMaxArgumentBytes]{};
  std::vector<std::uint32_t> parameters, offsets;
  for (std::uint32_t i = 0; i < signature.size(); ++i) {
    if (is_fixed(candidate, i)) continue;
    const std::size_t next = parameters.size();
    const ArgumentSlot& slot = layout.slots[next];
    pack_argument(candidate.kernel.name(), i, mine[next], slot.size, runtime[next], packed + slot.offset)
        .throw_if_error();
    parameters.push_back(i);
    offsets.push_back(slot.offset);
  }
  rule.locate(parameters, offsets);
  shape.grid = rule.evaluate(packed);
  return shape;
}

bool fits(const Candidate& candidate, std::span<const Argument> all) {
  const Signature& signature = candidate.kernel.signature();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (check_specialisation(signature[i], all[i]) != GuardMiss::kNone) return false;
  }
  return true;
}

SelectorImpl::SelectorImpl(std::string name, Candidates candidates, KernelSelector::Choose choose, bool per_call)
    : name_(std::move(name)), choose_(std::move(choose)), per_call_(per_call) {
  if (!candidates.empty() && candidates.front().kernel) runtime_ = runtime_signature_of(candidates.front());
  check_candidates(name_, candidates, runtime_);
  device_ = candidates.front().kernel.impl()->device;
  if (candidates.size() == 1 && !per_call) state_.chosen = 0;
  state_.candidates = std::make_shared<const Candidates>(std::move(candidates));
}

SelectorImpl::State SelectorImpl::look() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void SelectorImpl::change(const std::function<bool(State&)>& change) {
  device_->check_usable("changing the choice of a kernel selector");
  std::vector<std::weak_ptr<SiteImpl>> sites;
  {
    const std::lock_guard lock(mutex_);
    if (!change(state_)) return;
    ++state_.version;
    std::erase_if(sites_, [](const auto& site) { return site.expired(); });
    sites = sites_;
  }
  // A site that makes a plan meanwhile looks at the version again under its own lock, or is told here after it has.
  for (const auto& weak : sites) {
    if (const auto site = weak.lock()) site->choice_changed();
  }
}

void SelectorImpl::choose(std::size_t index) {
  change([&](State& state) {
    check_index(name_, index, state.candidates->size());
    if (state.chosen == index) return false;
    state.chosen = index;
    return true;
  });
}

void SelectorImpl::unsettle() {
  change([](State& state) {
    const bool changes = state.chosen.has_value();
    state.chosen.reset();
    return changes;
  });
}

void SelectorImpl::hold_back(bool held) {
  const std::lock_guard lock(mutex_);
  state_.held = held;
}

void SelectorImpl::replace(Candidates candidates) {
  check_candidates(name_, candidates, runtime_);
  const bool given = brings_grid(look().candidates->front().plan);
  if (brings_grid(candidates.front().plan) != given) {
    throw Error(ErrorCode::kInvalidArgument, "the candidates that replace those of the kernel selector '" + name_ +
                                                 "' " + (given ? "have a" : "have no") +
                                                 " shape or grid of their own, unlike those before; sites rely on it");
  }
  change([&](State& state) {
    state.chosen.reset();
    if (candidates.size() == 1 && !per_call_) state.chosen = 0;
    state.candidates = std::make_shared<const Candidates>(std::move(candidates));
    return true;
  });
}

void SelectorImpl::add_site(const std::shared_ptr<SiteImpl>& site) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sites_, [](const auto& s) { return s.expired(); });
  sites_.push_back(site);
}

}  // namespace internal

using internal::deref;
using internal::SelectorImpl;

namespace {
constexpr const char* kSelector = "the kernel selector";

SelectorImpl& usable(const KernelSelector& selector) {
  SelectorImpl& impl = deref(selector, kSelector);
  impl.device().check_process("a kernel selector");
  return impl;
}
}  // namespace

KernelSelector KernelSelector::create(std::string name, std::vector<Candidate> candidates, Choose choose_for_call) {
  return KernelSelector(
      std::make_shared<SelectorImpl>(std::move(name), std::move(candidates), std::move(choose_for_call), false));
}

KernelSelector KernelSelector::per_call(std::string name, std::vector<Candidate> candidates, Choose choose_for_call) {
  if (!choose_for_call) {
    throw Error(ErrorCode::kInvalidArgument,
                "the kernel selector '" + name + "' chooses for each call, but was given no function that does");
  }
  return KernelSelector(
      std::make_shared<SelectorImpl>(std::move(name), std::move(candidates), std::move(choose_for_call), true));
}

void KernelSelector::choose(std::size_t index) const { usable(*this).choose(index); }
void KernelSelector::unsettle() const { usable(*this).unsettle(); }
void KernelSelector::hold_back(bool held) const { usable(*this).hold_back(held); }
void KernelSelector::replace(std::vector<Candidate> candidates) const { usable(*this).replace(std::move(candidates)); }
const std::string& KernelSelector::name() const { return deref(*this, kSelector).name(); }
std::vector<Candidate> KernelSelector::candidates() const { return *usable(*this).look().candidates; }
std::optional<std::size_t> KernelSelector::chosen() const { return usable(*this).look().chosen; }
std::uint64_t KernelSelector::version() const { return usable(*this).look().version; }

}  // namespace slipway
