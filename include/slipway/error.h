// How Slipway fails: one exception type, with everything a caller needs to decide what to do next.
//
// Public functions throw Error and nothing else of their own; std::bad_alloc is passed on for host memory.
// Destructors never throw. An Error is cheap to copy and may be handed between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "slipway/export.h"

namespace slipway {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,     // the caller passed something that no state of the device could accept
  kOutOfRange,          // an offset, size or index beyond what it refers to
  kOutOfMemory,         // the device or the host has no more of it
  kUnavailable,         // the driver, its library or the device is not there
  kUnsupported,         // the device cannot express this; the message names what
  kFailedPrecondition,  // right in itself, wrong in this state (a failed stream, an unmarked event)
  kStaleAddress,        // memory that a graph or plan refers to was freed or moved
  kStaleContext,        // made before a device reset, or its device is closed
  kInvalidNode,         // a node, group or parameter of another graph
  kBusy,                // in use in a way that does not allow this now
  kWouldDeadlock,       // this call would wait for something that only this thread can do
  kKernelFailed,        // a kernel or host function threw
  kDeviceLost,          // the device faulted; Device::reset() is needed
  kTimeout,             // a limit ran out
  kCancelled,           // a step was cancelled, or work behind a failure was discarded
  kInternal,            // a bug in Slipway or in a driver
};

// "InvalidArgument", ... The string lives as long as the program.
SLIPWAY_API const char* name_of(ErrorCode code) noexcept;

namespace internal {
struct ErrorDetails;
}

class SLIPWAY_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence);
  explicit Error(std::shared_ptr<const internal::ErrorDetails> details);
  ~Error() override;
  Error(const Error&) noexcept;
  Error& operator=(const Error&) noexcept;

  // what(): the full sentence, beginning with the code's name.
  ErrorCode code() const noexcept;
  // The kernel or graph that the error is about; empty when it is about none.
  const std::string& name() const noexcept;
  // Which submission of its stream failed, counted from 1; 0 when it is about none.
  std::uint64_t sequence() const noexcept;
  // May the device have received the work? Then nothing may be run again by another route.
  bool submitted() const noexcept;
  // Would the same call fail again for the same reason?
  bool stable() const noexcept;

  const std::shared_ptr<const internal::ErrorDetails>& details() const noexcept { return details_; }

 private:
  std::shared_ptr<const internal::ErrorDetails> details_;
};

}  // namespace slipway
