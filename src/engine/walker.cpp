#include "engine/walker.h"

namespace slipway::internal {

void discard_payload(const RecordHeader& header, DriverEnvironment& environment) {
  if (header.kind == RecordKind::kHostFunction) {
    delete record_cast<HostFunctionRecord>(header).payload;
  } else if (header.kind == RecordKind::kCopy) {
    const auto& record = record_cast<CopyRecord>(header);
    if (!record.staging) return;
    std::free(record.staging);
    environment.counters.staged_bytes.fetch_sub(record.bytes, std::memory_order_relaxed);
  }
}

void discard_lane(Lane& lane, DriverEnvironment& environment) {
  std::uint64_t at = lane.read_position.load(std::memory_order_relaxed);
  for (const std::uint64_t end = lane.published(); at != end;) {
    const RecordHeader& header = lane.at(at);
    // A host function that was handed to its thread is no longer the record's.
    const bool handed_over = header.kind == RecordKind::kHostFunction && lane.payload_handed_over;
    if (!handed_over) discard_payload(header, environment);
    lane.payload_handed_over = false;
    at += header.size_bytes;
  }
  lane.read_position.store(at, std::memory_order_relaxed);
}

std::string name_of_record(const RecordHeader& header) {
  switch (header.kind) {
    case RecordKind::kLaunch: return record_cast<LaunchRecord>(header).code->name;
    case RecordKind::kHostFunction: return record_cast<HostFunctionRecord>(header).payload->name;
    case RecordKind::kCopy:
    case RecordKind::kCopyInline: return "copy";
    case RecordKind::kFill: return "fill";
    case RecordKind::kEventMark: return "mark";
    case RecordKind::kEventWait: return "wait";
    case RecordKind::kGroup: return "group";
    case RecordKind::kOpenGate: return "gate";
    case RecordKind::kWaitGate: return "gate wait";
    case RecordKind::kResetGate: return "gate reset";
    case RecordKind::kUpdate: return "update";
    case RecordKind::kCondition: return name_of(record_cast<ConditionRecord>(header));
    case RecordKind::kJump: return "jump";
    case RecordKind::kReplay: return record_cast<ReplayRecord>(header).program->name();
    case RecordKind::kCall: return "call";  // its program knows more
    case RecordKind::kPad: break;
  }
  return "pad";
}

Status failure_of(const RecordHeader& header, const std::string& name, std::uint64_t sequence) {
  ErrorDetails details;
  details.code = ErrorCode::kKernelFailed;
  details.name = name;
  details.sequence = sequence;
  details.submitted = true;
  std::string what;
  try {
    throw;
  } catch (const Error& e) {
    details.code = e.code();
    what = e.what();
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "an exception that is not a std::exception";
  }
  const bool is_kernel = header.kind == RecordKind::kLaunch || header.kind == RecordKind::kCall;
  details.sentence = (is_kernel ? "kernel '" : "the work '") + details.name + "' (submission " +
                     std::to_string(sequence) + " of its stream) threw: " + what +
                     "; the rest of the stream was discarded, call recover() to use it again";
  return Status(std::move(details));
}

}  // namespace slipway::internal
