// The executing side of a stream: its ring, how far it has come, and whether it has failed.
//
// The consumer's fields belong to whoever moved the state to kRunning. The legal moves:
//   detached  -> kReady    kick(): queued for a worker             kRunning -> kBlocked   a wait that is not over
//   detached  -> kRunning  in-line kick                            kBlocked -> kReady     what it waited for came
//   kReady    -> kRunning  taken from the queue                    kRunning -> kReady     its turn is over
//   kPolled   -> kRunning  claimed by a worker that looks around   kRunning -> kPolled    empty for now
//   kRunning  -> detached  empty, and nobody will look (then the ring is looked at once more)
// Whether it is detached stands in the sink's consumer_, which the submitter reads with every record; whoever takes
// kDetached away there owns the lane. Its state is kRunning meanwhile, as the last owner left it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine/progress.h"
#include "record/ring.h"

namespace slipway::internal {

class Engine;

enum class LaneState : std::uint32_t {
  kReady,    // queued, to be run by whoever is free
  kPolled,   // empty a moment ago; somebody keeps looking at it
  kRunning,  // records are being executed
  kBlocked,  // waits for an event, gate or host function, which will make it kReady
};

class Lane final : public Ring, public Resumable {
 public:
  Lane(std::uint32_t ring_bytes, int priority, const WaitRules& rules) : Ring(ring_bytes, rules), priority_(priority) {}

  Progress& progress() noexcept { return progress_; }
  // By its engine, which then owns it.
  void set_engine(Engine& engine) noexcept { engine_ = &engine; }
  void resume() override;  // engine.cpp
  int priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
  bool asymmetric() const noexcept { return asymmetric_; }
  // For a new owner of a recycled lane; the counts go on.
  void set_priority(int priority) noexcept { priority_.store(priority, std::memory_order_relaxed); }
  // In-line lanes are detached after every submission: there the rare side is as frequent as the other.
  void use_symmetric_fences() noexcept { asymmetric_ = false; }

  std::atomic<LaneState>& state() noexcept { return state_; }
  std::atomic<ConsumerState>& attention() noexcept { return consumer_; }
  // Takes a lane that nobody looks at. Of several only one succeeds.
  bool take_detached() noexcept {
    ConsumerState expected = ConsumerState::kDetached;
    return consumer_.compare_exchange_strong(expected, ConsumerState::kAttached, std::memory_order_seq_cst);
  }
  bool is_detached() const noexcept { return consumer_.load(std::memory_order_acquire) == ConsumerState::kDetached; }
  const std::atomic<std::uint64_t>& published_position() const noexcept { return published_; }

  bool has_work() const noexcept {
    return published_.load(std::memory_order_acquire) != read_position.load(std::memory_order_relaxed);
  }

  // The failure under which records are discarded; success when healthy. Any thread.
  Status failure() const {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }
  bool failed() const noexcept { return discarding.load(std::memory_order_acquire); }
  // By the consumer: record `sequence` and all behind it fail.
  void fail(std::uint64_t at_sequence, Status cause) {
    progress_.open_failure(at_sequence, cause);
    {
      const std::lock_guard lock(failure_mutex_);
      failure_ = std::move(cause);
    }
    discarding.store(true, std::memory_order_release);
    set_slow_flags(kSlowFailed);
  }
  // By the front door, when everything submitted has been discarded.
  void recover() {
    progress_.close_failure(submitted());
    {
      const std::lock_guard lock(failure_mutex_);
      failure_ = Status();
    }
    discarding.store(false, std::memory_order_release);
    clear_slow_flags(kSlowFailed);
  }

  // The consumer's. read_position and discarding are atomic only because others peek at them.
  std::atomic<std::uint64_t> read_position{0};
  std::uint64_t sequence = 0;  // records finished
  std::uint64_t base = 0;      // `sequence` when the present stream began: users count from there
  std::atomic<bool> discarding{false};
  bool resumed = false;  // the host function at read_position has run, with this outcome:
  Status resume_status;
  bool payload_handed_over = false;  // the host function at read_position belongs to the host thread
  std::uint64_t replay_at = 0;       // the place in the tape of the replay at read_position; 0: not begun
  // For the timeline: when the replay came to what it stands at, a gate or a host function. 0: not known.
  std::int64_t stands_since = 0;
  bool in_task = false;        // in simulations: the launch that it stands at has begun
  int polled_slot = -1;        // under the engine's mutex
  Lane* next_ready = nullptr;  // under the engine's mutex, while the state is kReady

 private:
  std::atomic<LaneState> state_{LaneState::kRunning};
  Engine* engine_ = nullptr;
  Progress progress_;
  std::atomic<int> priority_;  // relaxed: a worker that looks around may compare a lane that just changed hands
  mutable std::mutex failure_mutex_;
  Status failure_;
};

}  // namespace slipway::internal
