// A fortified longjmp refuses to change stacks, which is what it is used for here.
#undef _FORTIFY_SOURCE
#include "simulator/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/thread_id.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
// The address sanitizer follows swapcontext; without it, jumps save its two system calls.
#if defined(__SANITIZE_ADDRESS__)
#define SLIPWAY_FIBERS_SWAP 1
#else
#define SLIPWAY_FIBERS_SWAP 0
#endif

namespace slipway::simulator {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* const stack =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(stack);
}

Fiber::~Fiber() { ::munmap(stack_, kStackBytes); }

void Fiber::swap_identity() {
  using internal::t_fast_thread_id, internal::t_in_callback, internal::t_own_thread_id;
  std::swap(t_fast_thread_id, identity_.fast_id);
  std::swap(t_own_thread_id, identity_.own_id);
  std::swap(t_in_callback, identity_.in_callback);
  void* handled[2];
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(handled, globals, sizeof handled);
  std::memcpy(globals, identity_.exceptions, sizeof handled);
  std::memcpy(identity_.exceptions, handled, sizeof handled);
}

void Fiber::enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(std::uintptr_t{low} | std::uintptr_t{high} << 32)->run();
}

void Fiber::run() noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_stack_bytes_);
#endif
  body_();
  ended_ = true;
  leave();
  std::abort();  // nobody resumes it
}

void Fiber::resume() {
  swap_identity();
#if defined(__SANITIZE_ADDRESS__)
  void* own = nullptr;
  __sanitizer_start_switch_fiber(&own, stack_, kStackBytes);
#endif
  const auto start = [&] {
    started_ = true;
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self),
                  static_cast<unsigned>(self >> 32));
  };
#if SLIPWAY_FIBERS_SWAP
  if (!started_) start();
  ::swapcontext(&caller_, &context_);
#else
  if (_setjmp(back_) == 0) {
    if (started_) _longjmp(here_, 1);
    start();
    ::setcontext(&context_);
  }
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
  swap_identity();
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  // An ended one gives up its fake stack for good.
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if SLIPWAY_FIBERS_SWAP
  ::swapcontext(&context_, &caller_);
#else
  if (_setjmp(here_) == 0) _longjmp(back_, 1);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace slipway::simulator
