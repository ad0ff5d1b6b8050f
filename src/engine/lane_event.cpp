#include "engine/lane_event.h"

#include <memory>
#include <new>
#include <utility>

#include "base/thread_id.h"

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

int LaneQueue::put(NativeQueue* queue, void (*call)(void*), void* data, void (*destroy)(void*)) {
  // In-line, a callback may run inside this very function, under its mutex; callbacks submit nothing anyway.
  if (!call || t_in_callback) return 1;
  auto& self = *static_cast<LaneQueue*>(queue);
  const std::lock_guard lock(self.mutex_);
  if (!self.work_) return 1;
  // Armed once it is taken: until then the data is the caller's.
  struct Owned {
    void* data;
    void (*destroy)(void*);
    bool armed = false;
    Owned(void* what, void (*how)(void*)) noexcept : data(what), destroy(how) {}
    ~Owned() {
      if (armed && destroy) destroy(data);
    }
  };
  std::shared_ptr<Owned> owned;
  std::unique_ptr<HostFunction> work;  // emptied by whoever takes it
  try {
    owned = std::make_shared<Owned>(data, destroy);
    work = std::make_unique<HostFunction>(HostFunction{[call, owned] { call(owned->data); }, "foreign work"});
    work->kind = HostFunction::Kind::kForeign;
    owned->armed = true;
    (void)self.work_->take(work);
  } catch (const std::bad_alloc&) {  // perhaps behind the taking
  }
  if (owned && owned->armed && !work) return 0;
  if (owned) owned->armed = false;
  return 1;
}

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
