// A generic command object, as launch runtimes often have it: allocated for each launch, its arguments held by type,
// executed through a virtual call, handed to a worker through a mutex and a condition variable. The baseline of goal 7.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace bench {

class CommandQueue {
 public:
  using Value = std::variant<void*, std::int32_t, float>;
  using Kernel = std::function<void(const std::vector<Value>&)>;

  struct Command {
    virtual ~Command() = default;
    virtual void execute() = 0;
  };

  CommandQueue() : thread_([this] { main(); }) {}
  ~CommandQueue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_one();
    thread_.join();
  }
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  void launch(const std::shared_ptr<const Kernel>& kernel, std::vector<Value> arguments) {
    auto command = std::make_unique<Launch>(kernel, std::move(arguments));
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
      ++submitted_;
    }
    work_.notify_one();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return completed_ == submitted_; });
  }
  std::uint64_t completed() {
    const std::lock_guard lock(mutex_);
    return completed_;
  }

 private:
  struct Launch final : Command {
    Launch(std::shared_ptr<const Kernel> k, std::vector<Value> a) : kernel(std::move(k)), arguments(std::move(a)) {}
    void execute() override { (*kernel)(arguments); }
    std::shared_ptr<const Kernel> kernel;
    std::vector<Value> arguments;
  };

  void main() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !commands_.empty(); });
      if (commands_.empty()) return;
      std::unique_ptr<Command> command = std::move(commands_.front());
      commands_.pop_front();
      lock.unlock();
      command->execute();
      command.reset();
      lock.lock();
      if (++completed_ == submitted_) finished_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::deque<std::unique_ptr<Command>> commands_;
  std::uint64_t submitted_ = 0, completed_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace bench
