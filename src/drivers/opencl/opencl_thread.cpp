#include "drivers/opencl/opencl_thread.h"

#include <chrono>
#include <utility>

namespace slipway::internal {

TaskThread::TaskThread() : state_(std::make_shared<State>()) {}

TaskThread::~TaskThread() { (void)stop(0); }

void TaskThread::start() {
  const std::lock_guard start_lock(start_mutex_);
  if (thread_.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return;
  }
  thread_ = std::thread([state = state_] { run(state); });
}

void TaskThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return;
    state_->tasks.push_back(std::move(task));
  }
  state_->changed.notify_all();
}

bool TaskThread::stop(std::int64_t deadline_ns) {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  const std::lock_guard start_lock(start_mutex_);
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->tasks);
    state_->changed.notify_all();
    if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) {
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

void TaskThread::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->tasks.empty(); });
    if (state->stopping) break;
    {
      std::function<void()> task = std::move(state->tasks.front());
      state->tasks.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace slipway::internal
