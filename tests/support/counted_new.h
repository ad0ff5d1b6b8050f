// Replaces the global allocation functions of a test program, so that the n-th allocation of a thread fails. Included
// by one source file.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace slipway::test {

// Allocations that this thread may still make before one fails; 0: none fails. `seen` counts while it is armed.
struct AllocationFaults {
  bool armed = false;
  bool fired = false;
  std::uint64_t left = 0;
  std::uint64_t seen = 0;
};
inline thread_local AllocationFaults t_allocations;

inline void* counted(std::size_t bytes, std::size_t alignment) {
  AllocationFaults& faults = t_allocations;
  if (faults.armed) {
    ++faults.seen;
    if (faults.left != 0 && --faults.left == 0) {
      faults.fired = true;
      throw std::bad_alloc();
    }
  }
  bytes = bytes == 0 ? 1 : bytes;
  void* memory = alignment == 0 ? std::malloc(bytes)
                                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace slipway::test

void* operator new(std::size_t bytes) { return slipway::test::counted(bytes, 0); }
void* operator new[](std::size_t bytes) { return slipway::test::counted(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return slipway::test::counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return slipway::test::counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
// Out of line: a compiler that sees through them calls it a mismatch of new and free.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
