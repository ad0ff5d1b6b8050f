// Events and holds of devices whose streams are lanes: a mark is a place in a lane's progress.
#pragma once

#include <atomic>
#include <mutex>

#include "device/driver.h"
#include "engine/engine.h"

namespace slipway::internal {

class LaneStream final : public DriverStream {
 public:
  LaneStream(Engine& engine, Lane* lane, const WaitRules& rules) : engine_(engine), lane_(lane), rules_(rules) {}
  ~LaneStream() override { engine_.release_lane(lane_); }

  Lane& lane() noexcept { return *lane_; }

  Sink& sink() override { return *lane_; }
  void kick() override { engine_.kick(*lane_); }
  std::uint64_t completed() override { return lane_->progress().completed(); }
  Status wait(std::uint64_t sequence, std::int64_t deadline_ns) override;
  std::uint64_t base() override { return lane_->base; }
  Status failure() override { return lane_->failure(); }
  void recover() override { lane_->recover(); }
  void* native_handle() override { return nullptr; }

 private:
  Engine& engine_;
  Lane* lane_;
  const WaitRules& rules_;
};

class LaneEvent final : public DriverEvent {
 public:
  LaneEvent(const EventOptions& options, const WaitRules& rules) : timing_(options.timing), rules_(rules) {}

  bool timing() const noexcept { return timing_; }
  // By the executor, when the mark `sequence` is passed. The last one to be passed counts.
  void passed(std::int64_t at_ns) noexcept { time_ns_.store(at_ns, std::memory_order_release); }

  void marked(DriverStream& stream, std::uint64_t sequence) override;
  bool prepare_wait(EventRecord& record) override;
  EventState state(Status& cause) override;
  Status wait(std::int64_t deadline_ns) override;
  Result<std::int64_t> time_ns() override { return time_ns_.load(std::memory_order_acquire); }

 private:
  struct Mark {
    Progress* progress = nullptr;  // lanes live as long as their engine
    std::uint64_t sequence = 0;
  };
  Mark mark() const {
    const std::lock_guard lock(mutex_);
    return mark_;
  }
  const bool timing_;
  const WaitRules& rules_;
  mutable std::mutex mutex_;
  Mark mark_;
  std::atomic<std::int64_t> time_ns_{0};
};

class LaneHold final : public DriverHold {
 public:
  void release() override;

  void marked(DriverStream&, std::uint64_t) override {}
  bool prepare_wait(EventRecord& record) override;
  EventState state(Status&) override { return progress_.completed() ? EventState::kPassed : EventState::kPending; }
  Status wait(std::int64_t) override { return {}; }
  Result<std::int64_t> time_ns() override { return std::int64_t{0}; }

 private:
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace slipway::internal
