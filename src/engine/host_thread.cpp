#include "engine/host_thread.h"

#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/thread_id.h"

namespace slipway::internal {

std::shared_ptr<HostFunction> bind_kept(HostFunction& kept, void* native_stream, const std::byte* block) {
  if (!kept.external) return {&kept, [](HostFunction*) {}};
  return std::make_shared<HostFunction>(
      HostFunction{[&kept, native_stream, block] { kept.external(native_stream, block); }, kept.name});
}

Status run_host_function(HostFunction& function, std::uint64_t sequence) {
  ErrorDetails details;
  try {
    const CallbackScope scope;
    function.function();
    return {};
  } catch (const std::exception& e) {
    details.sentence = e.what();
  } catch (...) {
    details.sentence = "an exception that is not a std::exception";
  }
  details.code = ErrorCode::kKernelFailed;
  details.name = function.name;
  details.sequence = sequence;
  details.submitted = true;
  details.sentence = "the host function '" + function.name + "' (submission " + std::to_string(sequence) +
                     " of its stream) threw: " + details.sentence +
                     "; the rest of the stream was discarded, call recover() to use it again";
  return Status(std::move(details));
}

HostThread::~HostThread() {
  if (!thread_.joinable()) return;
  // stop() was not called or gave up: only its owner knows whether the thread may still touch us.
  thread_.detach();
}

Status HostThread::start() {
  if (started_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  if (stepped_ || thread_.joinable()) return {};
  try {
    thread_ = std::thread([this] { main(); });
    started_.store(true, std::memory_order_relaxed);
  } catch (const std::system_error& error) {
    return {ErrorCode::kOutOfMemory, std::string("the thread for host functions could not be started (") +
                                         error.what() + "); end other threads"};
  }
  return {};
}

void HostThread::post(std::shared_ptr<HostFunction> function, std::uint64_t sequence,
                      std::function<void(Status)> done) {
  const std::lock_guard lock(mutex_);
  items_.push_back({std::move(function), sequence, std::move(done)});
  changed_.notify_one();
}

void HostThread::run(Item item) {
  Status outcome = run_host_function(*item.function, item.sequence);
  {
    const CallbackScope scope;  // destructors of captured data are the user's code too
    item.function.reset();
  }
  item.done(std::move(outcome));
}

bool HostThread::has_posted() {
  const std::lock_guard lock(mutex_);
  return !items_.empty();
}

void HostThread::run_next() {
  Item item;
  {
    const std::lock_guard lock(mutex_);
    item = std::move(items_.front());
    items_.pop_front();
  }
  run(std::move(item));
}

void HostThread::main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !items_.empty(); });  // ended by stop()
    if (stopping_) break;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    run(std::move(item));
    lock.lock();
  }
  exited_ = true;
  changed_.notify_all();
}

bool HostThread::stop(std::int64_t deadline_ns) {
  std::deque<Item> dropped;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    dropped.swap(items_);
    changed_.notify_all();
    if (!thread_.joinable()) return true;
    const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns));
    if (!changed_.wait_until(lock, until, [&] { return exited_; })) return false;
  }
  thread_.join();
  return true;
}

}  // namespace slipway::internal
