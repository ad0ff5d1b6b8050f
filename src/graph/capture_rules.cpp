// Which streams and events a capture follows, what it refuses, and how it becomes invalid.
#include <string>
#include <utility>

#include "base/thread_id.h"
#include "graph/capture_impl.h"

namespace slipway::internal {

void CaptureImpl::mark(StreamImpl& stream, EventImpl& event) {
  const std::lock_guard lock(mutex_);
  require_valid();
  if (!open_.empty()) refuse_in_body(stream, "got an event mark");
  const std::shared_ptr<CaptureTarget> marked_in = event.captured_by.lock();
  if (marked_in && marked_in.get() != this) {
    invalidate(ErrorCode::kInvalidNode, "marks an event that another open capture has marked; give each its own");
  }
  marks_[&event] = add_mark(state_of(stream));
  event.captured_by = weak_from_this();
}

CaptureImpl::CapturedMark CaptureImpl::add_mark(CapturedStream& state) {
  const IncompleteGuard guard(*this);
  const std::uint32_t node = add_node(state, {"mark", "mark", {}, {}, {}, {}});
  TapeEntry entry;
  entry.what = TapeEntry::What::kMark;
  entry.branch = branch_of(state);
  entry.node = node;
  entry.mark = kNotWaitedFor;
  definition_->entries.push_back(entry);
  return {state.seen, node, entry.branch, definition_->entries.size() - 1};
}

void CaptureImpl::wait(StreamImpl& stream, EventImpl& event) {
  const std::shared_ptr<CaptureTarget> other = stream.capture();
  const std::lock_guard lock(mutex_);
  require_valid();
  if (!open_.empty()) refuse_in_body(stream, "got an event wait");
  const std::shared_ptr<CaptureTarget> marked_in = event.captured_by.lock();
  if (marked_in.get() != this) {
    if (const auto* another = dynamic_cast<const CaptureImpl*>(marked_in.get())) {
      invalidate(ErrorCode::kInvalidNode, "has the stream '" + stream.name() +
                                              "' wait for an event that was marked inside the capture '" +
                                              another->name() + "'; captures cannot depend on each other");
    }
    invalidate(ErrorCode::kFailedPrecondition,
               "has the stream '" + stream.name() +
                   "' wait for an event that was not marked inside it; mark the event on "
                   "a stream of this capture, or wait before capturing");
  }
  const IncompleteGuard guard(*this);
  if (!other) {
    std::shared_ptr<StreamImpl> shared;
    for (auto& s : stream.device().streams()) {
      if (s.get() == &stream) shared = s;
    }
    streams_.push_back({std::move(shared), {}, {}});  // first, as release() has to find each captured stream
    stream.set_capture(shared_from_this());
  }
  add_wait(state_of(stream), marks_.at(&event));
}

void CaptureImpl::add_wait(CapturedStream& state, const CapturedMark& mark) {
  const IncompleteGuard guard(*this);
  state.last.push_back(mark.node);
  for (const auto& [s, count] : mark.seen) {
    if (state.seen[s] < count) state.seen[s] = count;
  }
  const std::uint32_t node = add_node(state, {"wait", "wait", {}, {}, {}, {}});
  if (branch_of(state) == mark.branch) return;
  TapeEntry& marked = definition_->entries[mark.entry];
  if (marked.mark == kNotWaitedFor) marked.mark = definition_->mark_count++;
  TapeEntry entry;
  entry.what = TapeEntry::What::kJoin;
  entry.branch = branch_of(state);
  entry.node = node;
  entry.mark = marked.mark;
  definition_->entries.push_back(entry);
}

void CaptureImpl::join_side_stream() {
  for (CapturedStream& s : streams_) {
    if (s.stream == side_) return add_wait(streams_.front(), add_mark(s));
  }
}

void CaptureImpl::refuse_question(std::string sentence) {
  const std::lock_guard lock(mutex_);
  if (thread_id() == thread_ && !released_) invalidate(ErrorCode::kFailedPrecondition, std::move(sentence));
  throw Error(ErrorCode::kFailedPrecondition, "the capture '" + name_ + "' " + sentence);
}

void CaptureImpl::refuse(StreamImpl& stream, const char* what) {
  refuse_question("has the stream '" + stream.name() + "', and " + what +
                  " is not possible while it is captured; end the capture first");
}

void CaptureImpl::refuse_event(const char* what) {
  refuse_question(std::string("has the last mark of an event, and ") + what +
                  " is not possible until the capture has ended, since the mark is a node and is never passed; end the "
                  "capture first, or use another event");
}

bool CaptureImpl::valid() {
  const std::lock_guard lock(mutex_);
  return invalid_.ok();
}

void CaptureImpl::check_thread() const {
  if (mode_ == CaptureMode::kRelaxed || thread_id() == thread_) return;
  throw Error(ErrorCode::kFailedPrecondition,
              "the capture '" + name_ + "' was begun by thread " + std::to_string(thread_) +
                  " and was to be ended by thread " + std::to_string(thread_id()) + ", and its mode is " +
                  name_of(mode_) + "; end it on the thread that began it, or begin it with CaptureMode::kRelaxed");
}

Status CaptureImpl::unjoined(const CapturedStream& stream, std::size_t seen) const {
  const std::string begin = "the capture '" + name_ + "' has the stream '" + stream.stream->name() + "', which ";
  const std::string end = "mark an event on it at its end and wait for that on the stream where the capture began";
  if (seen == 0) return {ErrorCode::kFailedPrecondition, begin + "was not joined back; " + end};
  const NodeDefinition& first = definition_->nodes[stream.nodes[seen]];
  return {ErrorCode::kFailedPrecondition, begin + "was given work after it was last joined back, first the " +
                                              first.kind + " '" + first.name + "'; " + end + " once more"};
}

}  // namespace slipway::internal
