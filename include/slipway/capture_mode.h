// What a thread must not do while work is captured.
//
// A capture never disturbs other work, and other work never disturbs a capture. What the modes forbid is waiting for
// the device's work, because what a program reads after such a wait is frozen into the graph and not read again by its
// replays. docs/graphs.md lists the calls.
#pragma once

#include <cstdint>

#include "slipway/export.h"

namespace slipway {

enum class CaptureMode : std::uint8_t {
  kGlobal,       // no thread may wait for work of the device while the capture is open
  kThreadLocal,  // the thread that began it may not
  kRelaxed,      // any may; and any thread may end the capture
};

// "Global", "ThreadLocal", "Relaxed". The string lives as long as the program.
SLIPWAY_API const char* name_of(CaptureMode mode) noexcept;

// Sets this thread's own mode while it lives. A thread begins with kGlobal and then obeys all captures that concern
// it. With kThreadLocal it obeys its own captures and not the global ones of other threads; with kRelaxed, none.
// Nests; to be destroyed by the thread that made it, in the opposite order.
class SLIPWAY_API CaptureModeScope {
 public:
  explicit CaptureModeScope(CaptureMode mode) noexcept : before_(exchange(mode)) {}
  ~CaptureModeScope() { (void)exchange(before_); }
  CaptureModeScope(const CaptureModeScope&) = delete;
  CaptureModeScope& operator=(const CaptureModeScope&) = delete;

  static CaptureMode current() noexcept;  // this thread's

 private:
  static CaptureMode exchange(CaptureMode mode) noexcept;
  CaptureMode before_;
};

}  // namespace slipway
