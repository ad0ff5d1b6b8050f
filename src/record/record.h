// The one description of work to do: a header and bytes behind it.
//
// Records lie 16-byte aligned, one after another, in a ring or a tape. They hold raw pointers; whoever
// submits keeps what they point to alive until the record has passed (device/retire.h). A record's sequence
// number is its place in its stream and is counted, not stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "slipway/signature.h"
#include "slipway/types.h"

namespace slipway::internal {

struct KernelCode;
class DriverEvent;
class ReplayProgram;

constexpr std::uint32_t kRecordAlignment = 16;
constexpr std::uint32_t kMaxArgumentBytes = 4096;

enum class RecordKind : std::uint8_t {
  kPad,           // fills the end of a ring; not counted
  kLaunch,        // LaunchRecord
  kCopy,          // CopyRecord
  kCopyInline,    // CopyRecord whose source bytes follow it
  kFill,          // FillRecord
  kHostFunction,  // HostFunctionRecord
  kEventMark,     // EventRecord
  kEventWait,     // EventRecord
  kGroup,         // GroupRecord; on tapes: waits for a gate, and brings what follows up to its values
  kOpenGate,      // GateRecord; on tapes: another branch may go on
  kCondition,     // ConditionRecord; on tapes: goes on at one of several places, by a value in device memory
  kJump,          // JumpRecord; on tapes: goes on elsewhere
  kReplay,        // ReplayRecord: walks a tape
  kCall,          // CallRecord; on tapes of programs: a launch whose blocks are called through a pointer
  kWaitGate,      // GateRecord; on tapes of devices with resettable gates: waits for the event
  kResetGate,     // GateRecord; likewise: resets it
  kUpdate,        // UpdateRecord; on the update streams of such devices
};

struct RecordHeader {
  std::uint32_t size_bytes = 0;  // with everything behind it, a multiple of kRecordAlignment
  RecordKind kind = RecordKind::kPad;
  std::uint8_t flags = 0;            // of the kind
  std::uint16_t payload_offset = 0;  // launches: where the packed arguments begin
};
static_assert(sizeof(RecordHeader) == 8);

// Launches of one block of one work item without scratch carry no extent: 16 bytes and the arguments, so that
// six pointers make one cache line.
constexpr std::uint8_t kLaunchHasExtent = 1;
constexpr std::uint8_t kLaunchSpread = 2;

struct LaunchRecord {
  RecordHeader header;
  const KernelCode* code;
};
static_assert(sizeof(LaunchRecord) == 16);

struct LaunchExtent {  // follows a LaunchRecord with kLaunchHasExtent
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(LaunchExtent) == 32);

// What a program makes of launches whose code needs no context and whose blocks need no scratch. Behind it everything
// lies as it did behind the launch.
struct CallRecord {
  RecordHeader header;
  KernelEntry entry;
};
static_assert(sizeof(CallRecord) == sizeof(LaunchRecord));

enum class CopyDirection : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

struct CopyRecord {
  RecordHeader header;  // flags: the CopyDirection
  std::uint64_t to;
  std::uint64_t from;  // unused by kCopyInline
  std::uint64_t bytes;
  void* staging;  // freed with free() once the copy has passed; may be null
};
static_assert(sizeof(CopyRecord) == 40);
constexpr std::uint32_t kCopyInlineOffset = 48;

struct FillRecord {
  RecordHeader header;  // flags: bytes of the pattern
  std::uint64_t to;
  std::uint64_t pattern;
  std::uint64_t count;
};

struct HostFunction {  // owned by its record; destroyed once it has run or was discarded
  std::function<void()> function;
  std::string name;
  // On tapes, instead of `function`: called with the native stream, if there is one, and the values of the step.
  std::function<void(void* native_stream, const std::byte* block)> external{};
  enum class Kind : std::uint8_t { kHost, kExternal, kOpaque, kForeign };  // the last: put on the native queue
  Kind kind = Kind::kHost;
  std::string registered{};          // of kExternal and kOpaque: the name in the process's registry, if any
  std::vector<std::byte> payload{};  // of kOpaque
};

struct HostFunctionRecord {
  RecordHeader header;
  HostFunction* payload;
};

struct EventRecord {
  RecordHeader header;
  DriverEvent* event;
  // Of waits, filled by the event itself when one is submitted: the mark that is meant, as its driver knows it. A mark
  // has in `mark` which of its event's marks it is, from 1.
  void* mark_source;
  std::uint64_t mark;
};

struct GroupRecord {
  RecordHeader header;
  std::uint32_t group;  // index into the program's groups
  std::uint32_t reserved;
};
static_assert(sizeof(GroupRecord) == 16);

struct GateRecord {
  RecordHeader header;
  std::uint32_t gate;
  std::uint32_t reserved;
};
static_assert(sizeof(GateRecord) == 16);

// A conditional node. The value's kind is in the flags, and how a body is chosen by it: by its truth (the first body
// where it is not zero, else the second or none), or by its number.
constexpr std::uint8_t kConditionBool = 0;
constexpr std::uint8_t kConditionI32 = 1;
constexpr std::uint8_t kConditionU32 = 2;
constexpr std::uint8_t kConditionKinds = 3;                                    // mask of these
constexpr DType kConditionTypes[] = {DType::kBool, DType::kI32, DType::kU32};  // by them
constexpr std::uint8_t kConditionIndexed = 4;                                  // by its number
constexpr std::uint8_t kConditionRepeated = 8;  // read again behind its body, which jumps back here

struct ConditionRecord {  // followed by body_count + 1 distances
  RecordHeader header;
  std::uint64_t address;
  std::uint32_t number;  // of the conditional node, in its tape
  std::uint32_t body_count;
  std::uint64_t reserved;
};
static_assert(sizeof(ConditionRecord) == 32);

struct JumpRecord {
  RecordHeader header;
  std::int32_t distance;  // in bytes, from this record; negative: another turn of a loop
  std::uint32_t reserved;
};
static_assert(sizeof(JumpRecord) == 16);

struct ReplayRecord {
  RecordHeader header;
  ReplayProgram* program;
  std::uint64_t step;
  std::uint64_t branch;  // 0: the one that ends the step
};
static_assert(sizeof(ReplayRecord) == 32);

enum class UpdateAction : std::uint8_t {
  kValues,   // the values behind the record become the program's
  kRewrite,  // they go to the places of a group
  kSet,      // a gate is set
  kWait,     // for the end of the step's replay
};
struct UpdateRecord {
  RecordHeader header;  // flags: the UpdateAction
  ReplayProgram* program;
  std::uint64_t step;
  std::uint32_t group;
  std::uint32_t bytes;  // of kValues
};
static_assert(sizeof(UpdateRecord) == 32);

inline std::uint32_t round_up_record(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment);
}

template <class T>
const T& record_cast(const RecordHeader& header) noexcept {
  return reinterpret_cast<const T&>(header);
}

inline const LaunchExtent* extent_of(const LaunchRecord& launch) noexcept {
  return (launch.header.flags & kLaunchHasExtent) != 0 ? reinterpret_cast<const LaunchExtent*>(&launch + 1) : nullptr;
}

inline const std::byte* arguments_of(const LaunchRecord& launch) noexcept {
  return reinterpret_cast<const std::byte*>(&launch) + launch.header.payload_offset;
}

// In bytes, from the condition, to each of its bodies and then to where none of them is taken.
inline const std::uint32_t* distances_of(const ConditionRecord& condition) noexcept {
  return reinterpret_cast<const std::uint32_t*>(&condition + 1);
}
inline std::uint32_t value_bytes_of(const ConditionRecord& condition) noexcept {
  return (condition.header.flags & kConditionKinds) == kConditionBool ? 1 : 4;
}
// Which body such a value, read as an unsigned number of its size, takes; as many as there are bodies: none. A negative
// number is a large one here.
inline std::uint32_t body_of(const ConditionRecord& condition, std::uint64_t value) noexcept {
  const std::uint64_t wanted = (condition.header.flags & kConditionIndexed) != 0 ? value : value == 0 ? 1 : 0;
  return static_cast<std::uint32_t>(wanted < condition.body_count ? wanted : condition.body_count);
}
// What sentences call it.
inline const char* name_of_condition(std::uint8_t flags) noexcept {
  if ((flags & kConditionRepeated) != 0) return "the condition of a 'while'";
  return (flags & kConditionIndexed) != 0 ? "the condition of a 'switch'" : "the condition of an 'if'";
}

}  // namespace slipway::internal
