#include "base/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace slipway::internal {
namespace {

bool register_membarrier() noexcept {
#if defined(SLIPWAY_NO_MEMBARRIER)
  return false;
#else
  const long supported = ::syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (supported < 0 || (supported & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return false;
  return ::syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

bool asymmetric_fences() noexcept {
  static const bool available = register_membarrier();
  return available;
}

void register_fences_again() noexcept {
  if (asymmetric_fences()) (void)register_membarrier();
}

void process_wide_barrier() noexcept { ::syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }

}  // namespace slipway::internal
