#include "base/simulated.h"

#include <thread>
#include <utility>

#include "base/clock.h"

namespace slipway::internal {

thread_local constinit SimulatedThreads* t_simulated = nullptr;

std::int64_t simulated_now_ns() noexcept { return t_simulated->now_ns(); }

void Mutex::lock_slow() {
  if (!t_simulated) return mutex_.lock();
  // On one thread of the system, so the attempt itself is the look.
  const auto taken = [](const void* mutex) {
    return const_cast<std::mutex*>(static_cast<const std::mutex*>(mutex))->try_lock();
  };
  t_simulated->sleep({"lock", this, 0}, taken, &mutex_, kNoDeadline);
  note(true);
}

bool ConditionVariable::simulated_wait(std::unique_lock<std::mutex>& lock, std::int64_t time_ns) {
  SimulatedThreads* const simulation = t_simulated;
  if (!simulation) return false;
  struct Look {
    const std::atomic<std::uint64_t>& notified;
    std::uint64_t seen;
  };
  const Look look{notified_, notified_.load(std::memory_order_relaxed)};
  lock.unlock();
  const auto changed = [](const void* context) {
    const Look& l = *static_cast<const Look*>(context);
    return l.notified.load(std::memory_order_relaxed) != l.seen;
  };
  simulation->sleep({"signal", this, 0}, changed, &look, time_ns < 0 ? kNoDeadline : simulation->now_ns() + time_ns);
  lock.lock();
  return true;
}

void start_detached(std::function<void()> body, const char* name) {
  if (t_simulated) t_simulated->start(std::move(body), name);
  else std::thread(std::move(body)).detach();
}

void pause_between_looks() noexcept {
  if (t_simulated) t_simulated->point("look", nullptr, 0, 0);
  else std::this_thread::yield();
}

}  // namespace slipway::internal
