// What a KernelSelector refers to: its candidates, its choice, and the sites that are to hear of changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "slipway/selector.h"

namespace slipway::internal {

class DeviceImpl;
class SiteImpl;

class SelectorImpl : public std::enable_shared_from_this<SelectorImpl> {
 public:
  using Candidates = std::vector<Candidate>;
  struct State {
    std::shared_ptr<const Candidates> candidates;
    std::optional<std::size_t> chosen;
    bool held = false;
    std::uint64_t version = 1;
  };

  SelectorImpl(std::string name, Candidates candidates, KernelSelector::Choose choose, bool per_call);

  const std::string& name() const noexcept { return name_; }
  DeviceImpl& device() const noexcept { return *device_; }
  bool per_call() const noexcept { return per_call_; }
  const KernelSelector::Choose& choose_for_call() const noexcept { return choose_; }
  // Which parameters of the kernel are given at run time, and what they are: the same for all candidates.
  const Signature& runtime_signature() const noexcept { return runtime_; }

  State look() const;
  void choose(std::size_t index);
  void unsettle();
  void hold_back(bool held);
  void replace(Candidates candidates);
  void add_site(const std::shared_ptr<SiteImpl>& site);

 private:
  // Has `change` make a change, and tells the sites if it says that it made one.
  void change(const std::function<bool(State&)>& change);

  const std::string name_;
  const KernelSelector::Choose choose_;
  const bool per_call_;
  Signature runtime_;
  std::shared_ptr<DeviceImpl> device_;
  mutable std::mutex mutex_;  // guards the rest; nothing is called or locked inside
  State state_;
  std::vector<std::weak_ptr<SiteImpl>> sites_;
};

// The parameters of a candidate's kernel that its plan does not fix.
Signature runtime_signature_of(const Candidate& candidate);
// Run-time arguments and the candidate's fixed ones, in the order of the signature. InvalidArgument when the count is
// wrong.
std::vector<Argument> all_arguments(const Candidate& candidate, std::span<const Argument> runtime);
// Does each call bring its grid?
bool brings_grid(const PlanOptions& plan) noexcept;
// The candidate's shape for one call; `grid` where calls bring it. Throws as a rule for the grid does.
LaunchShape shape_of(const Candidate& candidate, const std::optional<Extent>& grid, std::span<const Argument> runtime);
// Does the kernel's specialisation hold for these?
bool fits(const Candidate& candidate, std::span<const Argument> all);

}  // namespace slipway::internal
