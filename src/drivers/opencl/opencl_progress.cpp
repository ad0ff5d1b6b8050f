#include "drivers/opencl/opencl_progress.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "drivers/opencl/opencl_commands.h"
#include "drivers/opencl/opencl_stream.h"
#include "engine/replay_program.h"

namespace slipway::internal {
namespace {

// Marks far in the past may still be asked about; a bounded memory of failures is enough for them.
constexpr std::size_t kKeptFailures = 64;
constexpr std::size_t kKeptGoneStreams = 256;

Status find_failure(const std::vector<ClFailedRange>& failures, std::uint64_t sequence) {
  for (const ClFailedRange& range : failures) {
    if (sequence >= range.from && sequence < range.to) return range.cause;
  }
  return {};
}

}  // namespace

void ClStreamRegistry::add(std::uint64_t id, std::weak_ptr<OpenClStream> stream) {
  const std::lock_guard lock(mutex_);
  streams_.emplace_back(id, std::move(stream));
}

void ClStreamRegistry::remove(std::uint64_t id, std::vector<ClFailedRange> failures) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& entry) { return entry.first == id; });
  if (failures.empty()) return;
  gone_.push_back({id, std::move(failures)});
  if (gone_.size() > kKeptGoneStreams) gone_.pop_front();
}

std::shared_ptr<OpenClStream> ClStreamRegistry::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, stream] : streams_) {
    if (known == id) return stream.lock();
  }
  return nullptr;
}

Status ClStreamRegistry::failure_of_gone(std::uint64_t id, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  for (const Gone& gone : gone_) {
    if (gone.id == id) return find_failure(gone.failures, sequence);
  }
  return {};
}

std::vector<std::shared_ptr<OpenClStream>> ClStreamRegistry::all() const {
  std::vector<std::shared_ptr<OpenClStream>> living;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, stream] : streams_) {
    if (auto held = stream.lock()) living.push_back(std::move(held));
  }
  return living;
}

std::shared_ptr<LaunchingThread> ClSubmissionQueue::thread_for_stream() {
  if (!options_.threaded) return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<LaunchingThread> thread = for_all_;
  if (!thread) thread = std::make_shared<LaunchingThread>(options_.spin_ns, "slipway-queue");
  thread->start();
  if (!options_.per_stream) for_all_ = thread;
  return thread;
}

ClProgress::ClProgress(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context, Sink& sink) noexcept
    : shared_(std::move(shared)), context_(std::move(context)), sink_(sink) {}

ClProgress::~ClProgress() {
  for (ClInFlight& command : in_flight_) release_when_ended(command);
}

void ClProgress::add(ClInFlight command) {
  const std::lock_guard lock(mutex_);
  // Another thread may have been handing it over while the device was reset.
  if (abandoned_) return give_up_locked(command);
  in_flight_.push_back(std::move(command));
}

std::size_t ClProgress::depth() const {
  const std::lock_guard lock(mutex_);
  return in_flight_.size();
}

ClEvent ClProgress::middle() const {
  const std::lock_guard lock(mutex_);
  return in_flight_.empty() ? ClEvent() : in_flight_[in_flight_.size() / 2].event.share();
}

void ClProgress::handed_over(std::uint64_t sequence, std::vector<std::weak_ptr<OpenClStream>>& freed) {
  const std::lock_guard lock(mutex_);
  const bool moved = sequence > handed_over_.load(std::memory_order_relaxed);
  if (moved) {
    handed_over_.store(sequence, std::memory_order_release);
    publish_locked();
    for (const auto& waker : wakers_) waker->unpark();
  }
  if (!moved && !failed()) return;
  const std::uint64_t to =
      failed() ? std::numeric_limits<std::uint64_t>::max() : handed_over_.load(std::memory_order_relaxed);
  std::erase_if(waiting_, [&](auto& entry) {
    if (entry.first > to) return false;
    freed.push_back(std::move(entry.second));
    return true;
  });
}

void ClProgress::publish_locked() noexcept {
  std::uint64_t passed = handed_over_.load(std::memory_order_relaxed);
  if (!in_flight_.empty()) passed = std::min(passed, in_flight_.front().sequence - 1);
  if (!ended_steps_.empty()) passed = std::min(passed, ended_steps_.front().sequence - 1);
  if (passed > completed_.load(std::memory_order_relaxed)) completed_.store(passed, std::memory_order_release);
}

void ClProgress::reap() {
  Unexplained wait;
  {
    const std::lock_guard lock(mutex_);
    wait = reap_locked(nullptr, 0);
  }
  while (wait.source != 0) {
    // Without our mutex: the other stream may be looking for a cause here at the same time.
    const Status cause = explain(wait);
    const std::lock_guard lock(mutex_);
    wait = reap_locked(&cause, wait.sequence);
  }
}

Status ClProgress::explain(const Unexplained& wait) const {
  Status cause;
  if (const std::shared_ptr<OpenClStream> source = shared_->streams.find(wait.source)) {
    ClProgress& other = source->progress();
    {
      const std::lock_guard lock(other.mutex_);
      (void)other.reap_locked(nullptr, 0);
    }
    cause = other.failure_of(wait.mark);
  } else {
    cause = shared_->streams.failure_of_gone(wait.source, wait.mark);
  }
  if (!cause.ok()) return cause;
  ErrorDetails details;
  details.code = ErrorCode::kCancelled;
  details.sentence =
      "the event that this stream waited for failed on the device, for a reason that its own stream does "
      "not know (yet); synchronise the stream that marked it";
  details.sequence = wait.sequence;
  details.submitted = true;
  return Status(std::move(details));
}

ClProgress::Unexplained ClProgress::reap_locked(const Status* cause, std::uint64_t cause_of) {
  Unexplained wait;
  while (!in_flight_.empty()) {
    ClInFlight& command = in_flight_.front();
    const cl_int status = execution_status(context_->cl, command.event);
    if (status > kClComplete) break;
    if (status < kClComplete && !failed()) {
      const bool explained = cause && cause_of == command.sequence;
      if (command.source != 0 && !explained) {
        wait = {command.sequence, command.source, command.source_mark};
        break;
      }
      if (explained) {
        fail_locked(*cause, command.sequence);
      } else {
        const std::string name = command.code ? command.code->name : std::string();
        const std::string what = command.code ? "kernel '" + name + "'" : std::string(command.what);
        ErrorDetails details = cl_error(status, "", what + " failed", ClPhase::kExecution).details();
        details.name = name;
        details.sequence = command.sequence;
        details.submitted = true;
        fail_locked(Status(std::move(details)), command.sequence);
      }
    }
    finish(command, status);
    in_flight_.pop_front();
  }
  publish_locked();
  return wait;
}

void ClProgress::finish(ClInFlight& command, cl_int status) {
  std::free(std::exchange(command.staging, nullptr));
  shared_->uncount_staged(command.staged_bytes);
  if (status == kClComplete && command.enqueued_ns != 0) write_timeline(command);
  if (command.ends) ended_steps_.push_back({command.ends, command.step, command.sequence});
}

void ClProgress::finish_steps() {
  std::unique_lock lock(mutex_);
  if (finishing_) return;
  finishing_ = true;
  while (!ended_steps_.empty()) {
    const EndedStep ended = ended_steps_.front();
    Status cause = failure_of_locked(ended.sequence);
    lock.unlock();
    Freed freed;
    if (!cause.ok()) ended.program->cancel(ended.step, std::move(cause), freed);
    ended.program->finish(ended.step, freed);
    lock.lock();
    ended_steps_.pop_front();
    publish_locked();
    for (const auto& waker : wakers_) waker->unpark();
    lock.unlock();
    resume_all(freed);
    lock.lock();
  }
  finishing_ = false;
}

void ClProgress::write_timeline(const ClInFlight& command) const {
  TimelineLog* log = shared_->environment.timeline.load(std::memory_order_acquire);
  if (!log) return;
  cl_ulong queued = 0, start = 0, end = 0;
  const auto read = [&](cl_uint what, cl_ulong& value) {
    return context_->cl.clGetEventProfilingInfo(command.event.get(), what, sizeof value, &value, nullptr) == kClSuccess;
  };
  if (!read(kClProfilingCommandQueued, queued) || !read(kClProfilingCommandStart, start) ||
      !read(kClProfilingCommandEnd, end)) {
    return;
  }
  // The device's clock has a zero of its own; the moment of enqueueing is known in both.
  const auto on_host = [&](cl_ulong at) { return command.enqueued_ns + static_cast<std::int64_t>(at - queued); };
  if (command.node_of) {
    TimelineEntry entry;
    entry.kind = TimelineEntry::Kind::kNode;
    entry.subject = command.node_of->name();
    entry.name = command.code ? command.code->name : command.what;
    entry.sequence = command.sequence;
    entry.step = command.step;
    entry.started_ns = on_host(start);
    entry.ended_ns = on_host(end);
    log->span(std::move(entry), &sink_, command.node_of);
    return;
  }
  if (!command.ends) log->started(&sink_, command.sequence, on_host(start));  // a replay began before its last command
  log->ended(&sink_, command.sequence, on_host(end));
}

void ClProgress::fail(Status cause, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(cause), sequence);
}

void ClProgress::fail_locked(Status cause, std::uint64_t sequence) {
  if (failed()) return;
  if (cause.code() == ErrorCode::kDeviceLost) {
    context_->lost.store(true, std::memory_order_relaxed);
    shared_->environment.lose(cause);
  }
  failures_.push_back({sequence, std::numeric_limits<std::uint64_t>::max(), std::move(cause)});
  failed_.store(true, std::memory_order_release);
  sink_.set_slow_flags(kSlowFailed);
}

Status ClProgress::failure() const {
  const std::lock_guard lock(mutex_);
  return failed() ? failures_.back().cause : Status();
}

void ClProgress::recover(std::uint64_t next) {
  const std::lock_guard lock(mutex_);
  if (!failed()) return;
  failures_.back().to = next;
  if (failures_.size() > kKeptFailures) failures_.erase(failures_.begin());
  failed_.store(false, std::memory_order_release);
  sink_.clear_slow_flags(kSlowFailed);
}

Status ClProgress::failure_of_locked(std::uint64_t sequence) const { return find_failure(failures_, sequence); }

Status ClProgress::failure_of(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  return failure_of_locked(sequence);
}

std::vector<ClFailedRange> ClProgress::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

ClMarkState ClProgress::look_at(std::uint64_t mark, const std::weak_ptr<OpenClStream>* waiter) {
  reap();
  const std::lock_guard lock(mutex_);
  ClMarkState state;
  state.cause = failure_of_locked(mark);
  if (!state.cause.ok()) {
    state.kind = ClMarkState::kFailed;
    return state;
  }
  state.kind = ClMarkState::kPassed;
  if (completed() >= mark) return state;
  for (const ClInFlight& command : in_flight_) {
    if (command.sequence != mark) continue;
    state.kind = ClMarkState::kEnqueued;
    state.event = command.event.share();
    return state;
  }
  // Its command has ended, and only a program has yet to be told of a step before it: nobody would free a waiter.
  if (handed_over_.load(std::memory_order_relaxed) >= mark) return state;
  state.kind = ClMarkState::kPending;
  if (waiter) {
    const bool known = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
      return entry.first == mark && !entry.second.owner_before(*waiter) && !waiter->owner_before(entry.second);
    });
    if (!known) waiting_.emplace_back(mark, *waiter);
  }
  return state;
}

ClEvent ClProgress::command_for(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  if (handed_over_.load(std::memory_order_relaxed) < sequence) return {};
  // The last command that does not lie behind it.
  for (auto it = in_flight_.rbegin(); it != in_flight_.rend(); ++it) {
    if (it->sequence <= sequence) return it->event.share();
  }
  return {};
}

void ClProgress::add_waker(std::shared_ptr<Parker> waker) {
  const std::lock_guard lock(mutex_);
  wakers_.push_back(std::move(waker));
}

void ClProgress::remove_waker(const std::shared_ptr<Parker>& waker) {
  const std::lock_guard lock(mutex_);
  std::erase(wakers_, waker);
}

void ClProgress::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    for (ClInFlight& command : in_flight_) give_up_locked(command);
    in_flight_.clear();
    publish_locked();
  }
  finish_steps();
}

void ClProgress::give_up_locked(ClInFlight& command) {
  release_when_ended(command);
  if (command.ends) ended_steps_.push_back({command.ends, command.step, command.sequence});
}

void ClProgress::release_when_ended(ClInFlight& command) noexcept {
  if (!command.staging) return;
  shared_->uncount_staged(command.staged_bytes);
  void* staging = std::exchange(command.staging, nullptr);
  // The device may still read it. Where not even the callback can be had, it is better lost than freed too early.
  (void)context_->cl.clSetEventCallback(
      command.event.get(), kClComplete, [](cl_event, cl_int, void* memory) { std::free(memory); }, staging);
}

}  // namespace slipway::internal
