#include "engine/engine.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/thread_id.h"

namespace slipway::internal {
namespace {

// In-line engines: the one whose lanes this thread is executing. Then whatever becomes ready is left to the
// outermost call, so that chains of lanes do not become chains of calls.
thread_local const Engine* t_draining = nullptr;

class DrainScope {
 public:
  explicit DrainScope(const Engine* engine) noexcept : saved_(std::exchange(t_draining, engine)) {}
  ~DrainScope() { t_draining = saved_; }
  DrainScope(const DrainScope&) = delete;
  DrainScope& operator=(const DrainScope&) = delete;

 private:
  const Engine* saved_;
};

constexpr std::int64_t kEndLimit_ns = 10'000'000'000;  // for workers that have run nothing yet

constexpr unsigned kTurnsPerClock = 16;  // looks around between two looks at the clock

std::size_t bucket_of(const Lane& lane) noexcept { return static_cast<std::size_t>(lane.priority()) + 1; }

}  // namespace

Engine::Engine(const EngineOptions& options, WalkFunction walk, void* executor)
    : options_(options), walk_(walk), executor_(executor) {
  if (available_processors(options_.affinity) == 1) options_.spin_ns = 0;  // nothing spins against itself
  host_thread_.set_stepped(is_stepped());
  parked_.reserve(options_.workers);  // going to sleep allocates nothing
  for (unsigned i = 0; i < options_.workers; ++i) workers_.push_back(std::make_unique<Worker>());
  unsigned started = 0;
  try {
    while (started < options_.workers) start_worker(started++);
  } catch (...) {
    // Those that run are ended; the one that failed may have a thread or not.
    while (started > 0 && !workers_[started - 1]->thread.joinable()) --started;
    workers_.resize(started);
    (void)shut_down(now_ns() + kEndLimit_ns);
    throw;
  }
}

void Engine::start_worker(unsigned i) {
  workers_[i]->thread = std::thread([this, i] { worker_main(i); });
  const pthread_t handle = workers_[i]->thread.native_handle();
  ::pthread_setname_np(handle, (options_.thread_name + "-" + std::to_string(i)).substr(0, 15).c_str());
  if (!options_.affinity.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(options_.affinity[i % options_.affinity.size()], &set);
    ::pthread_setaffinity_np(handle, sizeof set, &set);
  }
}

Engine::~Engine() {
  // Only where opening the device failed behind us; else shut_down() has been called, and has left no thread here.
  const auto runs = [](const std::unique_ptr<Worker>& worker) { return worker->thread.joinable(); };
  if (std::any_of(workers_.begin(), workers_.end(), runs)) (void)shut_down(now_ns() + kEndLimit_ns);
}

Lane* Engine::acquire_lane(std::uint32_t ring_bytes, int priority, const WaitRules& rules) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](Lane* lane) { return lane->capacity_bytes() == std::bit_ceil(ring_bytes); };
  if (const auto it = std::find_if(free_lanes_.begin(), free_lanes_.end(), fits); it != free_lanes_.end()) {
    Lane* lane = *it;
    free_lanes_.erase(it);
    lane->set_priority(priority);
    lane->base = lane->submitted();
    if (lane->failed()) lane->recover();  // its last stream was dropped as it was
    return lane;
  }
  free_lanes_.reserve(lanes_.size() + 1);
  lanes_.push_back(std::make_unique<Lane>(ring_bytes, priority, rules));
  lanes_.back()->set_engine(*this);
  if (is_inline()) lanes_.back()->use_symmetric_fences();
  return lanes_.back().get();
}

void Engine::release_lane(Lane* lane) {  // by destructors: acquire_lane() has made the room
  const std::lock_guard lock(mutex_);
  free_lanes_.push_back(lane);
}

void Engine::kick(Lane& lane) {
  if (!lane.take_detached()) return;
  if (is_inline()) {
    if (t_draining == this) {
      lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
      push_ready(lane);
      return;
    }
    {
      const DrainScope scope(this);
      run_inline(lane);
    }
    if (ready_count_.load(std::memory_order_seq_cst) != 0) drain_inline();
    return;
  }
  lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
  push_ready(lane);
}

void Engine::make_ready(Lane& lane) {
  lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
  push_ready(lane);
  if (is_inline()) drain_inline();
}

void Lane::resume() { engine_->make_ready(*this); }

void Engine::push_ready(Lane& lane) { push_ready(lane, bucket_of(lane)); }

void Engine::push_ready(Lane& lane, std::size_t bucket) {
  Worker* woken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ready_[bucket].push(lane);
    ready_count_.fetch_add(1, std::memory_order_seq_cst);
    if (spinners_.load(std::memory_order_seq_cst) == 0) woken = take_parked();
  }
  if (woken) woken->parker.unpark();
}

Lane* Engine::take_ready() {
  if (ready_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  for (auto& queue : ready_) {
    Lane* lane = queue.pop();
    if (!lane) continue;
    ready_count_.fetch_sub(1, std::memory_order_relaxed);
    lane->state().store(LaneState::kRunning, std::memory_order_relaxed);
    return lane;
  }
  return nullptr;
}

Lane* Engine::claim_polled() {
  if (polled_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  Lane* best = nullptr;
  for (const auto& slot : polled_) {
    Lane* lane = slot.load(std::memory_order_acquire);
    if (!lane || lane->state().load(std::memory_order_acquire) != LaneState::kPolled || !lane->has_work()) continue;
    if (!best || lane->priority() < best->priority()) best = lane;
  }
  if (!best) return nullptr;
  LaneState expected = LaneState::kPolled;
  // Acquire: what the last runner left in the lane.
  return best->state().compare_exchange_strong(expected, LaneState::kRunning, std::memory_order_acq_rel) ? best
                                                                                                         : nullptr;
}

bool Engine::work_waits() const noexcept {
  if (stopping_.load(std::memory_order_relaxed)) return true;
  if (spinners_.load(std::memory_order_relaxed) != 0) return false;  // one that looks around finds it
  if (ready_count_.load(std::memory_order_relaxed) != 0 || job_posted_.load(std::memory_order_relaxed)) return true;
  if (polled_count_.load(std::memory_order_relaxed) == 0) return false;
  return std::any_of(polled_.begin(), polled_.end(), [](const std::atomic<Lane*>& slot) {
    Lane* lane = slot.load(std::memory_order_acquire);
    return lane && lane->state().load(std::memory_order_acquire) == LaneState::kPolled && lane->has_work();
  });
}

bool Engine::stay(const Progress& source, std::uint64_t count) const noexcept {
  if (is_inline() || options_.spin_ns <= 0) return false;
  std::int64_t since = 0;
  SpinTurn spin;
  for (unsigned turns = 0; !work_waits();) {
    spin();
    if (source.completed() >= count) return true;
    if (++turns % kTurnsPerClock != 0) continue;
    const std::int64_t now = now_ns();
    if (since == 0) since = now;
    if (now - since >= options_.spin_ns) return false;
  }
  return false;
}

bool Engine::detach(Lane& lane) {
  // Pairs with the submitter's publish-then-look (S3 of record/sink.h).
  const std::uint64_t published =
      store_then_load_rare(lane.attention(), ConsumerState::kDetached, lane.published_position(), lane.asymmetric());
  if (published == lane.read_position.load(std::memory_order_relaxed)) return true;
  // Lost to a kick: the lane is somebody else's, and its work is seen to.
  return !lane.take_detached();
}

void Engine::poll_or_detach(Lane& lane) {
  if (options_.spin_ns > 0) {
    if (lane.polled_slot < 0) {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < kPolledSlots && lane.polled_slot < 0; ++i) {
        if (polled_[i].load(std::memory_order_relaxed)) continue;
        lane.polled_slot = static_cast<int>(i);
        polled_[i].store(&lane, std::memory_order_release);
        polled_count_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    if (lane.polled_slot >= 0) {
      // Release: the next to claim it finds what we left in the lane.
      lane.state().store(LaneState::kPolled, std::memory_order_release);
      return;
    }
  }
  if (detach(lane)) return;
  lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
  push_ready(lane);
}

void Engine::run(Lane& lane) {
  for (;;) {
    switch (walk_(executor_, *this, lane)) {
      case WalkResult::kBlocked: return;
      case WalkResult::kEmpty: poll_or_detach(lane); return;
      case WalkResult::kTurn:
        if (!others_wait(lane) && !stopping_.load(std::memory_order_relaxed)) continue;
        lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
        push_ready(lane);
        return;
      case WalkResult::kLoop:  // what it waits for may have any priority
        if (!others_wait(lane) && !stopping_.load(std::memory_order_relaxed)) continue;
        lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
        push_ready(lane, kPriorities - 1);
        return;
    }
  }
}

void Engine::run_inline(Lane& lane) {
  const CallbackScope scope;
  for (;;) {
    switch (walk_(executor_, *this, lane)) {
      case WalkResult::kBlocked: return;
      case WalkResult::kEmpty:
        if (detach(lane)) return;
        continue;
      case WalkResult::kTurn:
      case WalkResult::kLoop:
        if (ready_count_.load(std::memory_order_relaxed) == 0) continue;
        // What became ready meanwhile may be what a loop waits for. The outermost call takes both from the queue.
        lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
        push_ready(lane, kPriorities - 1);
        return;
    }
  }
}

void Engine::drain_inline() {
  if (is_stepped()) return options_.became_ready(options_.context);
  if (t_draining == this) return;  // the outermost call goes on
  const DrainScope scope(this);
  while (Lane* lane = take_ready()) run_inline(*lane);
}

void Engine::kick_stepped(Lane& lane) {
  if (!lane.take_detached()) return;
  lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
  push_ready(lane);
  options_.became_ready(options_.context);
}

void Engine::list_ready(std::vector<Lane*>& lanes) {
  const std::lock_guard lock(mutex_);
  for (const ReadyQueue& queue : ready_) {
    for (Lane* lane = queue.first; lane; lane = lane->next_ready) lanes.push_back(lane);
  }
}

void Engine::run_turn(Lane& lane) {
  {
    const std::lock_guard lock(mutex_);
    ready_[bucket_of(lane)].remove(lane);
    ready_count_.fetch_sub(1, std::memory_order_relaxed);
    lane.state().store(LaneState::kRunning, std::memory_order_relaxed);
  }
  const CallbackScope scope;
  switch (walk_(executor_, *this, lane)) {
    case WalkResult::kBlocked: return;
    case WalkResult::kEmpty:
      if (detach(lane)) return;
      break;
    case WalkResult::kTurn:
    case WalkResult::kLoop: break;
  }
  lane.state().store(LaneState::kReady, std::memory_order_seq_cst);
  push_ready(lane);
}

Engine::Worker* Engine::take_parked() {
  if (parked_.empty()) return nullptr;
  Worker* worker = workers_[parked_.back()].get();
  parked_.pop_back();
  parked_count_.fetch_sub(1, std::memory_order_relaxed);
  // It counts as looking around from here on, so that nobody wakes a second one for the same work.
  spinners_.fetch_add(1, std::memory_order_seq_cst);
  return worker;
}

void Engine::leave_spin(std::uint32_t own) {
  if (spinners_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (parked_count_.load(std::memory_order_relaxed) == 0) return;
  const bool others = ready_count_.load(std::memory_order_seq_cst) != 0 ||
                      job_posted_.load(std::memory_order_seq_cst) ||
                      polled_count_.load(std::memory_order_relaxed) > own;
  if (!others) return;
  Worker* woken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (spinners_.load(std::memory_order_seq_cst) == 0) woken = take_parked();
  }
  if (woken) woken->parker.unpark();
}

bool Engine::park(unsigned index) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_.load(std::memory_order_relaxed) || ready_count_.load(std::memory_order_seq_cst) != 0 || job_)
      return false;
    if (spinners_.load(std::memory_order_seq_cst) == 1) {
      // The last one that looks around: from now on publications must kick (E2).
      for (auto& slot : polled_) {
        Lane* lane = slot.load(std::memory_order_relaxed);
        if (!lane) continue;
        LaneState expected = LaneState::kPolled;
        if (!lane->state().compare_exchange_strong(expected, LaneState::kRunning, std::memory_order_acq_rel)) {
          continue;  // runs or is blocked: whoever has it puts it back in order
        }
        lane->polled_slot = -1;
        slot.store(nullptr, std::memory_order_relaxed);
        polled_count_.fetch_sub(1, std::memory_order_relaxed);
        if (detach(*lane)) continue;
        lane->state().store(LaneState::kReady, std::memory_order_seq_cst);
        ready_[bucket_of(*lane)].push(*lane);
        ready_count_.fetch_add(1, std::memory_order_seq_cst);
      }
      if (ready_count_.load(std::memory_order_relaxed) != 0) return false;
    }
    parked_.push_back(index);
    parked_count_.fetch_add(1, std::memory_order_relaxed);
    spinners_.fetch_sub(1, std::memory_order_seq_cst);
  }
  workers_[index]->parker.park(kNoDeadline);  // ended by work or by shut_down(), which unparks
  return true;
}

void Engine::worker_main(unsigned index) {
  t_in_callback = true;  // nothing that runs here may call the front door
  spinners_.fetch_add(1, std::memory_order_seq_cst);
  std::int64_t idle_since = 0;
  unsigned turns = 0;
  SpinTurn spin;
  bool polled_first = false;  // in turns, or lanes that are queued again and again would starve the polled ones
  while (!stopping_.load(std::memory_order_relaxed)) {
    Lane* lane = polled_first ? claim_polled() : nullptr;
    polled_first = !lane;
    if (!lane) lane = take_ready();
    if (!lane) lane = claim_polled();
    if (lane) {
      leave_spin(lane->polled_slot >= 0 ? 1 : 0);  // its slot is ours to read: the lane is
      run(*lane);
      spinners_.fetch_add(1, std::memory_order_seq_cst);
      idle_since = 0;
      spin.reset();
      continue;
    }
    if (job_posted_.load(std::memory_order_relaxed) && help()) {
      idle_since = 0;
      spin.reset();
      continue;
    }
    if (options_.spin_ns > 0) {
      spin();
      if (++turns % kTurnsPerClock != 0) continue;
      const std::int64_t now = now_ns();
      if (idle_since == 0) idle_since = now;
      if (now - idle_since < options_.spin_ns) continue;
    }
    if (park(index)) {
      idle_since = 0;
      spin.reset();
    }
  }
  spinners_.fetch_sub(1, std::memory_order_seq_cst);
  workers_[index]->exited.store(true, std::memory_order_release);
}

void Engine::work_on(SpreadJob& job) {
  for (;;) {
    const std::uint64_t begin = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (begin >= job.total) return;
    try {
      job.run(job.context, begin, std::min(begin + job.chunk, job.total));
    } catch (...) {
      job.next.store(job.total, std::memory_order_relaxed);  // no further chunk is begun
      const std::lock_guard lock(job.mutex);
      if (!job.failure) job.failure = std::current_exception();
    }
  }
}

bool Engine::help() {
  SpreadJob* job = nullptr;
  {
    const std::lock_guard lock(mutex_);
    job = job_;
    if (!job || job->next.load(std::memory_order_relaxed) >= job->total) return false;
    job->helpers.fetch_add(1, std::memory_order_relaxed);
  }
  leave_spin(0);
  work_on(*job);
  job->helpers.fetch_sub(1, std::memory_order_release);  // after it the job may be gone
  spinners_.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

void Engine::spread(SpreadJob& job) {
  bool posted = false;
  if (options_.workers > 1) {
    const std::lock_guard lock(mutex_);
    if (!job_) {
      job_ = &job;
      posted = true;
      job_posted_.store(true, std::memory_order_seq_cst);
      for (std::uint64_t i = 1; i < (job.total + job.chunk - 1) / job.chunk; ++i) {
        if (Worker* woken = take_parked()) woken->parker.unpark();
      }
    }
  }
  work_on(job);
  if (posted) {
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;
      job_posted_.store(false, std::memory_order_seq_cst);
    }
    // Helpers are inside a block that this launch is made of: waiting for them is part of running it.
    for (unsigned i = 0; job.helpers.load(std::memory_order_acquire) != 0; ++i) {
      if (i % 64 == 63) std::this_thread::yield();
      else cpu_relax();
    }
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

bool Engine::shut_down(std::int64_t deadline_ns) {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true, std::memory_order_seq_cst);
    while (Worker* woken = take_parked()) woken->parker.unpark();
  }
  bool all = true;
  for (auto& worker : workers_) {
    while (!worker->exited.load(std::memory_order_acquire) && now_ns() < deadline_ns) {
      worker->parker.unpark();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (worker->exited.load(std::memory_order_acquire)) worker->thread.join();
    else {
      worker->thread.detach();
      all = false;
    }
  }
  // In-line: a thread that is inside a submission finishes it first.
  for (auto& lane : lanes_) {
    while (is_inline() && !lane->is_detached() &&
           lane->state().load(std::memory_order_acquire) == LaneState::kRunning) {
      if (now_ns() > deadline_ns) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return host_thread_.stop(deadline_ns) && all;
}

}  // namespace slipway::internal
