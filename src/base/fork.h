// Forks. The child of a fork() has one thread and a copy of all memory: the threads of this library are not there, what
// they were doing is half done, and the locks that they held are held for ever. So whatever was opened before a fork
// is only ever refused or left behind in the child, without a look at its locks.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipway::internal {

// Forks between the first process that used the library and this one. Stored by a child's handler only, while the
// process has one thread, so relaxed.
extern std::atomic<std::uint32_t> g_forks;
inline std::uint32_t fork_count() noexcept { return g_forks.load(std::memory_order_relaxed); }

// From here on a child counts its fork, and the thread in it has another number (base/thread_id.h), so that it owns no
// stream of its parent's: the fast path needs no look at the fork. Once per process; later calls do nothing.
void watch_forks();

}  // namespace slipway::internal
