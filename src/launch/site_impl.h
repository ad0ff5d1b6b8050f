// What a CallSite refers to: its slot and its state machine.
//
//   L1  finalized is the plan that fast paths launch; it is read only while the reader's stream is entered
//       (StreamImpl::try_enter), and kept alive by plan_. Whoever takes it away stores no_plan(), which is no device's,
//       sees to it that nobody is inside (DeviceImpl::await_fast_paths), and only then drops plan_.
//   L2  a plan is published under mutex_, after the selector's version was looked at under it. A selector raises its
//       version first and then calls choice_changed(), which takes mutex_: the plan of an old choice is not published,
//       or is taken away.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/handles.h"
#include "launch/plan_impl.h"
#include "launch/selector_impl.h"
#include "slipway/call_site.h"
#include "trace/counters.h"

namespace slipway::internal {

// One call: run-time arguments, either as such or packed by a typed handle.
struct SiteCall {
  const Stream& to;
  std::optional<Extent> grid;
  std::span<const Argument> given;
  const std::byte* packed;
  std::uint64_t addresses;
};

// A plan that is for no device: what fast paths find where there is none.
const PlanImpl* no_plan() noexcept;

class SiteImpl : public std::enable_shared_from_this<SiteImpl> {
 public:
  SiteImpl(std::shared_ptr<SelectorImpl> selector, CallSiteOptions options);
  ~SiteImpl();

  // --- What fast paths read ---
  std::atomic<const PlanImpl*> finalized{no_plan()};  // never null
  Counter hits;                                       // of fast paths

  DeviceImpl& device() const noexcept { return *device_; }
  const std::string& name() const noexcept { return name_; }
  bool brings_grid() const noexcept { return brings_grid_; }
  const Signature& runtime_signature() const noexcept { return selector_->runtime_signature(); }

  // --- Everything else ---
  void launch(const SiteCall& call);
  void detour(const SiteCall& call, SiteReason why, const std::optional<LaunchShape>& shape);
  void choice_changed();
  LaunchPlan freeze();
  SiteState state() const;
  SiteReport report() const;
  std::string explain() const;
  // For tests: the next launch through the plan fails so.
  void inject(Status failure);

 private:
  // What the order of decisions comes to: a plan, or the general path, with the candidate when it is known.
  struct Decision {
    std::shared_ptr<PlanImpl> plan;
    std::optional<Candidate> candidate;
    SiteReason reason = SiteReason::kNotSettled;
    Status injected{};  // of a test: how the plan's launch fails
  };
  Decision decide();
  std::optional<SiteReason> refusal(const SelectorImpl::State& state, std::string& sentence) const;
  Decision become_negative(const SelectorImpl::State& state, SiteReason reason);  // under mutex_
  void direct(const SiteCall& call, const Decision& decision);
  bool misses_guard(const SiteCall& call, const PlanImpl& plan, std::span<const Argument> arguments) const;
  void passed(const std::shared_ptr<PlanImpl>& plan);
  void general(const SiteCall& call, SiteReason reason, std::optional<Candidate> candidate,
               const std::optional<LaunchShape>& shape = {});
  Candidate pick(const SiteCall& call, SiteReason reason, std::span<const Argument> arguments);
  std::vector<Argument> arguments_of(const SiteCall& call) const;
  void note(SiteReason reason, std::string sentence);    // under mutex_
  void drop_plan(SiteReason why, std::string sentence);  // under mutex_
  void clear_finalized();                                // under mutex_; nobody is inside afterwards

  const std::shared_ptr<SelectorImpl> selector_;
  const CallSiteOptions options_;
  std::string name_;
  std::shared_ptr<DeviceImpl> device_;
  bool brings_grid_ = false;
  ArgumentLayout packed_;  // of typed handles' arguments

  // Guards the rest. Inside, a selector's is taken, or those that building a plan takes.
  mutable std::mutex mutex_;
  SiteState state_ = SiteState::kEmpty;
  std::shared_ptr<PlanImpl> plan_;
  std::uint64_t version_ = 0;  // the selector's, when plan_ was made or the site became negative
  Status injected_;
  SiteReport counts_;
};

void register_site(const std::shared_ptr<SiteImpl>& site);

}  // namespace slipway::internal
