#include "engine/lane_event.h"

#include <utility>

namespace slipway::internal {
namespace {

Status wait_for(Progress& progress, std::uint64_t sequence, const WaitRules& rules, std::int64_t deadline_ns) {
  // Numbers in the message are counts of the sink; only their difference means something to users.
  if (progress.completed() >= sequence) return {};
  const BlockingScope scope(rules);
  if (progress.wait(sequence, rules.spin_ns, deadline_ns)) return {};
  return {ErrorCode::kTimeout, std::to_string(sequence - progress.completed()) +
                                   " submissions of the stream had not passed when the wait's limit ran out; they stay "
                                   "submitted. Wait again with a longer limit, or look for an event or gate that "
                                   "nobody opens and for a kernel that does not end"};
}

}  // namespace

Status LaneStream::wait(std::uint64_t sequence, std::int64_t deadline_ns) {
  return wait_for(lane_->progress(), sequence, rules_, deadline_ns);
}

void LaneEvent::marked(DriverStream& stream, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  mark_ = {&static_cast<LaneStream&>(stream).lane().progress(), sequence};
}

bool LaneEvent::prepare_wait(EventRecord& record) {
  const Mark last = mark();
  record.mark_source = last.progress;
  record.mark = last.sequence;
  return last.progress != nullptr;
}

EventState LaneEvent::state(Status& cause) {
  const Mark last = mark();
  if (!last.progress) return EventState::kPassed;
  if (last.progress->completed() < last.sequence) return EventState::kPending;
  cause = last.progress->failure_of(last.sequence);
  return cause.ok() ? EventState::kPassed : EventState::kFailed;
}

Status LaneEvent::wait(std::int64_t deadline_ns) {
  const Mark last = mark();
  return last.progress ? wait_for(*last.progress, last.sequence, rules_, deadline_ns) : Status();
}

bool LaneHold::prepare_wait(EventRecord& record) {
  record.mark_source = &progress_;
  record.mark = 1;
  return true;
}

void LaneHold::release() {
  Freed freed;
  {
    const std::lock_guard lock(mutex_);
    progress_.announce(1, freed);
  }
  resume_all(freed);
}

}  // namespace slipway::internal
