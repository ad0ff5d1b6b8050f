// Launches of a tape whose blocks are called through a pointer.
#pragma once

#include <cstddef>
#include <string>

#include "engine/replay_program.h"
#include "record/kernel_code.h"
#include "record/record.h"

namespace slipway::internal {

// What the timeline calls a record (walker.cpp).
std::string name_of_record(const RecordHeader& header);

inline const RecordHeader& header_at(const std::byte* place) noexcept {
  return *reinterpret_cast<const RecordHeader*>(place);
}

// Of the launch at a place of a tape.
inline const KernelCode& code_at(const ReplayProgram& program, std::uint64_t branch, std::uint64_t step,
                                 const std::byte* place) noexcept {
  if (header_at(place).kind == RecordKind::kLaunch) return *record_cast<LaunchRecord>(header_at(place)).code;
  return program.code_of_call(branch, static_cast<std::uint64_t>(place - program.tape(branch, step)));
}

// What stands at a place of a tape is called.
inline std::string name_at(const ReplayProgram& program, std::uint64_t branch, std::uint64_t step,
                           const std::byte* place) {
  const RecordKind kind = header_at(place).kind;
  const bool is_launch = kind == RecordKind::kLaunch || kind == RecordKind::kCall;
  return is_launch ? code_at(program, branch, step, place).name : name_of_record(header_at(place));
}

inline void run_call(const CallRecord& call, KernelEntry entry) {
  const std::byte* const arguments = reinterpret_cast<const std::byte*>(&call) + call.header.payload_offset;
  if ((call.header.flags & kLaunchHasExtent) == 0) {
    static constexpr Block kOnlyBlock{};
    return entry(arguments, kOnlyBlock, nullptr);
  }
  const auto& extent = *reinterpret_cast<const LaunchExtent*>(&call + 1);
  Block block;
  block.grid = extent.grid;
  block.size = extent.block;
  if (block.grid.x == 0 || block.grid.y == 0) return;  // only an update can say so; the loops would turn for nothing
  for (; block.index.z < block.grid.z; ++block.index.z, block.index.y = 0) {
    for (; block.index.y < block.grid.y; ++block.index.y, block.index.x = 0) {
      for (; block.index.x < block.grid.x; ++block.index.x) entry(arguments, block, nullptr);
    }
  }
}

// The calls from here on; there is one. What the next one calls is read before this one runs, and so is known when
// this one returns: a processor that guessed the call wrongly finds out at once.
inline void run_calls(const std::byte*& at) {
  const std::byte* next = at;
  KernelEntry entry = record_cast<CallRecord>(header_at(next)).entry;
  for (bool more = true; more;) {
    at = next;
    const auto& call = record_cast<CallRecord>(header_at(next));
    next += call.header.size_bytes;
    more = header_at(next).kind == RecordKind::kCall;
    const KernelEntry following = record_cast<CallRecord>(header_at(next)).entry;
    run_call(call, entry);
    entry = following;
  }
  at = next;
}

}  // namespace slipway::internal
