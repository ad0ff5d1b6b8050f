// What every wait of a caller has in common: a limit, a time to spin, and the caller's blocking hooks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/clock.h"

namespace slipway::internal {

// leave() before a wait, enter() after it: for callers that hold a lock which work in flight may need.
struct BlockingHooks {
  std::function<void()> leave;
  std::function<void()> enter;
};

// One per device; shared by everything that may make a caller wait.
class WaitRules {
 public:
  std::int64_t default_limit_ns = 60'000'000'000;
  std::int64_t spin_ns = 0;  // callers spin as long as workers do

  void set_hooks(std::shared_ptr<const BlockingHooks> hooks) {
    const std::lock_guard lock(mutex_);
    hooks_ = std::move(hooks);
  }
  std::shared_ptr<const BlockingHooks> hooks() const {
    const std::lock_guard lock(mutex_);
    return hooks_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const BlockingHooks> hooks_;
};

// Brackets one wait. Construct it only once waiting is certain.
class BlockingScope {
 public:
  explicit BlockingScope(const WaitRules& rules) : hooks_(rules.hooks()) {
    if (hooks_) hooks_->leave();
  }
  ~BlockingScope() {
    if (hooks_) hooks_->enter();
  }
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  std::shared_ptr<const BlockingHooks> hooks_;
};

}  // namespace slipway::internal
