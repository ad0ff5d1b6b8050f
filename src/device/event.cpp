#include <chrono>
#include <string>

#include "device/handles.h"

namespace slipway {
namespace internal {

void EventImpl::refuse_captured(const char* what) {
  std::shared_ptr<CaptureTarget> capture;
  {
    const std::lock_guard lock(mutex);
    capture = captured_by.lock();
  }
  if (capture) capture->refuse_event(what);
}

EventImpl::~EventImpl() {
  // Marks and waits that were submitted refer to it.
  device->retired().retire([e = driver_event]() mutable { e.reset(); });
}

bool submit_wait(StreamImpl& stream, DriverEvent& event) {
  EventRecord record{};
  record.header = {sizeof(EventRecord), RecordKind::kEventWait, 0, 0};
  record.event = &event;
  if (!event.prepare_wait(record)) {
    stream.check_open();
    return false;
  }
  const auto count = [](StreamCounters& counters) { counters.event_waits.add(); };
  return stream.submit_unsettled([] {}, reinterpret_cast<const std::byte*>(&record), sizeof record, "wait", count) != 0;
}

}  // namespace internal

using internal::EventState;
using internal::Status;

bool Event::query() const {
  internal::EventImpl& event = internal::deref(*this, "the event");
  event.device->check_usable("an event query", event.generation);
  event.refuse_captured("a query");
  Status cause;
  switch (event.driver_event->state(cause)) {
    case EventState::kPending: return false;
    case EventState::kPassed: return true;
    case EventState::kFailed: cause.throw_if_error();
  }
  return true;
}

void Event::synchronize(WaitLimit limit) const {
  internal::EventImpl& event = internal::deref(*this, "the event");
  event.device->check_usable("waiting for an event", event.generation);
  event.refuse_captured("waiting for it");
  event.device->captures().check_wait("waiting for an event").throw_if_error();
  event.driver_event->wait(event.device->deadline(limit.count())).throw_if_error();
  event.device->retired().collect();
  (void)query();  // throws when it fired as failed
}

std::chrono::nanoseconds Event::elapsed(const Event& later) const {
  internal::EventImpl& from = internal::deref(*this, "the event");
  internal::EventImpl& to = internal::deref(later, "the later event");
  internal::check_same_device(*from.device, *to.device, "the later event");
  from.device->check_usable("elapsed", from.generation);
  for (internal::EventImpl* event : {&from, &to}) {
    event->refuse_captured("asking for its time");
    Status cause;
    const bool passed = event->driver_event->state(cause) == EventState::kPassed;
    if (event->timing && passed) continue;
    throw Error(ErrorCode::kFailedPrecondition,
                std::string("the time of ") + (event == &from ? "the first" : "the later") +
                    " event was asked for, but " +
                    (event->timing ? "its mark has not been passed; synchronize() it first"
                                   : "it was created without timing; set EventOptions::timing"));
  }
  const std::int64_t begin = from.driver_event->time_ns().take();
  const std::int64_t end = to.driver_event->time_ns().take();
  if (begin == 0 || end == 0) {
    throw Error(ErrorCode::kFailedPrecondition,
                "the elapsed time between two events was asked for, but one of them was never marked; mark both first");
  }
  return std::chrono::nanoseconds(end - begin);
}

}  // namespace slipway
