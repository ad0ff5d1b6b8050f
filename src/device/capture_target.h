// Where submissions of a stream go while it is captured. The graph layer implements it; the device layer knows
// nothing more of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "record/record.h"
#include "slipway/argument.h"

namespace slipway::internal {

class StreamImpl;
class EventImpl;
struct KernelImpl;
struct MemoryImpl;

// An argument or the grid of a launch that takes the value of a parameter.
struct ParameterUse {
  static constexpr std::uint32_t kGrid = ~std::uint32_t{0};
  std::uint32_t slot;       // argument's position, or kGrid
  std::uint32_t parameter;  // its number in the capture
};

class CaptureTarget {
 public:
  virtual ~CaptureTarget() = default;

  // All throw Error when the capture cannot keep what is submitted, and the capture is then invalid.
  virtual void append(StreamImpl& stream, const std::byte* record, std::uint32_t bytes, const std::string& name,
                      std::span<const ParameterUse> uses) = 0;
  virtual void mark(StreamImpl& stream, EventImpl& event) = 0;
  // `stream` is captured already, or joins.
  virtual void wait(StreamImpl& stream, EventImpl& event) = 0;
  // Memory that its thread allocated meanwhile: the graph's own.
  virtual void keep(std::shared_ptr<MemoryImpl> memory) = 0;
  // What must not be done now: synchronising, querying, holding; of an event that was marked here also marking it
  // elsewhere. Throws. The capture is invalid afterwards if its own thread did it: what it went on to do may rest on an
  // answer that it did not get. Other threads only get the refusal.
  [[noreturn]] virtual void refuse(StreamImpl& stream, const char* what) = 0;
  [[noreturn]] virtual void refuse_event(const char* what) = 0;
  // The value with which a parameter is recorded, as an argument; checks that it is this capture's.
  virtual Argument initial_value(const Argument& parameter) = 0;
};

}  // namespace slipway::internal
