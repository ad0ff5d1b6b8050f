// What happened, when, and why the fast path was not taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "slipway/export.h"

namespace slipway {

// Why a planned launch went through the general path, or a call took a slower turn.
enum class Reason : std::uint8_t {
  kGuardAlignment,    // a tensor's address is not aligned as the kernel was specialised for
  kGuardRange,        // an integer lies outside the range the kernel was specialised for
  kGuardDtype,        // a tensor's element type is not the one the kernel was specialised for
  kHookNeedsGeneral,  // a launch hook asks for the general path
  kBlockingMode,      // each submission waits (SLIPWAY_LAUNCH_BLOCKING or the option `blocking`)
  kTimeline,          // the timeline is on
  kStreamShared,      // a second thread submitted: the stream takes its lock from now on
  kRingFull,          // the caller waited for room
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

// One thing that happened. Times are nanoseconds of the steady clock; 0 means that the moment did not come, that it
// lies before the timeline was turned on, or that the driver cannot tell.
//
// Streams and graphs are shown by their names; a second one of the same name gets " (2)" behind it.
struct TimelineEntry {
  enum class Kind : std::uint8_t {
    kSubmission,  // a unit of work of a stream
    kNode,        // a node of a graph, inside the replay that `sequence` is
    kGateWait,    // that replay stood at a gate; `name` is the launch that needed it
    kUpdate,      // values or an operation were evaluated, and the gate was opened at the end. Without an end: refused
    kReason,      // a call left the fast path; `name` is the reason. Reason::kTimeline is counted only
  };
  Kind kind = Kind::kSubmission;
  std::string stream;          // none for updates
  std::string name;            // kernel, "copy", the graph, "values", an operation, ...
  std::string subject;         // the graph of replays, nodes, gate waits and updates; what a reason was about
  std::uint64_t sequence = 0;  // in the stream; none for updates and reasons
  std::uint64_t step = 0;      // of replays, nodes, gate waits and updates
  std::uint32_t gate = 0;      // of gate waits and updates; 0: that of the values, 1 + i: that of operation i
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

struct ChromeTraceOptions {
  std::string process = "slipway";  // what the viewer calls all of it
  std::uint64_t dropped = 0;        // as Device::stop_timeline() told
};

// A timeline in Chrome's trace-event format (JSON), for https://ui.perfetto.dev or chrome://tracing; see
// docs/traces.md. The same entries give the same bytes. Entries without a start or an end are shown as unfinished,
// and counted in `otherData` like those that were dropped.
SLIPWAY_API std::string chrome_trace(std::span<const TimelineEntry> timeline, const ChromeTraceOptions& options = {});

}  // namespace slipway
