// Timing candidates without letting their trials be seen: on copies, on a stream of its own.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/handles.h"
#include "launch/selector_impl.h"
#include "slipway/selector.h"

namespace slipway {
namespace internal {
namespace {

// A block of memory that a candidate may write, and its copy for trials.
struct Copied {
  std::uint64_t address;
  std::uint64_t bytes;
  Memory copy;
};

class Trials {
 public:
  // `possible` is false where a written address is not memory that Slipway knows.
  Trials(const SiteCallView& call, const SelectorImpl::Candidates& candidates, bool& possible)
      : call_(call),
        device_(call.stream.impl()->shared_device()),
        stream_(Device(device_).create_stream({.priority = 0, .ring_bytes = 64 << 10, .name = "tuning"})) {
    possible = true;
    for (const Candidate& c : candidates) {
      const Signature signature = runtime_signature_of(c);
      for (std::size_t i = 0; i < std::min(signature.size(), call.arguments.size()); ++i) {
        if (signature[i].kind != ArgKind::kTensor || signature[i].access == Access::kIn) continue;
        const std::uint64_t address = call.arguments[i].as_unsigned();
        if (address == 0) continue;
        const auto block = device_->addresses().find(address);
        if (!block) {
          possible = false;
          return;
        }
        if (!blocks_.contains(block->address)) {
          blocks_.emplace(block->address, Copied{block->address, block->bytes, Device(device_).allocate(block->bytes)});
        }
      }
    }
    const Event before = Device(device_).create_event();
    call.stream.mark(before);
    stream_.wait(before);
    stream_.synchronize();
  }

  // The shortest of `count` runs in ns; the greatest number when the candidate fails.
  std::int64_t time(const Candidate& candidate, unsigned count) {
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    try {
      const std::vector<Argument> arguments = all_arguments(candidate, moved());
      const LaunchShape shape = shape_of(candidate, call_.grid, call_.arguments);
      for (unsigned i = 0; i <= count; ++i) {  // the first is not timed: it loads and warms
        for (const auto& [address, block] : blocks_) {
          stream_.copy(block.copy.address(), static_cast<DevicePtr>(address), block.bytes);
        }
        stream_.synchronize();
        const std::int64_t begin = now_ns();
        stream_.launch_arguments(candidate.kernel, shape, arguments);
        stream_.synchronize();
        if (i > 0) best = std::min(best, now_ns() - begin);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeviceLost || error.code() == ErrorCode::kTimeout) throw;
      stream_.recover();
      return std::numeric_limits<std::int64_t>::max();
    }
    return best;
  }

 private:
  // The arguments, with what lies in a copied block moved to its copy.
  std::vector<Argument> moved() const {
    std::vector<Argument> arguments(call_.arguments.begin(), call_.arguments.end());
    for (Argument& a : arguments) {
      if (a.category() != Argument::Category::kTensor || a.as_unsigned() == 0) continue;
      const auto after = blocks_.upper_bound(a.as_unsigned());
      if (after == blocks_.begin()) continue;
      const Copied& block = std::prev(after)->second;
      if (a.as_unsigned() >= block.address + block.bytes) continue;
      const std::uint64_t offset = a.as_unsigned() - block.address;
      a = Argument(
          TensorArg{static_cast<DevicePtr>(static_cast<std::uint64_t>(block.copy.address()) + offset), a.dtype()});
    }
    return arguments;
  }

  const SiteCallView& call_;
  const std::shared_ptr<DeviceImpl> device_;
  std::map<std::uint64_t, Copied> blocks_;
  Stream stream_;
};

}  // namespace
}  // namespace internal

KernelSelector::Choose tune(const TuneOptions& options) {
  if (options.trials == 0 || options.trials > 10'000) {
    throw Error(ErrorCode::kInvalidArgument,
                "tuning with " + std::to_string(options.trials) + " trials was asked for; give 1 to 10000");
  }
  return [options](const KernelSelector& selector, const SiteCallView& call) -> std::size_t {
    const std::vector<Candidate> candidates = selector.candidates();
    if (const auto chosen = selector.chosen()) {  // a call that missed a guard: whoever can run it
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (internal::fits(candidates[i], internal::all_arguments(candidates[i], call.arguments))) return i;
      }
      return *chosen;
    }
    internal::StreamImpl& stream = *call.stream.impl();
    if (stream.capture() || !stream.device().captures().check_wait("a trial").ok()) return 0;
    bool possible = false;
    internal::Trials trials(call, candidates, possible);
    std::size_t best = 0;
    if (possible) {
      std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const std::int64_t took = trials.time(candidates[i], options.trials);
        if (took >= shortest) continue;
        shortest = took;
        best = i;
      }
      if (shortest == std::numeric_limits<std::int64_t>::max()) {
        throw Error(ErrorCode::kKernelFailed, "no candidate of the kernel selector '" + selector.name() +
                                                  "' got through its trials; launch one by itself to see why");
      }
    }
    selector.choose(best);
    return best;
  };
}

}  // namespace slipway
