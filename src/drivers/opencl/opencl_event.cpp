#include "drivers/opencl/opencl_event.h"

#include <utility>

#include "base/wait.h"
#include "drivers/opencl/opencl_commands.h"

namespace slipway::internal {

void OpenClEvent::marked(DriverStream& stream, std::uint64_t sequence) {
  Mark mark{static_cast<OpenClStream&>(stream).shared_from_this(), sequence};
  const std::uint64_t id = mark.stream->id();
  std::vector<Executed> dropped;  // released without the lock
  const std::lock_guard lock(mutex_);
  std::swap(mark_, mark);
  // No later mark can have been submitted yet, so everything else that was executed is older.
  for (Executed& e : executed_) {
    if (e.stream_id != id || e.sequence != sequence) dropped.push_back(std::move(e));
  }
  std::erase_if(executed_, [](const Executed& e) { return !e.command; });
}

void OpenClEvent::executed(std::uint64_t stream_id, std::uint64_t sequence, const ClEvent& command) {
  if (!timing_) return;
  const std::lock_guard lock(mutex_);
  executed_.push_back({stream_id, sequence, command.share()});
}

OpenClEvent::Mark OpenClEvent::last() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

bool OpenClEvent::prepare_wait(EventRecord& record) {
  const Mark mark = last();
  if (!mark.stream) return false;
  record.mark_source = mark_source_of(mark.stream->id());
  record.mark = mark.sequence;
  return true;
}

EventState OpenClEvent::state(Status& cause) {
  const Mark mark = last();
  if (!mark.stream) return EventState::kPassed;
  ClMarkState state = mark.stream->progress().look_at(mark.sequence, nullptr);
  switch (state.kind) {
    case ClMarkState::kPassed: return EventState::kPassed;
    case ClMarkState::kFailed: cause = std::move(state.cause); return EventState::kFailed;
    default: return EventState::kPending;
  }
}

Status OpenClEvent::wait(std::int64_t deadline_ns) {
  const Mark mark = last();
  return mark.stream ? mark.stream->wait(mark.sequence, deadline_ns) : Status();
}

Result<std::int64_t> OpenClEvent::time_ns() {
  ClEvent command;
  {
    const std::lock_guard lock(mutex_);
    if (!mark_.stream) return std::int64_t{0};
    for (const Executed& e : executed_) {
      if (e.stream_id == mark_.stream->id() && e.sequence == mark_.sequence) command = e.command.share();
    }
  }
  if (!command || execution_status(context_->cl, command) != kClComplete) {
    return Status(ErrorCode::kFailedPrecondition,
                  "the time of an event was asked for whose last mark has not been passed; synchronise it first");
  }
  cl_ulong at = 0;
  const cl_int code =
      context_->cl.clGetEventProfilingInfo(command.get(), kClProfilingCommandEnd, sizeof at, &at, nullptr);
  if (code == kClProfilingInfoNotAvailable) {
    return Status(ErrorCode::kUnsupported,
                  "this OpenCL queue keeps no time of its marks (CL_PROFILING_INFO_NOT_AVAILABLE); mark the event in a "
                  "stream that Slipway made, or adopt a queue that was made with CL_QUEUE_PROFILING_ENABLE");
  }
  if (code != kClSuccess) return cl_error(code, "clGetEventProfilingInfo", "the time of an event could not be read");
  return static_cast<std::int64_t>(at);
}

bool OpenClHold::prepare_wait(EventRecord& record) {
  record.mark_source = nullptr;
  record.mark = 0;
  return true;
}

EventState OpenClHold::state(Status&) {
  const std::lock_guard lock(mutex_);
  return released_ ? EventState::kPassed : EventState::kPending;
}

Status OpenClHold::wait(std::int64_t deadline_ns) {
  const auto waker = std::make_shared<Parker>();
  {
    const std::lock_guard lock(mutex_);
    if (released_) return {};
    wakers_.push_back(waker);
  }
  const BlockingScope scope(shared_->environment.wait_rules);
  if (waker->park(deadline_ns)) return {};
  const std::lock_guard lock(mutex_);
  std::erase(wakers_, waker);
  if (released_) return {};
  return {ErrorCode::kTimeout, "the hold was not released in time; release it, or wait longer"};
}

Result<std::int64_t> OpenClHold::time_ns() {
  return Status(ErrorCode::kFailedPrecondition, "a hold is no mark of a stream and has no time");
}

void OpenClHold::release() {
  std::vector<std::weak_ptr<OpenClStream>> held;
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
    held.swap(held_);
    for (const auto& waker : wakers_) waker->unpark();
    wakers_.clear();
  }
  for (const auto& stream : held) {
    if (const auto living = stream.lock()) living->kick();
  }
}

bool OpenClHold::released_or_remember(const std::weak_ptr<OpenClStream>& stream) {
  const std::lock_guard lock(mutex_);
  if (released_) return true;
  for (const auto& known : held_) {
    if (!known.owner_before(stream) && !stream.owner_before(known)) return false;
  }
  held_.push_back(stream);
  return false;
}

}  // namespace slipway::internal
