#include "slipway/trace.h"

namespace slipway {

const char* name_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::kGuardAlignment: return "guard_alignment";
    case Reason::kGuardRange: return "guard_range";
    case Reason::kGuardDtype: return "guard_dtype";
    case Reason::kHookNeedsGeneral: return "hook_needs_general";
    case Reason::kBlockingMode: return "blocking_mode";
    case Reason::kTimeline: return "timeline";
    case Reason::kStreamShared: return "stream_shared";
    case Reason::kRingFull: return "ring_full";
    case Reason::kCount: break;
  }
  return "unknown";
}

}  // namespace slipway
