// What call sites tell of themselves: names, counts over all of them, and why.
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>

#include "launch/site_impl.h"

namespace slipway {

const char* name_of(SiteState state) noexcept {
  switch (state) {
    case SiteState::kEmpty: return "empty";
    case SiteState::kBound: return "bound";
    case SiteState::kPlanned: return "planned";
    case SiteState::kFinalized: return "finalized";
    case SiteState::kNegative: return "negative";
    case SiteState::kOpaque: return "opaque";
  }
  return "unknown";
}

const char* name_of(SiteReason reason) noexcept {
  switch (reason) {
    case SiteReason::kNeverPlanned: return "never_planned";
    case SiteReason::kPerCallChoice: return "per_call_choice";
    case SiteReason::kNotSettled: return "not_settled";
    case SiteReason::kHeldBack: return "held_back";
    case SiteReason::kSchemaConflict: return "schema_conflict";
    case SiteReason::kPlanRefused: return "plan_refused";
    case SiteReason::kPlanFailed: return "plan_failed";
    case SiteReason::kProfilingRun: return "profiling_run";
    case SiteReason::kBenchmarkRun: return "benchmark_run";
    case SiteReason::kUnknownOptions: return "unknown_options";
    case SiteReason::kHook: return "hook";
    case SiteReason::kGuard: return "guard";
    case SiteReason::kCallFailed: return "call_failed";
    case SiteReason::kCallRefused: return "call_refused";
    case SiteReason::kChoiceChanged: return "choice_changed";
    case SiteReason::kGraphParameter: return "graph_parameter";
    case SiteReason::kCount: break;
  }
  return "unknown";
}

std::string schema_hash(const Signature& signature) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : to_string(signature)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  char text[17];
  (void)std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

SiteReport total_of(std::span<const SiteReport> reports) {
  SiteReport total;
  for (const SiteReport& report : reports) {
    total.hits += report.hits;
    total.planned += report.planned;
    total.general += report.general;
    total.promotions += report.promotions;
    total.demotions += report.demotions;
    for (std::size_t i = 0; i < kSiteReasonCount; ++i) total.reasons[i] += report.reasons[i];
  }
  return total;
}

namespace internal {
namespace {

struct Registry {
  std::mutex mutex;  // nothing is locked inside
  std::vector<std::weak_ptr<SiteImpl>> sites;
};
Registry& registry() {
  static auto* made = new Registry;  // sites of static life may outlast any order of destruction
  return *made;
}

}  // namespace

void register_site(const std::shared_ptr<SiteImpl>& site) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.sites, [](const auto& s) { return s.expired(); });
  all.sites.push_back(site);
}

std::string SiteImpl::explain() const {
  const SiteReport r = report();
  const std::uint64_t launches = r.hits + r.planned + r.general;
  std::string text = "call site '" + r.name + "' is " + name_of(r.state) + ": " + std::to_string(launches) +
                     " launches, " + std::to_string(r.hits) + " of them finalized, " + std::to_string(r.planned) +
                     " planned and " + std::to_string(r.general) + " by the general path.";
  const bool has_plan = r.state == SiteState::kPlanned || r.state == SiteState::kFinalized;
  if (r.state == SiteState::kEmpty) {
    text += " Nothing was launched from it yet.";
  } else if (!has_plan) {
    text += r.promotions == 0 ? " It never left the general path" : " It is back on the general path";
    if (!r.last_reason.empty()) text += ", because: " + r.last_reason;
    text += ".";
  }
  std::string why;
  for (std::size_t i = 0; i < kSiteReasonCount; ++i) {
    if (r.reasons[i] == 0) continue;
    why += (why.empty() ? " " : ", ") + std::string(name_of(static_cast<SiteReason>(i))) + " " +
           std::to_string(r.reasons[i]);
  }
  if (!why.empty()) text += " Reasons so far:" + why + ".";
  if (has_plan && !r.last_reason.empty()) text += " The last one: " + r.last_reason + ".";
  return text;
}

}  // namespace internal

std::vector<SiteReport> site_reports(const Device& device) {
  const internal::DeviceImpl& wanted = internal::deref(device, "the device");
  wanted.check_process("reports of call sites");
  std::vector<std::shared_ptr<internal::SiteImpl>> sites;
  {
    internal::Registry& all = internal::registry();
    const std::lock_guard lock(all.mutex);
    for (const auto& weak : all.sites) {
      if (auto site = weak.lock(); site && &site->device() == &wanted) sites.push_back(std::move(site));
    }
  }
  std::vector<SiteReport> reports;
  reports.reserve(sites.size());
  for (const auto& site : sites) reports.push_back(site->report());
  return reports;
}

namespace detail {

void check_site_types(internal::SiteImpl* site, std::span<const Parameter> parameters, bool brings_grid) {
  if (!site) {
    throw Error(ErrorCode::kInvalidArgument,
                "a typed handle of an empty call site was asked for; create the site first");
  }
  const std::string where = "a typed handle of the call site '" + site->name() + "' ";
  if (site->brings_grid() != brings_grid) {
    throw Error(ErrorCode::kInvalidArgument,
                where + (brings_grid ? "whose shape is its own was asked for with typed_grid(); use typed()"
                                     : "whose calls bring the grid was asked for with typed(); use typed_grid()"));
  }
  check_types(where, parameters, site->runtime_signature(), {});
}

}  // namespace detail
}  // namespace slipway
