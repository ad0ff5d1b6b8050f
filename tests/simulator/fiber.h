// A stack of its own that runs until it gives up the thread: what a simulated thread is made of.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace slipway::simulator {

// Resumed by whoever owns it, on one thread of the system; gives up with leave(). Its body runs once. Dropped before
// that has ended, it leaves what lies on its stack behind.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();
  void leave();  // by the fiber itself
  bool ended() const noexcept { return ended_; }

 private:
  static void enter(unsigned low, unsigned high);
  void run() noexcept;
  void swap_identity();

  // What the system keeps for a thread, and each of these needs for itself.
  struct Identity {
    std::uint64_t fast_id = 0, own_id = 0;
    bool in_callback = false;
    void* exceptions[2] = {nullptr, nullptr};  // that are being handled
  };

  std::function<void()> body_;
  std::byte* stack_ = nullptr;
  ucontext_t context_{}, caller_{};
  jmp_buf here_{}, back_{};
  bool started_ = false;
  bool ended_ = false;
  Identity identity_;
  // For the sanitizers, which have to know of stacks.
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace slipway::simulator
