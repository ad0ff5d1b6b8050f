// Who is calling: a number per thread that is never reused, and whether the thread is inside a callback.
#pragma once

#include <cstdint>

namespace slipway::internal {

// 0 until thread_id() was called on this thread, and again while it runs a kernel or host function: so the
// one comparison that the fast path makes with a stream's owner also turns away calls from inside callbacks.
// initial-exec: one instruction to read it, no call.
extern thread_local constinit std::uint64_t t_fast_thread_id __attribute__((tls_model("initial-exec")));
extern thread_local constinit bool t_in_callback __attribute__((tls_model("initial-exec")));
// This thread's number wherever it is; 0 until it was asked for.
extern thread_local constinit std::uint64_t t_own_thread_id __attribute__((tls_model("initial-exec")));

// This thread's number, from 1 upwards, given on first use. In a callback it leaves the fast one 0.
std::uint64_t give_thread_id() noexcept;
inline std::uint64_t thread_id() noexcept { return t_fast_thread_id != 0 ? t_fast_thread_id : give_thread_id(); }
// In the child of a fork: this thread gets a new one when it next asks, and so owns nothing of its parent's.
void forget_thread_id() noexcept;

// Marks the time in which user code (a kernel, a host function) runs on this thread. Nests.
class CallbackScope {
 public:
  CallbackScope() noexcept : saved_id_(t_fast_thread_id), saved_in_(t_in_callback) {
    t_fast_thread_id = 0;
    t_in_callback = true;
  }
  ~CallbackScope() {
    // Not simply what it was before: the callback may have forked, and this be the child.
    t_fast_thread_id = saved_id_ == 0 ? 0 : t_own_thread_id;
    t_in_callback = saved_in_;
  }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  std::uint64_t saved_id_;
  bool saved_in_;
};

}  // namespace slipway::internal
