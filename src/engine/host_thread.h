// The thread on which host functions run, so that they never hold up a worker. Started by the first one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "record/record.h"

namespace slipway::internal {

// Runs the function and tells what came of it. What it threw becomes KernelFailed, naming it.
Status run_host_function(HostFunction& function, std::uint64_t sequence);

// A host function that a tape keeps, to be run once, for one step.
std::shared_ptr<HostFunction> bind_kept(HostFunction& kept, void* native_stream, const std::byte* block);

class HostThread {
 public:
  ~HostThread();

  // Before each post(): makes it work. OutOfMemory where the thread cannot be had.
  Status start();
  // Takes its share of the payload over. `done` is called on the host thread, after the payload was destroyed.
  void post(std::shared_ptr<HostFunction> function, std::uint64_t sequence, std::function<void(Status)> done);

  // A stepped engine's: there is no thread, and run_next() runs what is posted.
  void set_stepped(bool stepped) noexcept { stepped_ = stepped; }
  bool has_posted();
  void run_next();

  // Finishes the function that runs, drops the rest (their `done` is not called). False when it is still busy
  // at the deadline: the thread is then left alone, and what it may touch must be leaked.
  bool stop(std::int64_t deadline_ns);

 private:
  struct Item {
    std::shared_ptr<HostFunction> function;
    std::uint64_t sequence;
    std::function<void(Status)> done;
  };
  void main();
  static void run(Item item);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::thread thread_;
  // Stored under mutex_ and read without: it only says that start() has nothing left to do, and post() takes the mutex.
  std::atomic<bool> started_{false};
  bool stepped_ = false;
  bool stopping_ = false;
  bool exited_ = false;
};

}  // namespace slipway::internal
