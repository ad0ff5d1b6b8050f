// Events and holds of devices whose streams are lanes: a mark is a place in a lane's progress.
#pragma once

#include <atomic>
#include <mutex>

#include "device/driver.h"
#include "engine/engine.h"
#include "slipway/native.h"

namespace slipway::internal {

// What others put on a lane's stream goes through the front door, which alone may write to its ring.
class LaneQueue final : public NativeQueue {
 public:
  LaneQueue() noexcept : NativeQueue{&LaneQueue::put} {}
  void set_work(NativeWork* work) {
    const std::lock_guard lock(mutex_);
    work_ = work;
  }

 private:
  static int put(NativeQueue* queue, void (*call)(void*), void* data, void (*destroy)(void*));
  std::mutex mutex_;
  NativeWork* work_ = nullptr;  // null once the stream's handle is gone
};

class LaneStream : public DriverStream {
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
  void* native_handle() override { return static_cast<NativeQueue*>(&queue_); }
  bool set_native_work(NativeWork* work) override {
    queue_.set_work(work);
    return true;
  }

 private:
  Engine& engine_;
  Lane* lane_;
  const WaitRules& rules_;
  LaneQueue queue_;
};

class LaneEvent final : public DriverEvent {
 public:
  LaneEvent(const EventOptions& options, const WaitRules& rules) : timing_(options.timing), rules_(rules) {}

  bool timing() const noexcept { return timing_; }
  // By the executor, when the mark `number` of this event is passed. An older one that is passed late does not count.
  void passed(std::uint64_t number, std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    if (number < passed_number_) return;
    passed_number_ = number;
    time_ns_ = at_ns;
  }

  void marked(DriverStream& stream, std::uint64_t sequence) override;
  bool prepare_wait(EventRecord& record) override;
  EventState state(Status& cause) override;
  Status wait(std::int64_t deadline_ns) override;
  Result<std::int64_t> time_ns() override {
    const std::lock_guard lock(mutex_);
    return time_ns_;
  }

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
  std::uint64_t passed_number_ = 0;
  std::int64_t time_ns_ = 0;
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
