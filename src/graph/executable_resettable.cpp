// Steps on devices whose gates are events that are waited for and reset.
//
// There a step's update is work too, on a stream of the device's own: the values, then for each group in order its
// places and its gate, then a wait for the replay. Such an event keeps one bit, so the order of the two streams is
// everything:
//   U1  a replay and its update are submitted under one lock of the device, and nothing in between may wait, fail or
//       call anybody: whatever may was done before.
//   U2  the update stream waits for the replay behind its update, or for the last one before the next is submitted. So
//       no gate is set before it was reset, and nothing is rewritten that is still read.
//   U3  it is another queue than the replay's, which would wait for what comes behind it.
//   U4  an update that fails opens what is left of the gates as cancelled; the graph takes no steps until recover(),
//       which resets the gates.
#include <cstring>
#include <string>
#include <utility>

#include "base/rules.h"
#include "device/update_stream.h"
#include "graph/executable.h"

namespace slipway::internal {
namespace {

UpdateRecord update_record(ReplayProgram& program, std::uint64_t step, UpdateAction action) {
  UpdateRecord record{};
  record.header = {sizeof record, RecordKind::kUpdate, static_cast<std::uint8_t>(action), 0};
  record.program = &program;
  record.step = step;
  return record;
}

std::uint32_t bytes_of_values(std::size_t values) { return round_up_record(sizeof(UpdateRecord) + values); }

// There is room for it. A kick follows when all of an update is written.
bool put(Sink& sink, const UpdateRecord& record, const std::byte* values = nullptr) {
  std::byte* const place = sink.place();
  std::memcpy(place, &record, sizeof record);
  if (values) std::memcpy(place + sizeof record, values, record.bytes);
  return sink.commit(record.header.size_bytes);
}

}  // namespace

std::uint32_t ExecutableCore::update_bytes() const {
  const auto groups = static_cast<std::uint32_t>(definition_->serial.groups.size());
  return bytes_of_values(definition_->block_bytes) + (2 * groups + 2) * std::uint32_t{sizeof(UpdateRecord)};
}

// Everything that may fail or wait, for one more update. The device's lock is held.
DriverStream& ExecutableCore::update_stream(UpdateStream& updates, StreamImpl& replay) {
  DeviceImpl& device = *definition_->device;
  const bool abandoned = updates.abandoned.exchange(false, std::memory_order_relaxed);
  if (abandoned && updates.stream && !updates.stream->failure().ok()) {
    device.retired().retire_stream(updates.stream);
    updates.stream.reset();
  }
  const auto fits = [&] {
    return updates.stream && updates.ring_bytes / 2 >= update_bytes() &&
           (!SLIPWAY_RULE(kOtherStream) || !same_queue(*updates.stream, replay.driver_stream()));
  };
  constexpr int kMostStreams = 64;  // more than any pool has: then the device has one queue only
  for (int i = 0; !fits() && i < kMostStreams; ++i) {
    StreamOptions options;
    while (options.ring_bytes / 2 < update_bytes()) options.ring_bytes *= 2;
    if (updates.stream) {
      device.retired().retire_stream(updates.stream);
      ++updates.recreated;
    }
    updates.ring_bytes = options.ring_bytes;
    updates.stream = device.driver().create_stream(options).take();
    device.retired().add_stream(updates.stream);
    if (!SLIPWAY_RULE(kOtherStream)) break;
  }
  if (!updates.stream || (SLIPWAY_RULE(kOtherStream) && same_queue(*updates.stream, replay.driver_stream()))) {
    throw Error(ErrorCode::kUnavailable,
                "graph '" + definition_->name + "' found no stream of '" + device.info().uri +
                    "' for its updates: each one that was made shares the queue of stream '" + replay.name() +
                    "', and an update behind the replay that waits for it never comes; use fewer streams");
  }
  if (const Status failure = updates.stream->failure(); !failure.ok()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "graph '" + definition_->name + "' was to be launched on '" + device.info().uri +
                    "', whose stream of updates has failed; call recover() on the graph that failed. The cause: " +
                    failure.details().sentence);
  }
  Status why;
  if (!updates.stream->sink().reserve(update_bytes(), why)) why.throw_if_error();
  return *updates.stream;
}

void ExecutableCore::evaluate_all(const std::vector<std::byte>& values) {
  next_block_ = values;
  OpenStep next{program_->begun() + 1, 0, false, false};
  try {
    for (std::size_t i = 0; i < definition_->operations.size(); ++i) {
      next.gates_open = static_cast<std::uint32_t>(i) + 1;
      if (evaluate(*definition_, i, next_block_.data(), scratch_)) {
        counts_.operation_calls.fetch_add(1, std::memory_order_relaxed);
      }
      check_specialised(*definition_, next.gates_open, next_block_.data());
    }
  } catch (...) {
    throw_told(next, next_block_.data());
  }
}

// Whoever has it may stand in a full ring, or wait for its stream.
std::unique_lock<Mutex> ExecutableCore::lock_updates() {
  std::unique_lock<Mutex> lock(definition_->device->updates().mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    const BlockingScope scope(definition_->device->rules());
    lock.lock();
  }
  return lock;
}

void ExecutableCore::submit_update(DriverStream& stream, std::uint64_t step) {
  Sink& sink = stream.sink();
  const bool changed = next_block_ != last_block_;
  bool kick = false;
  if (changed) {
    UpdateRecord record = update_record(*program_, step, UpdateAction::kValues);
    record.bytes = definition_->block_bytes;
    record.header.size_bytes = bytes_of_values(record.bytes);
    kick |= put(sink, record, next_block_.data());
    std::swap(last_block_, next_block_);
  } else {
    counts_.unchanged.fetch_add(1, std::memory_order_relaxed);
  }
  for (std::uint32_t g = 0; g < definition_->serial.groups.size(); ++g) {
    UpdateRecord record = update_record(*program_, step, UpdateAction::kRewrite);
    record.group = g;
    if (changed) kick |= put(sink, record);
    if (!changed && !SLIPWAY_RULE(kSetUnchanged)) continue;
    record.header.flags = static_cast<std::uint8_t>(UpdateAction::kSet);
    kick |= put(sink, record);
  }
  if (kick) stream.kick();
  count(counts_.published_first);
}

void ExecutableCore::submit_wait_for(DriverStream& stream, std::uint64_t step) {
  if (SLIPWAY_RULE(kTrailingWait) && put(stream.sink(), update_record(*program_, step, UpdateAction::kWait))) {
    stream.kick();
  }
}

Step ExecutableCore::launch_resettable(const std::shared_ptr<StreamImpl>& stream,
                                       const std::vector<std::byte>& values) {
  const std::uint64_t step = submit_both(stream, values);
  settle(*stream, step);
  return {step};
}

std::uint64_t ExecutableCore::submit_both(const std::shared_ptr<StreamImpl>& stream,
                                          const std::vector<std::byte>& values) {
  DeviceImpl& device = *definition_->device;
  const GateTraits gates = device.driver().gates();
  const bool update_first =
      SLIPWAY_RULE(kUpdateFirst) && (blocking() || gates.record_first || options_.order == Order::kUpdateFirst);
  const auto launching = lock_launches();
  if (SLIPWAY_RULE(kFallibleFirst)) evaluate_all(values);
  UpdateStream& updates = device.updates();
  std::unique_lock<Mutex> one;
  if (SLIPWAY_RULE(kOneUpdateAtATime)) one = lock_updates();
  DriverStream& queue = update_stream(updates, *stream);
  const std::uint64_t step = begin(stream, true);
  if (draws_) draws_->write(step, next_block_.data());
  SLIPWAY_POINT("prepared", program_.get(), step, 0);
  if (update_first) {
    submit_update(queue, step);
    ++updates.updates;
    SLIPWAY_POINT("update submitted", program_.get(), step, 0);
    try {
      submit(stream, step);
    } catch (...) {
      // Gates that are set for a replay that never comes: no step of this graph until recover() has reset them.
      cancel(step,
             cancelled_error(step, ErrorCode::kCancelled, "its values were under way, and its replay was refused"));
      --updates.updates;
      throw;
    }
    ++updates.replays;
    SLIPWAY_POINT("replay submitted", program_.get(), step, 0);
    submit_wait_for(queue, step);
    count(counts_.update_first);
    return step;
  }
  if (gates.wait_before && step > 1) submit_wait_for(queue, step - 1);
  submit(stream, step);
  if (!SLIPWAY_RULE(kUpdateFirst)) stream->settle();
  ++updates.replays;
  SLIPWAY_POINT("replay submitted", program_.get(), step, 0);
  if (!SLIPWAY_RULE(kFallibleFirst)) evaluate_all(values);
  if (!SLIPWAY_RULE(kWaitBehindUpdate)) submit_wait_for(queue, step);
  submit_update(queue, step);
  ++updates.updates;
  SLIPWAY_POINT("update submitted", program_.get(), step, 0);
  if (!gates.wait_before && SLIPWAY_RULE(kWaitBehindUpdate)) submit_wait_for(queue, step);
  count(counts_.replay_first);
  return step;
}

void ExecutableCore::recover_updates() {
  DeviceImpl& device = *definition_->device;
  const auto launching = lock_launches();
  UpdateStream& updates = device.updates();
  const auto one = lock_updates();
  last_block_.clear();  // which of its places were rewritten is not known
  if (!updates.stream) return;
  EventRecord mark{};
  mark.header = {sizeof mark, RecordKind::kEventMark, 0, 0};
  Status why;
  Sink& sink = updates.stream->sink();
  std::byte* const place = sink.reserve(sizeof mark, why);
  if (!place) why.throw_if_error();
  std::memcpy(place, &mark, sizeof mark);
  const std::uint64_t sequence = sink.submitted() + 1;
  if (sink.commit(sizeof mark)) updates.stream->kick();
  updates.stream->wait(sequence, device.deadline(-1)).throw_if_error();
  if (!updates.stream->failure().ok()) updates.stream->recover();
}

}  // namespace slipway::internal
