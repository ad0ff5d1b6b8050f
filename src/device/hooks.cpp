#include "device/hooks.h"

#include <algorithm>
#include <utility>

#include "base/thread_id.h"
#include "device/stream_impl.h"

namespace slipway {
namespace internal {
namespace {

thread_local bool t_hook_threw = false;

void call(const std::function<void(const LaunchInfo&)>& hook, const LaunchInfo& info) {
  if (!hook) return;
  const CallbackScope scope;
  try {
    hook(info);
  } catch (...) {
    t_hook_threw = true;
    throw;
  }
}

}  // namespace

bool take_hook_threw() noexcept { return std::exchange(t_hook_threw, false); }

std::uint64_t HookChain::add(LaunchHooks hooks) {
  const std::lock_guard lock(mutex_);
  auto changed = entries_ ? std::make_shared<Entries>(*entries_) : std::make_shared<Entries>();
  changed->push_back({++last_id_, std::move(hooks)});
  entries_ = std::move(changed);
  any_.store(true, std::memory_order_relaxed);
  if (changed_) changed_(true);
  return last_id_;
}

void HookChain::remove(std::uint64_t id) noexcept {
  if (forks_ != fork_count()) return;
  const std::lock_guard lock(mutex_);
  if (!entries_) return;
  auto changed = std::make_shared<Entries>(*entries_);
  std::erase_if(*changed, [&](const Entry& e) { return e.id == id; });
  const bool any = !changed->empty();
  entries_ = std::move(changed);
  any_.store(any, std::memory_order_relaxed);
  if (!any && changed_) changed_(false);
}

void HookChain::close() {
  const std::lock_guard lock(mutex_);
  changed_ = nullptr;
}

void launch_hooked(StreamImpl& stream, const std::string& kernel, const LaunchExtent& extent, bool planned,
                   const std::function<std::uint64_t()>& submit) {
  const auto entries = stream.device().hooks().entries();
  if (!entries || stream.capture()) {
    submit();
    return;
  }
  LaunchInfo info{kernel, stream.name(), extent.grid, extent.block, extent.shared_bytes, planned, 0};
  for (const HookChain::Entry& entry : *entries) call(entry.hooks.enter, info);
  info.sequence = submit() - stream.base();
  for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry) call(entry->hooks.exit, info);
}

}  // namespace internal

void LaunchHookHandle::remove() noexcept {
  if (const auto chain = chain_.lock()) chain->remove(id_);
  chain_.reset();
}

}  // namespace slipway
