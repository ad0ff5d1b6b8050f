#include "engine/launching_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/fence.h"
#include "base/thread_id.h"

namespace slipway::internal {

void QueuedRing::detach() noexcept {
  (void)store_then_load_rare(consumer_, ConsumerState::kDetached, published_, asymmetric_);
}

std::byte* QueuedRing::reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) {
  if (launching_ && launching_->is_this_thread()) {
    while (must_wait(bytes) && stream_->pump_turn() == Pumped::kMore) {
    }
  }
  return Ring::reserve_slow(bytes, why, deadline_ns);
}

LaunchingThread::LaunchingThread(std::int64_t spin_ns, std::string name)
    // Nothing spins against itself.
    : state_(std::make_shared<State>(available_processors() > 1 ? spin_ns : 0, std::move(name))) {}

LaunchingThread::~LaunchingThread() { (void)stop(0); }

void LaunchingThread::start() {
  const std::lock_guard start_lock(start_mutex_);
  if (thread_.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return;
  }
  thread_ = std::thread([state = state_] { run(state); });
  ::pthread_setname_np(thread_.native_handle(), state_->name.substr(0, 15).c_str());
}

bool LaunchingThread::kick(const std::shared_ptr<QueuedStream>& stream) {
  bool wake = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return false;
    stream->queued_ring().poked_.store(true, std::memory_order_release);
    std::atomic<ConsumerState>& consumer = stream->queued_ring().consumer_;
    const ConsumerState seen = consumer.load(std::memory_order_relaxed);
    if (seen == ConsumerState::kDetached || seen == ConsumerState::kBlocked) {
      consumer.store(ConsumerState::kReady, std::memory_order_relaxed);
      state_->ready.push_back(stream);
      state_->attention.store(true, std::memory_order_relaxed);
      wake = std::exchange(state_->asleep, false);
    }
  }
  if (wake) state_->parker.unpark();
  return true;
}

bool LaunchingThread::is_this_thread() const noexcept {
  return state_->id.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

bool LaunchingThread::stop(std::int64_t deadline_ns) {
  const std::lock_guard start_lock(start_mutex_);
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->attention.store(true, std::memory_order_relaxed);
    state_->asleep = false;
    state_->parker.unpark();
    if (thread_.joinable() && !is_this_thread()) {
      const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
      state_->changed.wait_until(lock, deadline, [this] { return state_->ended; });
      ended = state_->ended;
    }
  }
  if (!thread_.joinable()) return true;
  if (ended) thread_.join();
  else thread_.detach();
  return ended;
}

// --- The thread ---

void LaunchingThread::run(const std::shared_ptr<State>& state) {
  t_in_callback = true;  // nothing that runs here may call the front door
  state->id.store(std::this_thread::get_id(), std::memory_order_relaxed);
  std::int64_t idle_since = 0;
  unsigned turns = 0;
  SpinTurn spin;
  while (take_ready(*state)) {
    if (pump_all(*state)) {
      idle_since = 0;
      spin.reset();
      continue;
    }
    if (state->spin_ns > 0) {
      spin();
      if (++turns % 16 != 0) continue;
      const std::int64_t now = now_ns();
      if (idle_since == 0) idle_since = now;
      if (now - idle_since < state->spin_ns) continue;
    }
    sleep(*state);
    idle_since = 0;
    spin.reset();
  }
  leave_all(*state);
  const std::lock_guard lock(state->mutex);
  state->ended = true;
  state->changed.notify_all();
}

bool LaunchingThread::take_ready(State& state) {
  if (!state.attention.load(std::memory_order_relaxed)) return true;
  const std::lock_guard lock(state.mutex);
  if (state.stopping) return false;
  state.attention.store(false, std::memory_order_relaxed);
  state.taken.swap(state.ready);
  for (auto& stream : state.taken) {
    stream->queued_ring().consumer_.store(ConsumerState::kPolled, std::memory_order_relaxed);
    state.polled.push_back(std::move(stream));
  }
  state.taken.clear();
  return true;
}

bool LaunchingThread::pump_all(State& state) {
  bool any = false;
  for (std::size_t i = 0; i < state.polled.size();) {
    QueuedStream& stream = *state.polled[i];
    bool keep = true;
    if (stream.queued_ring().has_work() || stream.queued_ring().poked_.load(std::memory_order_relaxed)) {
      any = true;
      keep = pump_one(state, stream);
    } else if (state.polled[i].use_count() == 1) {
      keep = !let_go(state, stream);  // everybody else dropped it, and it has nothing to do
    }
    if (keep) {
      ++i;
      continue;
    }
    const std::shared_ptr<QueuedStream> gone = std::move(state.polled[i]);
    state.polled.erase(state.polled.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return any;
}

bool LaunchingThread::pump_one(State& state, QueuedStream& stream) {
  // Acquire: what a kick tells of was written before it.
  (void)stream.queued_ring().poked_.exchange(false, std::memory_order_acquire);
  if (stream.pump_turn() != Pumped::kStands) return true;
  const std::lock_guard lock(state.mutex);
  if (stream.queued_ring().poked_.load(std::memory_order_relaxed)) return true;  // it may be over meanwhile
  stream.queued_ring().consumer_.store(ConsumerState::kBlocked, std::memory_order_relaxed);
  return false;
}

bool LaunchingThread::let_go(State& state, QueuedStream& stream) {
  const std::lock_guard lock(state.mutex);
  if (stream.queued_ring().poked_.load(std::memory_order_relaxed)) return false;  // somebody got hold of it again
  stream.queued_ring().detach();
  return true;
}

void LaunchingThread::sleep(State& state) {
  Streams left;  // released without the lock
  {
    const std::lock_guard lock(state.mutex);
    if (state.attention.load(std::memory_order_relaxed)) return;
    for (std::size_t i = state.polled.size(); i-- > 0;) {
      QueuedStream& stream = *state.polled[i];
      QueuedRing& ring = stream.queued_ring();
      const std::uint64_t published =
          store_then_load_rare(ring.consumer_, ConsumerState::kDetached, ring.published_, ring.asymmetric_);
      if (published != ring.read_position.load(std::memory_order_relaxed) ||
          ring.poked_.load(std::memory_order_relaxed)) {
        ring.consumer_.store(ConsumerState::kPolled, std::memory_order_relaxed);
        continue;
      }
      left.push_back(std::move(state.polled[i]));
      state.polled.erase(state.polled.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!state.polled.empty()) return;
    state.asleep = true;
  }
  left.clear();
  state.parker.park(kNoDeadline);  // ended by a kick or by stop()
}

void LaunchingThread::leave_all(State& state) {
  Streams left;  // released without the lock
  {
    const std::lock_guard lock(state.mutex);
    left.swap(state.ready);
    for (auto& stream : state.polled) left.push_back(std::move(stream));
    state.polled.clear();
    for (const auto& stream : left) stream->queued_ring().detach();
  }
}

}  // namespace slipway::internal
