// What happened, when, and why the fast path was not taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "slipway/export.h"

namespace slipway {

// Why a planned launch went through the general path, or a call took a slower turn.
enum class Reason : std::uint8_t {
  kGuardAlignment,  // a tensor's address is not aligned as the kernel was specialised for
  kGuardRange,      // an integer lies outside the range the kernel was specialised for
  kGuardDtype,      // a tensor's element type is not the one the kernel was specialised for
  kBlockingMode,    // each submission waits (SLIPWAY_LAUNCH_BLOCKING or the option `blocking`)
  kTimeline,        // the timeline is on
  kStreamShared,    // a second thread submitted: the stream takes its lock from now on
  kRingFull,        // the caller waited for room
  kCount,
};
constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::kCount);

// "guard_alignment", ... The string lives as long as the program.
SLIPWAY_API const char* name_of(Reason reason) noexcept;

// Totals of one device since it was opened. Reading them from any thread is safe; figures of a stream that is
// being submitted to may lag by the submission under way.
struct Counters {
  std::uint64_t general_launches = 0;
  std::uint64_t planned_launches = 0;  // that took the fast path
  std::uint64_t empty_launches = 0;    // with a zero in grid or block: nothing ran
  std::uint64_t copies = 0;
  std::uint64_t fills = 0;
  std::uint64_t host_functions = 0;
  std::uint64_t event_marks = 0;
  std::uint64_t event_waits = 0;
  std::uint64_t modules_loaded = 0;
  std::uint64_t modules_unloaded = 0;
  std::uint64_t live_memory_bytes = 0;  // of this device, allocated and not yet freed
  std::uint64_t staged_bytes = 0;       // host copies held until their copy has passed
  std::array<std::uint64_t, kReasonCount> reasons{};

  std::uint64_t operator[](Reason reason) const noexcept { return reasons[static_cast<std::size_t>(reason)]; }
};

// One unit of work. Times are nanoseconds of the steady clock; 0 means that the moment did not come, or that
// the driver cannot tell.
struct TimelineEntry {
  enum class Kind : std::uint8_t {
    kSubmission,  // a unit of work of a stream
    kNode,        // a node of a graph, inside the replay that `sequence` is
    kGateWait,    // a replay stood at a gate
    kUpdate,      // values or an operation were evaluated and published
    kReason,      // a call left the fast path; `name` is the reason
  };
  Kind kind = Kind::kSubmission;
  std::string stream;  // updates: the graph
  std::string name;
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;  // of nodes, gates and updates
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

}  // namespace slipway
