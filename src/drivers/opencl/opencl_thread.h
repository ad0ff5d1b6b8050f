// A thread of the driver that runs one task after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace slipway::internal {

class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // stops without waiting
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Makes post() work; later calls do nothing. Not from a callback of OpenCL: it creates the thread.
  void start();
  // Callable from anywhere, callbacks of OpenCL included: it takes one mutex that is never held for long. A task
  // posted after stop() is dropped.
  void post(std::function<void()> task);
  // Drops the tasks that wait, and waits for the one that runs. False: it still does at the deadline (now_ns() time),
  // or is the caller; the thread is then left to end by itself.
  bool stop(std::int64_t deadline_ns);

 private:
  struct State {
    std::mutex mutex;  // guards the rest; nothing is called or locked inside
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    bool stopping = false;
    bool ended = false;
  };
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // the thread's too, so that it may outlive this object
  std::mutex start_mutex_;        // guards thread_; the thread never takes it
  std::thread thread_;
};

}  // namespace slipway::internal
