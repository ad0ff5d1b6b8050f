// Threads of a simulation: they run one at a time on one thread of the system, and where a thread would sleep, the
// others go on. For tests that try orders of events; whoever runs such a simulation installs it on its own thread.
//
// Only places where a thread is about to sleep, start another or read the clock ask for it, so a launch pays nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace slipway::internal {

// What a simulated thread waits for, in the words of whoever would have to explain why it does not come.
struct SimulatedWait {
  const char* what = "";         // "progress", "lock", "signal"
  const void* object = nullptr;  // whose progress, which lock
  std::uint64_t number = 0;      // the progress that is waited for
};

class SimulatedThreads {
 public:
  // Lets others run until ready(context), or until the deadline (in simulated time): false then.
  virtual bool sleep(const SimulatedWait& wait, bool (*ready)(const void*), const void* context,
                     std::int64_t deadline_ns) = 0;
  virtual std::int64_t now_ns() = 0;
  // A thread that ends by itself, or that nobody waits for.
  virtual void start(std::function<void()> body, const char* name) = 0;
  // Others may run here. `what` and the numbers are for whoever checks the order of events.
  virtual void point(const char* what, const void* object, std::uint64_t step, std::uint32_t gate) = 0;
  virtual void locked(const void* lock, bool held) = 0;

 protected:
  ~SimulatedThreads() = default;
};

// A mutex that may be held while its holder sleeps. Uncontended it costs what std::mutex does.
class Mutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return note(true);
    lock_slow();
  }
  bool try_lock() {
    const bool taken = mutex_.try_lock();
    if (taken) note(true);
    return taken;
  }
  void unlock() {
    note(false);
    mutex_.unlock();
  }

 private:
  void note(bool held) {
    if (t_simulated) [[unlikely]]
      t_simulated->locked(this, held);
  }
  void lock_slow();
  std::mutex mutex_;
};

// A condition variable whose waits a simulation may take over.
class ConditionVariable {
 public:
  void notify() noexcept {
    if (t_simulated) notified_.fetch_add(1, std::memory_order_relaxed);  // one thread of the system: no order is needed
    changed_.notify_all();
  }
  // Without a limit: callers say what ends it.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (!ready()) {
      if (!simulated_wait(lock, kForever)) changed_.wait(lock);
    }
  }
  void wait_for(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time) {
    if (!simulated_wait(lock, time.count())) changed_.wait_for(lock, time);
  }

 private:
  static constexpr std::int64_t kForever = -1;
  bool simulated_wait(std::unique_lock<std::mutex>& lock, std::int64_t time_ns);
  std::atomic<std::uint64_t> notified_{0};
  std::condition_variable changed_;
};

// A thread that nobody joins.
void start_detached(std::function<void()> body, const char* name);
// For loops that look until something has changed: one look's pause.
void pause_between_looks() noexcept;

}  // namespace slipway::internal
