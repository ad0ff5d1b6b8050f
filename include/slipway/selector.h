// Kernel selectors: several kernels for one job, and which of them a call site launches.
//
// A selector is how autotuning and variants are plugged in. Its choice is versioned: it changes rarely, and when it
// does, call sites give up the plans they have made. Or it is made anew for each call (opaque), and its sites are
// never planned. A shared handle; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slipway/argument.h"
#include "slipway/export.h"
#include "slipway/module.h"
#include "slipway/plan.h"
#include "slipway/stream.h"

namespace slipway {

namespace internal {
class SelectorImpl;
}

// A kernel, and how it is planned: shape, fixed arguments, grid. Variants that differ in constants or in block size
// are candidates with one kernel and different options.
struct Candidate {
  Kernel kernel;
  PlanOptions plan{};
};

// One call, as a selector sees it.
struct SiteCallView {
  const Stream& stream;
  std::span<const Argument> arguments;  // the run-time ones, in order
  std::optional<Extent> grid;           // when the call brings it
};

class SLIPWAY_API KernelSelector {
 public:
  // Which candidate runs this call, counted from 0. It may call choose() itself. It runs on the launching thread, with
  // no lock held; what it throws reaches the caller, and nothing is launched.
  using Choose = std::function<std::size_t(const KernelSelector& selector, const SiteCallView& call)>;

  KernelSelector() noexcept = default;
  explicit KernelSelector(std::shared_ptr<internal::SelectorImpl> impl) noexcept : impl_(std::move(impl)) {}

  // Not settled until choose(); meanwhile `choose_for_call` is asked at each call, or without it the first candidate
  // runs whose specialisation the arguments meet. One candidate is settled from the start. All candidates must leave
  // the same kinds of run-time arguments, and be of one device; there is at least one.
  static KernelSelector create(std::string name, std::vector<Candidate> candidates, Choose choose_for_call = {});
  // The choice is made for each call: sites stay opaque.
  static KernelSelector per_call(std::string name, std::vector<Candidate> candidates, Choose choose_for_call);

  // Settles on a candidate. From its return on, every call of every site launches that one. OutOfRange beyond the last.
  void choose(std::size_t index) const;
  // Opens the choice again.
  void unsettle() const;
  // While held back, sites make no plans (binaries are still being written, say), and keep those they have.
  void hold_back(bool held) const;
  // Other candidates take the place of all, with the same kinds of run-time arguments; not settled unless it is one.
  void replace(std::vector<Candidate> candidates) const;

  const std::string& name() const;
  std::vector<Candidate> candidates() const;
  std::optional<std::size_t> chosen() const;  // when settled
  std::uint64_t version() const;              // grows with every change of the choice

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  const std::shared_ptr<internal::SelectorImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<internal::SelectorImpl> impl_;
};

struct TuneOptions {
  unsigned trials = 3;  // of each candidate; the shortest counts
};

// For KernelSelector::create: times all candidates at the first call and chooses the fastest. Trials run on a stream of
// their own, after all that the call's stream was given, on copies of the blocks that the kernel may write, fresh for
// each trial: the call itself then runs once, with the chosen one, on untouched memory. A candidate whose trial fails
// is left out. Where nothing can be tried (the stream is being captured, a written address is not Slipway's memory)
// the first candidate runs: for this call while capturing, else for good.
SLIPWAY_API KernelSelector::Choose tune(const TuneOptions& options = {});

}  // namespace slipway
