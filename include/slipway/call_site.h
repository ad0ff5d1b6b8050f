// Call sites: the place in a program from which a kernel is launched again and again.
//
// A site finds its own way from the general path to the finalized launch, and back when the choice of its kernel
// changes; docs/launching.md has the table of its states. A shared handle; any thread, also while it is promoted.
// Its counts are exact while one thread at a time launches from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slipway/device.h"
#include "slipway/export.h"
#include "slipway/plan.h"
#include "slipway/selector.h"

namespace slipway {

enum class SiteState : std::uint8_t {
  kEmpty,      // nothing was launched yet
  kBound,      // launches by the general path, and looks for a plan
  kPlanned,    // has a plan that no call has passed through yet
  kFinalized,  // a call writes its arguments and enqueues
  kNegative,   // no plan for the chosen kernel: launches it by the general path until another is chosen
  kOpaque,     // the kernel is chosen for each call
};
SLIPWAY_API const char* name_of(SiteState state) noexcept;

// Why a call took the general path, or a plan was not made or given up.
enum class SiteReason : std::uint8_t {
  kNeverPlanned,    // CallSiteOptions::never_because
  kPerCallChoice,   // the selector chooses for each call
  kNotSettled,      // the selector has not chosen yet
  kHeldBack,        // the selector holds plans back
  kSchemaConflict,  // what the site passes is not what the kernel takes
  kPlanRefused,     // the plan cannot be built, now or later
  kPlanFailed,      // the plan could not be built this time
  kProfilingRun,    // one call asked for the general path
  kBenchmarkRun,    // one call asked for it
  kUnknownOptions,  // one call brought a shape of its own
  kHook,            // a launch hook needs the general path
  kGuard,           // an argument is not what the kernel was specialised for
  kCallFailed,      // one planned call failed before it was submitted
  kCallRefused,     // a planned call failed before it was submitted, and would again
  kChoiceChanged,   // another kernel was chosen
  kGraphParameter,  // an argument is a parameter of the graph that is being captured
  kCount,
};
constexpr std::size_t kSiteReasonCount = static_cast<std::size_t>(SiteReason::kCount);
SLIPWAY_API const char* name_of(SiteReason reason) noexcept;

struct CallSiteOptions {
  std::string name{};           // in reports; the selector's unless given
  std::string never_because{};  // not empty: never planned, for this reason
  // The run-time arguments as whoever generated the call knows them. More of them, or other kinds, than the kernel's
  // own signature has: the site is never planned. Without it, the kernel's signature is taken.
  std::optional<Signature> schema{};
};

enum class Detour : std::uint8_t { kProfilingRun, kBenchmarkRun, kUnknownOptions };

struct SiteReport {
  std::string name;
  std::string kernel;  // the chosen one's; empty before
  SiteState state = SiteState::kEmpty;
  std::string schema_hash;                                // of the run-time arguments
  std::uint64_t hits = 0;                                 // launches through the finalized plan
  std::uint64_t planned = 0;                              // launches through the plan, checked as a first call is
  std::uint64_t general = 0;                              // launches by the general path
  std::uint64_t promotions = 0;                           // plans made
  std::uint64_t demotions = 0;                            // plans given up
  std::array<std::uint64_t, kSiteReasonCount> reasons{};  // of general launches, refused plans and demotions
  std::string last_reason;  // a sentence about the last of them; empty when there was none

  std::uint64_t operator[](SiteReason reason) const noexcept { return reasons[static_cast<std::size_t>(reason)]; }
};

template <class... Args>
using TypedSite = detail::TypedHandle<internal::SiteImpl, Args...>;
template <class... Args>
using TypedGridSite = detail::TypedGridHandle<internal::SiteImpl, Args...>;

class SLIPWAY_API CallSite {
 public:
  CallSite() noexcept = default;
  explicit CallSite(std::shared_ptr<internal::SiteImpl> impl) noexcept : impl_(std::move(impl)) {}

  static CallSite create(const KernelSelector& selector, const CallSiteOptions& options = {});
  static CallSite create(const Kernel& kernel, const PlanOptions& plan, const CallSiteOptions& options = {});

  // Launches with the run-time arguments, in order.
  template <class... Args>
  void launch(const Stream& stream, const Args&... args) const {
    if constexpr (sizeof...(Args) == 0) {
      launch_arguments(stream, std::nullopt, {});
    } else {
      const Argument arguments[] = {Argument(args)...};
      launch_arguments(stream, std::nullopt, arguments);
    }
  }
  // `grid` is given exactly when the candidates have neither a shape nor a rule for it.
  void launch_arguments(const Stream& stream, std::optional<Extent> grid, std::span<const Argument> arguments) const;
  // One launch by the general path; the site keeps its plan. `shape`: instead of the candidate's.
  void launch_detour(const Stream& stream, Detour why, std::optional<LaunchShape> shape,
                     std::span<const Argument> arguments, std::optional<Extent> grid = {}) const;

  // Handles whose argument types were compared once, as LaunchPlan::typed(). A finalized site's cost what a plan's do.
  template <class... Args>
  TypedSite<Args...> typed() const;
  template <class... Args>
  TypedGridSite<Args...> typed_grid() const;  // each call brings its grid

  // The plan as it is now, which later choices leave alone. FailedPrecondition when there is none, saying why.
  LaunchPlan freeze() const;

  SiteState state() const;
  SiteReport report() const;
  // Why this site is not on the fast path, or what it does there: a few sentences.
  std::string explain() const;

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::SiteImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::SiteImpl> impl_;
};

// The reports of all sites of a device that are alive, in the order in which they were made.
SLIPWAY_API std::vector<SiteReport> site_reports(const Device& device);
// All of them added up; its name and kernel are empty, its state is kEmpty.
SLIPWAY_API SiteReport total_of(std::span<const SiteReport> reports);
// 16 hexadecimal digits (FNV-1a of the signature's text) that tell signatures apart.
SLIPWAY_API std::string schema_hash(const Signature& signature);

namespace detail {
SLIPWAY_API void check_site_types(internal::SiteImpl* site, std::span<const Parameter> parameters, bool brings_grid);
}  // namespace detail

template <class... Args>
TypedSite<Args...> CallSite::typed() const {
  const std::array<Parameter, sizeof...(Args)> parameters{detail::WireType<Args>::parameter()...};
  detail::check_site_types(impl_.get(), parameters, false);
  return TypedSite<Args...>(impl_);
}
template <class... Args>
TypedGridSite<Args...> CallSite::typed_grid() const {
  const std::array<Parameter, sizeof...(Args)> parameters{detail::WireType<Args>::parameter()...};
  detail::check_site_types(impl_.get(), parameters, true);
  return TypedGridSite<Args...>(impl_);
}

}  // namespace slipway
