#include "device/stream_impl.h"

#include <cstring>
#include <utility>

namespace slipway::internal {

StreamImpl::StreamImpl(std::shared_ptr<DeviceImpl> device, std::shared_ptr<DriverStream> driver_stream,
                       std::string name, std::uint64_t id)
    : sink_(&driver_stream->sink()),
      device_(std::move(device)),
      driver_(std::move(driver_stream)),
      name_(name.empty() ? "stream " + std::to_string(id) : std::move(name)),
      base_(driver_->base()),
      generation_(device_->generation()),
      captures_native_work_(driver_->set_native_work(this)) {
  sink_->clear_slow_flags(~std::uint32_t{0});
  if (device_->environment().blocking) sink_->set_slow_flags(kSlowBlocking);
}

StreamImpl::~StreamImpl() {
  if (!device_->forked()) {
    (void)driver_->set_native_work(nullptr);
    device_->remove_stream(this);
  }
  // What was submitted still runs; the driver's stream goes after it.
  device_->retired().retire_stream(driver_);
}

StreamImpl::Submission::Submission(StreamImpl& stream) {
  stream.device_->check_usable("a submission to a stream", stream.generation_);
  lock_ = std::unique_lock(stream.right_, std::try_to_lock);
  if (!lock_.owns_lock()) {
    // Whoever holds it is inside one submission: he leaves at the latest when his wait for room runs out.
    const BlockingScope scope(stream.device_->rules());
    lock_.lock();
  }
  if (stream.right_.is_shared() && !std::exchange(stream.shared_told_, true)) stream.note(Reason::kStreamShared, {});
}

Status StreamImpl::look_up_refusal() {
  const std::uint32_t flags = sink_->slow_flags();
  if ((flags & kSlowClosed) != 0) {
    return {ErrorCode::kStaleContext, "stream '" + name_ +
                                          "' belongs to a device that was closed or reset; create a stream of the "
                                          "device as it is now"};
  }
  if (device_->environment().lost.load(std::memory_order_acquire)) {
    device_->refuse_work_of_all();
    ErrorDetails details = device_->environment().lost_cause().details();
    details.submitted = false;
    details.sentence = "the device '" + device_->info().uri +
                       "' is lost and takes no work until reset() is called; "
                       "the cause: " +
                       details.sentence;
    return Status(std::move(details));
  }
  if ((flags & kSlowFailed) == 0) return {};
  const Status failure = driver_->failure();
  if (failure.ok()) return {};
  ErrorDetails details = failure.details();
  details.submitted = false;  // what is refused now was not
  details.sentence =
      "stream '" + name_ + "' has failed and refuses work until recover() is called; the cause: " + details.sentence;
  return Status(std::move(details));
}

std::shared_ptr<CaptureTarget> StreamImpl::capture() const {
  if (!may_be_captured()) return nullptr;
  const std::lock_guard lock(capture_mutex_);
  return capture_;
}

void StreamImpl::set_capture(std::shared_ptr<CaptureTarget> target) {
  const std::lock_guard lock(capture_mutex_);
  capture_ = std::move(target);
  if (capture_) sink_->set_slow_flags(kSlowCaptured);
  else sink_->clear_slow_flags(kSlowCaptured);
}

void StreamImpl::refuse_captured(const char* what) {
  if (const auto target = capture()) target->refuse(*this, what);
}

Status StreamImpl::take(std::unique_ptr<HostFunction>& work) {
  HostFunctionRecord record{};
  record.header = {sizeof record, RecordKind::kHostFunction, 0, 0};
  record.payload = work.get();
  static_assert(sizeof record % kRecordAlignment == 0);
  try {
    // Not waited for in blocking mode: whoever put it there is told nothing, and holds a lock that dropping the stream
    // needs. The next call that waits tells of its failure.
    submit_unsettled([&] { (void)work.release(); }, reinterpret_cast<const std::byte*>(&record), sizeof record,
                     work->name, [](StreamCounters& counters) { counters.host_functions.add(); });
  } catch (const Error& error) {
    return Status(*error.details());
  }
  return {};
}

void StreamImpl::note(Reason reason, const std::string& subject) {
  device_->check_process("a launch");
  device_->counters().note(reason);
  TimelineLog* log = device_->environment().timeline.load(std::memory_order_acquire);
  if (!log) return;
  TimelineEntry entry;
  entry.kind = TimelineEntry::Kind::kReason;
  entry.stream = name_;
  entry.name = name_of(reason);
  entry.subject = subject;
  entry.started_ns = entry.ended_ns = now_ns();
  log->span(std::move(entry), sink_, nullptr);
}

std::uint64_t StreamImpl::append(Submission& submission, const std::byte* record, std::uint32_t bytes,
                                 const std::string& name, std::int64_t deadline_ns) {
  const bool quiet = deadline_ns != 0;
  if (!quiet) refusal().throw_if_error();
  Status why;
  if (!sink_->has_room(bytes) && sink_->must_wait(bytes)) {
    note(Reason::kRingFull, name);
    if (deadline_ns == 0) device_->owed().check(this, "a submission to a full ring").throw_if_error();
  }
  std::byte* place = sink_->reserve(bytes, why, deadline_ns);
  if (!place) why.throw_if_error();
  std::memcpy(place, record, bytes);
  const std::uint64_t sequence = sink_->submitted() + 1;
  if ((sink_->slow_flags() & kSlowTimeline) != 0) {
    device_->counters().note(Reason::kTimeline);
    if (TimelineLog* log = device_->environment().timeline.load(std::memory_order_acquire)) {
      log->submitted(sink_, name_, sequence, sequence - base_, name, now_ns());
    }
  }
  const bool must_kick = sink_->commit(bytes);
  submission.release();
  if (must_kick) kick();
  return sequence;
}

void StreamImpl::check_settling() {
  const std::uint32_t flags = sink_->slow_flags();
  if ((flags & kSlowBlocking) == 0 || (flags & kSlowCaptured) != 0) return;
  device_->check_usable("a submission to a stream", generation_);
  device_->owed().check(this, "a submission in blocking mode").throw_if_error();
}

void StreamImpl::settle() {
  if ((sink_->slow_flags() & kSlowBlocking) == 0) return;
  note(Reason::kBlockingMode, {});
  finish(device_->deadline(-1));  // no capture forbids it, since the caller did not ask for it
  // Another thread was told first, and what this one submitted was skipped.
  if ((sink_->slow_flags() & kSlowFailed) != 0) driver_->failure().throw_if_error();
}

std::uint64_t StreamImpl::internal_mark(std::int64_t deadline_ns) {
  EventRecord record{};
  record.header = {sizeof(EventRecord), RecordKind::kEventMark, 0, 0};
  static_assert(sizeof(EventRecord) % kRecordAlignment == 0);
  Submission submission(*this);
  return append(submission, reinterpret_cast<const std::byte*>(&record), sizeof record, "mark", deadline_ns);
}

Status StreamImpl::take_failure() {
  if ((sink_->slow_flags() & kSlowFailed) == 0 || failure_told_.exchange(true, std::memory_order_acq_rel)) return {};
  // Once one caller knows, no other one reaches the device by the fast path.
  if (device_->environment().lost.load(std::memory_order_acquire)) device_->refuse_work_of_all();
  return driver_->failure();
}

void StreamImpl::synchronize(std::int64_t deadline_ns) {
  device_->check_usable("synchronize", generation_);
  refuse_captured("synchronize");
  device_->captures().check_wait("a synchronize of a stream").throw_if_error();
  finish(deadline_ns);
}

void StreamImpl::finish(std::int64_t deadline_ns) {
  device_->owed().check(this, "synchronize").throw_if_error();
  driver_->wait(internal_mark(deadline_ns), deadline_ns).throw_if_error();
  device_->retired().settle(device_->rules(), deadline_ns).throw_if_error();
  take_failure().throw_if_error();
}

void StreamImpl::recover() {
  device_->check_usable("recover", generation_);
  refuse_captured("recover");
  if ((sink_->slow_flags() & kSlowFailed) == 0) return;
  device_->captures().check_wait("a recover of a stream").throw_if_error();
  const std::int64_t deadline_ns = device_->deadline(-1);
  driver_->wait(internal_mark(deadline_ns), deadline_ns).throw_if_error();
  driver_->recover();
  failure_told_.store(false, std::memory_order_release);
}

}  // namespace slipway::internal
