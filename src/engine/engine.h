// Runs the lanes of a device: on worker threads, or in-line on the threads that submit.
//
// A worker never sleeps in a lane's wait: at a wait that is not over the lane is left (its position is in it),
// and whoever ends the wait makes it ready again. A worker that has nothing else to run stays with it for `spin_ns`
// before, looking at what it waits for: whoever ends the wait then finds nobody to resume, and pays one store. Idle
// workers look around for `spin_ns`, then park; a parked worker costs nothing. Who looks at what:
//   E1  a lane in state kPolled is in polled_, and there is a worker that looks around, or every worker is
//       running something and will look around afterwards.
//   E2  before the last worker that looks around parks, it detaches every polled lane that is empty.
//       A worker that stays with a lane counts as running: it looks at the polled ones too, as long as nobody looks
//       around.
//   E3  a worker that stops looking around in order to run something wakes a parked one when it was the last
//       and others may have work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/parker.h"
#include "engine/host_thread.h"
#include "engine/lane.h"

namespace slipway::internal {

enum class WalkResult : std::uint8_t {
  kEmpty,    // nothing more is published
  kBlocked,  // the lane waits, and may already belong to somebody else: do not touch it
  kTurn,     // its turn is over, there may be more
  kLoop,     // likewise, inside a loop, which may wait for what another lane does
};

class Engine;

// Executes records of a lane until one of the above. Drivers instantiate engine/walker.h for it.
using WalkFunction = WalkResult (*)(void* executor, Engine& engine, Lane& lane);

struct EngineOptions {
  unsigned workers = 1;              // 0: in-line
  std::int64_t spin_ns = 1'000'000;  // how long an idle worker looks around before it parks
  std::vector<unsigned> affinity;    // processors that the workers are bound to, in turn; empty: not bound
  std::string thread_name = "slipway";
  // In-line, but nothing runs by itself: whoever drives the engine chooses among what is ready and runs it one turn at
  // a time. It is told when something has become ready.
  void (*became_ready)(void* context) = nullptr;
  void* context = nullptr;
};

// A launch whose blocks several workers run.
struct SpreadJob {
  void (*run)(void* context, std::uint64_t begin, std::uint64_t end);
  void* context;
  std::uint64_t total;
  std::uint64_t chunk;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint32_t> helpers{0};  // raised under the engine's mutex; the last thing a helper lowers
  std::mutex mutex;
  std::exception_ptr failure;
};

class Engine {
 public:
  Engine(const EngineOptions& options, WalkFunction walk, void* executor);
  ~Engine();

  bool is_inline() const noexcept { return options_.workers == 0; }
  bool is_stepped() const noexcept { return options_.became_ready != nullptr; }
  // In-line ones that are not stepped run host functions where the lane runs.
  bool posts_host_functions() const noexcept { return !is_inline() || is_stepped(); }
  const EngineOptions& options() const noexcept { return options_; }

  // Lanes live as long as the engine; one that is given back is used again, its counts going on.
  Lane* acquire_lane(std::uint32_t ring_bytes, int priority, const WaitRules& rules);
  void release_lane(Lane* lane);  // all its work has passed

  // A publication found the lane detached.
  void kick(Lane& lane);
  // A blocked lane may go on.
  void make_ready(Lane& lane);

  // Threaded engines: hands a host function to the thread for them; the lane is blocked until it has run.
  HostThread& host_thread() noexcept { return host_thread_; }

  // --- Stepped engines: by who drives them ---
  void kick_stepped(Lane& lane);
  void list_ready(std::vector<Lane*>& lanes);  // appends them
  void run_turn(Lane& lane);                   // one that is ready

  // Runs job.run over all of it, with the help of idle workers. Throws the first exception of any chunk.
  void spread(SpreadJob& job);

  // May others run when this lane, which runs, goes on? Asked between turns.
  bool others_wait(const Lane& lane) const noexcept {
    const std::uint32_t own = lane.polled_slot >= 0 ? 1 : 0;
    return ready_count_.load(std::memory_order_relaxed) != 0 || polled_count_.load(std::memory_order_relaxed) > own;
  }

  // The worker of a lane stays with it until `source` has reached `count`; false when there is something else to run,
  // or nothing has come for `spin_ns`.
  bool stay(const Progress& source, std::uint64_t count) const noexcept;

  // Stops the workers after the turn that each is at and joins them. False when a thread is still busy at the
  // deadline; then everything it may touch must be leaked.
  bool shut_down(std::int64_t deadline_ns);
  // After it.
  template <class Visit>
  void for_each_lane(Visit&& visit) {
    for (auto& lane : lanes_) visit(*lane);
  }

 private:
  struct Worker {
    Parker parker;
    std::thread thread;
    std::atomic<bool> exited{false};
  };
  struct ReadyQueue {  // first in, first out; linked through the lanes, so that nothing is allocated
    Lane* first = nullptr;
    Lane* last = nullptr;

    void push(Lane& lane) noexcept {
      lane.next_ready = nullptr;
      (first ? last->next_ready : first) = &lane;
      last = &lane;
    }
    Lane* pop() noexcept {
      Lane* lane = first;
      if (lane) first = lane->next_ready;
      return lane;
    }
    void remove(const Lane& lane) noexcept {
      Lane* before = nullptr;
      for (Lane* at = first; at != &lane; at = at->next_ready) before = at;
      (before ? before->next_ready : first) = lane.next_ready;
      if (last == &lane) last = before;
    }
  };
  static constexpr std::size_t kPolledSlots = 16;
  static constexpr int kPriorities = 3;

  void start_worker(unsigned index);
  void worker_main(unsigned index);
  Lane* take_ready();
  Lane* claim_polled();
  // Is there something to run that no worker is about to find?
  bool work_waits() const noexcept;
  void run(Lane& lane);
  void run_inline(Lane& lane);
  void drain_inline();
  bool detach(Lane& lane);      // false: it has work again and is still ours
  void push_ready(Lane& lane);  // state is kReady
  void push_ready(Lane& lane, std::size_t bucket);
  void poll_or_detach(Lane& lane);
  // `own`: how many of the polled lanes are what it stops for.
  void leave_spin(std::uint32_t own);
  bool park(unsigned index);  // false: there is something to do
  // Under the mutex: a worker to unpark, best once the mutex is free, since it takes it first of all. Null: none is
  // parked.
  Worker* take_parked();
  bool help();
  static void work_on(SpreadJob& job);

  EngineOptions options_;
  WalkFunction walk_;
  void* executor_;
  HostThread host_thread_;

  std::mutex mutex_;
  std::array<ReadyQueue, kPriorities> ready_;
  std::vector<unsigned> parked_;
  SpreadJob* job_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> free_lanes_;

  // seq_cst throughout: ready_count_ and job_posted_ are raised and then spinners_ is read, and the other way
  // round in leave_spin(), so that one of the two sees the other.
  std::atomic<std::uint32_t> ready_count_{0};
  std::atomic<bool> job_posted_{false};
  std::atomic<std::uint32_t> spinners_{0};
  std::atomic<std::uint32_t> parked_count_{0};
  std::atomic<bool> stopping_{false};
  // Slots are filled and emptied under mutex_, read without.
  std::array<std::atomic<Lane*>, kPolledSlots> polled_{};
  std::atomic<std::uint32_t> polled_count_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace slipway::internal
