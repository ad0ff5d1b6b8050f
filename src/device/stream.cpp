#include "slipway/stream.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "device/handles.h"

namespace slipway {

using internal::CopyDirection;
using internal::CopyRecord;
using internal::deref;
using internal::RecordKind;
using internal::StreamCounters;
using internal::StreamImpl;

namespace internal {

void refuse_captured_stream(const StreamImpl& stream, const std::string& what) {
  if (!stream.capture()) return;
  throw Error(ErrorCode::kFailedPrecondition,
              what + " on the stream '" + stream.name() + "', which is being captured; end the capture first");
}

void check_same_device(const DeviceImpl& mine, const DeviceImpl& theirs, const char* what) {
  if (&mine == &theirs) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " belongs to the device '" + theirs.info().uri +
                                               "' (number " + std::to_string(theirs.id()) + "), and not to '" +
                                               mine.info().uri + "' (number " + std::to_string(mine.id()) +
                                               "); use things of one device together");
}

namespace {

template <class Record>
const std::byte* bytes_of(const Record& record) noexcept {
  return reinterpret_cast<const std::byte*>(&record);
}

void count_copy(StreamCounters& counters) { counters.copies.add(); }

CopyRecord copy_record(CopyDirection direction, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  CopyRecord record{};
  record.header = {round_up_record(sizeof(CopyRecord)), RecordKind::kCopy, static_cast<std::uint8_t>(direction), 0};
  record.to = to;
  record.from = from;
  record.bytes = bytes;
  return record;
}

// A copy record as it is submitted: a multiple of kRecordAlignment.
struct alignas(kRecordAlignment) PaddedCopy {
  std::byte bytes[kCopyInlineOffset] = {};
  const std::byte* data() const noexcept { return bytes; }
  static constexpr std::uint32_t size() noexcept { return kCopyInlineOffset; }
};
PaddedCopy padded(const CopyRecord& record) {
  PaddedCopy copy;
  std::memcpy(copy.bytes, &record, sizeof record);
  return copy;
}

void submit_copy(StreamImpl& stream, const CopyRecord& record) {
  const PaddedCopy copy = padded(record);
  stream.submit(copy.data(), copy.size(), "copy", count_copy);
}

void check_host_pointer(const void* pointer, std::uint64_t bytes, const char* what) {
  if (pointer) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " is null and " + std::to_string(bytes) +
                                               " bytes were to be copied; pass memory of that size");
}

void check_device_range(StreamImpl& stream, const char* what, DevicePtr address, std::uint64_t bytes) {
  DeviceImpl& device = stream.device();
  device.check_process("a copy or fill");
  // Where device memory is not the host's, an address that we do not know cannot be reached at all.
  device.addresses()
      .check_range(what, static_cast<std::uint64_t>(address), bytes, !device.info().host_addressable)
      .throw_if_error();
}

std::uint64_t host_address_of(StreamImpl& stream, const HostMemory& memory, std::uint64_t offset, std::uint64_t bytes) {
  HostMemoryImpl& impl = deref(memory, "the host memory");
  check_same_device(stream.device(), *impl.device, "the host memory");
  if (offset > impl.bytes || bytes > impl.bytes - offset) {
    throw Error(ErrorCode::kOutOfRange, "a copy of " + std::to_string(bytes) + " bytes at offset " +
                                            std::to_string(offset) + " leaves the host memory of " +
                                            std::to_string(impl.bytes) + " bytes; make it shorter");
  }
  return reinterpret_cast<std::uint64_t>(impl.data) + offset;
}

}  // namespace
}  // namespace internal

void Stream::launch_arguments(const Kernel& kernel, const LaunchShape& shape,
                              std::span<const Argument> arguments) const {
  StreamImpl& stream = deref(*this, "the stream");
  internal::KernelImpl& k = deref(kernel, "the kernel");
  check_same_device(stream.device(), *k.device, "the kernel");
  stream.device().check_usable("a launch", k.generation);
  launch_general(stream, k, internal::check_shape(stream.device().info(), k.code->name, shape), arguments);
}

void Stream::copy_to_device(DevicePtr to, const void* from, std::uint64_t bytes) const {
  StreamImpl& stream = deref(*this, "the stream");
  if (bytes == 0) return stream.check_open();
  internal::check_device_range(stream, "the destination", to, bytes);
  internal::check_host_pointer(from, bytes, "the source");
  CopyRecord record = internal::copy_record(CopyDirection::kHostToDevice, static_cast<std::uint64_t>(to), 0, bytes);
  if (bytes <= internal::kMaxArgumentBytes) {
    alignas(internal::kRecordAlignment) std::byte whole[internal::kCopyInlineOffset + internal::kMaxArgumentBytes];
    record.header.kind = RecordKind::kCopyInline;
    record.header.size_bytes = internal::round_up_record(internal::kCopyInlineOffset + bytes);
    std::memcpy(whole, &record, sizeof record);
    std::memcpy(whole + internal::kCopyInlineOffset, from, bytes);
    stream.submit(whole, record.header.size_bytes, "copy", internal::count_copy);
    return;
  }
  std::unique_ptr<void, decltype(&std::free)> staging(std::malloc(bytes), &std::free);
  if (!staging) {
    throw Error(ErrorCode::kOutOfMemory, "a host buffer of " + std::to_string(bytes) +
                                             " bytes for staging a copy cannot be had; copy in parts, or use "
                                             "copy_to_device_async with host memory of the device");
  }
  std::memcpy(staging.get(), from, bytes);
  record.from = reinterpret_cast<std::uint64_t>(staging.get());
  record.staging = staging.get();
  auto& staged = stream.device().counters().staged_bytes;
  staged.fetch_add(bytes, std::memory_order_relaxed);
  try {
    // Once it is in the record, whoever executes or discards it frees it; until then it is ours.
    const auto padded = internal::padded(record);
    stream.submit_owning([&] { (void)staging.release(); }, padded.data(), padded.size(), "copy", internal::count_copy);
  } catch (...) {
    if (staging) staged.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

void Stream::copy_to_host(void* to, DevicePtr from, std::uint64_t bytes) const {
  StreamImpl& stream = deref(*this, "the stream");
  if (bytes == 0) return stream.check_open();
  internal::check_device_range(stream, "the source", from, bytes);
  internal::check_host_pointer(to, bytes, "the destination");
  internal::submit_copy(stream, internal::copy_record(CopyDirection::kDeviceToHost, reinterpret_cast<std::uint64_t>(to),
                                                      static_cast<std::uint64_t>(from), bytes));
}

void Stream::copy(DevicePtr to, DevicePtr from, std::uint64_t bytes) const {
  StreamImpl& stream = deref(*this, "the stream");
  if (bytes == 0) return stream.check_open();
  internal::check_device_range(stream, "the destination", to, bytes);
  internal::check_device_range(stream, "the source", from, bytes);
  const auto a = static_cast<std::uint64_t>(to), b = static_cast<std::uint64_t>(from);
  if (a < b + bytes && b < a + bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                "a copy of " + std::to_string(bytes) + " bytes between addresses that are " +
                    std::to_string(a < b ? b - a : a - b) + " bytes apart overlaps itself; copy through another block");
  }
  internal::submit_copy(stream, internal::copy_record(CopyDirection::kDeviceToDevice, a, b, bytes));
}

void Stream::copy_to_device_async(DevicePtr to, const HostMemory& from, std::uint64_t from_offset,
                                  std::uint64_t bytes) const {
  StreamImpl& stream = deref(*this, "the stream");
  const std::uint64_t source = internal::host_address_of(stream, from, from_offset, bytes);
  if (bytes == 0) return stream.check_open();
  internal::check_device_range(stream, "the destination", to, bytes);
  internal::submit_copy(
      stream, internal::copy_record(CopyDirection::kHostToDevice, static_cast<std::uint64_t>(to), source, bytes));
}

void Stream::copy_to_host_async(const HostMemory& to, std::uint64_t to_offset, DevicePtr from,
                                std::uint64_t bytes) const {
  StreamImpl& stream = deref(*this, "the stream");
  const std::uint64_t target = internal::host_address_of(stream, to, to_offset, bytes);
  if (bytes == 0) return stream.check_open();
  internal::check_device_range(stream, "the source", from, bytes);
  internal::submit_copy(
      stream, internal::copy_record(CopyDirection::kDeviceToHost, target, static_cast<std::uint64_t>(from), bytes));
}

void Stream::fill(DevicePtr to, std::uint64_t pattern, std::uint32_t pattern_bytes, std::uint64_t count) const {
  StreamImpl& stream = deref(*this, "the stream");
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    throw Error(ErrorCode::kInvalidArgument,
                "a fill pattern of " + std::to_string(pattern_bytes) + " bytes was given; patterns have 1, 2, 4 or 8");
  }
  if (pattern_bytes < 8 && (pattern >> (8 * pattern_bytes)) != 0) {
    throw Error(ErrorCode::kInvalidArgument, "the fill pattern " + std::to_string(pattern) + " does not fit " +
                                                 std::to_string(pattern_bytes) + " bytes; give a wider pattern");
  }
  if (count > std::numeric_limits<std::uint64_t>::max() / pattern_bytes) {
    throw Error(ErrorCode::kOutOfRange, "a fill of " + std::to_string(count) + " patterns of " +
                                            std::to_string(pattern_bytes) +
                                            " bytes is larger than any memory; "
                                            "check the count");
  }
  const auto address = static_cast<std::uint64_t>(to);
  if (count == 0) return stream.check_open();
  internal::check_device_range(stream, "the destination", to, count * pattern_bytes);
  if (address % pattern_bytes != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a fill with a pattern of " + std::to_string(pattern_bytes) + " bytes begins at an address that is " +
                    std::to_string(address % pattern_bytes) + " past a multiple of it; align the destination");
  }
  internal::FillRecord record{};
  record.header = {internal::round_up_record(sizeof record), RecordKind::kFill,
                   static_cast<std::uint8_t>(pattern_bytes), 0};
  record.to = address;
  record.pattern = pattern;
  record.count = count;
  static_assert(sizeof record % internal::kRecordAlignment == 0);
  stream.submit(internal::bytes_of(record), record.header.size_bytes, "fill",
                [](StreamCounters& counters) { counters.fills.add(); });
}

void Stream::host_function(std::function<void()> function, std::string name) const {
  StreamImpl& stream = deref(*this, "the stream");
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument, "the host function '" + name + "' is empty; pass something to call");
  }
  if (name.empty()) name = "host function";
  auto payload = std::make_unique<internal::HostFunction>(internal::HostFunction{std::move(function), name});
  internal::HostFunctionRecord record{};
  record.header = {sizeof record, RecordKind::kHostFunction, 0, 0};
  record.payload = payload.get();
  static_assert(sizeof record % internal::kRecordAlignment == 0);
  stream.submit_owning([&] { (void)payload.release(); }, internal::bytes_of(record), sizeof record, name,
                       [](StreamCounters& counters) { counters.host_functions.add(); });
}

void Stream::mark(const Event& event) const {
  StreamImpl& stream = deref(*this, "the stream");
  internal::EventImpl& e = deref(event, "the event");
  check_same_device(stream.device(), *e.device, "the event");
  stream.device().check_usable("an event mark", e.generation);
  internal::EventRecord record{};
  record.header = {sizeof record, RecordKind::kEventMark, 0, 0};
  record.event = e.driver_event.get();
  stream.check_settling();
  std::unique_lock lock(e.mutex);
  if (const auto target = stream.capture()) return target->mark(stream, e);
  if (const auto target = e.captured_by.lock()) target->refuse_event("marking it on a stream that is not captured");
  e.captured_by.reset();
  record.mark = ++e.marks;
  const std::uint64_t sequence = stream.submit_unsettled([] {}, internal::bytes_of(record), sizeof record, "mark",
                                                         [](StreamCounters& counters) { counters.event_marks.add(); });
  e.driver_event->marked(stream.driver_stream(), sequence);
  lock.unlock();  // whoever is waited for may look at the event
  stream.settle();
}

void Stream::wait(const Event& event) const {
  StreamImpl& stream = deref(*this, "the stream");
  internal::EventImpl& e = deref(event, "the event");
  check_same_device(stream.device(), *e.device, "the event");
  stream.device().check_usable("an event wait", e.generation);
  stream.check_settling();
  std::unique_lock lock(e.mutex);
  if (const auto target = stream.capture()) return target->wait(stream, e);
  // A mark inside a capture brings the waiting stream into it.
  if (const auto target = e.captured_by.lock()) return target->wait(stream, e);
  const bool submitted = submit_wait(stream, *e.driver_event);
  lock.unlock();  // whoever is waited for may look at the event
  if (submitted) stream.settle();
}

void Stream::synchronize(WaitLimit limit) const {
  StreamImpl& stream = deref(*this, "the stream");
  stream.synchronize(stream.device().deadline(limit.count()));
}

bool Stream::idle() const {
  StreamImpl& stream = deref(*this, "the stream");
  stream.device().check_usable("a stream query", stream.generation());
  stream.refuse_captured("a query");
  return stream.completed() >= stream.submitted();
}

void Stream::recover() const { deref(*this, "the stream").recover(); }
std::uint64_t Stream::submitted() const {
  StreamImpl& stream = deref(*this, "the stream");
  stream.device().check_process("a stream query");
  return stream.submitted();
}
std::uint64_t Stream::completed() const {
  StreamImpl& stream = deref(*this, "the stream");
  stream.device().check_process("a stream query");
  return stream.completed();
}

void* Stream::native_handle() const {
  StreamImpl& stream = deref(*this, "the stream");
  stream.device().check_usable("asking for a native handle", stream.generation());
  if (!stream.captures_native_work()) stream.refuse_captured("asking for its native handle");
  return stream.driver_stream().native_handle();
}

}  // namespace slipway
