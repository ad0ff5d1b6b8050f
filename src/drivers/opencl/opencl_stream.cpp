#include "drivers/opencl/opencl_stream.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/thread_id.h"
#include "drivers/opencl/opencl_commands.h"
#include "drivers/opencl/opencl_event.h"
#include "engine/host_thread.h"

namespace slipway::internal {
namespace {

// Commands that a queue may hold. Not tuned: it bounds the memory that the implementation keeps for them (PoCL takes
// about 1 KiB for each).
constexpr std::size_t kMaxInFlight = 1024;

// Records that a launching thread hands over before other streams get theirs, as lanes do.
constexpr std::size_t kTurn = 128;

}  // namespace

std::shared_ptr<OpenClStream> OpenClStream::create(std::shared_ptr<OpenClShared> shared,
                                                   std::shared_ptr<ClContext> context, cl_command_queue queue,
                                                   std::uint32_t ring_bytes, std::string name) {
  std::shared_ptr<OpenClStream> stream(
      new OpenClStream(std::move(shared), std::move(context), queue, ring_bytes, std::move(name)));
  stream->shared_->streams.add(stream->id_, stream);
  return stream;
}

OpenClStream::OpenClStream(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context,
                           cl_command_queue queue, std::uint32_t ring_bytes, std::string name)
    : shared_(std::move(shared)),
      context_(std::move(context)),
      queue_(queue),
      name_(std::move(name)),
      id_(shared_->streams.next_id()),
      launching_(shared_->queue.thread_for_stream()),
      ring_(ring_bytes, shared_->environment.wait_rules),
      progress_(shared_, context_, ring_) {
  ring_.set_launching(this, launching_.get());
}

OpenClStream::~OpenClStream() {
  // The front door keeps a stream until its work has passed; after shut_down() some may be left.
  Discarded discarded;
  std::uint64_t position = ring_.read_position.load(std::memory_order_relaxed);
  while (position < ring_.published()) {
    const RecordHeader& header = ring_.at(position);
    if (header.kind != RecordKind::kPad) {
      ++consumed_;
      if (header.kind == RecordKind::kReplay) {  // its queue takes no more commands
        const auto& replay = record_cast<ReplayRecord>(header);
        Status cause = failure();
        if (cause.ok()) cause = Status(ErrorCode::kCancelled, "the stream of the replay is gone");
        replay.program->cancel(replay.step, std::move(cause), freed_);
        replay.program->finish(replay.step, freed_);
        if (!give_up_host_function()) host_ = HostState::kNone;
      } else if (discard(header, consumed_, discarded) == Outcome::kCut) {
        host_ = HostState::kNone;
      }
    }
    position += header.size_bytes;
  }
  resume_all(freed_);
  shared_->streams.remove(id_, progress_.failures());
  context_->cl.clReleaseCommandQueue(queue_);
}

// --- Handing over ---

void OpenClStream::kick() {
  if (!launching_) return kick_in_place();
  if (launching_->kick(shared_from_this())) return;
  // The device is being closed, and callers do what is left.
  ring_.detach();
  kick_in_place();
}

void OpenClStream::kick_in_place() {
  static thread_local Streams* outer = nullptr;
  if (outer) {
    outer->push_back(weak_from_this());
    return;
  }
  Streams ready;
  struct Outermost {  // also where something is thrown
    explicit Outermost(Streams* streams) noexcept { outer = streams; }
    ~Outermost() { outer = nullptr; }
  } const outermost(&ready);
  (void)pump(ready, SIZE_MAX);
  while (!ready.empty()) {
    const std::shared_ptr<OpenClStream> stream = ready.back().lock();
    ready.pop_back();
    if (stream) (void)stream->pump(ready, SIZE_MAX);
  }
}

Pumped OpenClStream::pump_turn() {
  Streams freed;
  const Pumped result = pump(freed, kTurn);
  for (const auto& waiting : freed) {
    if (const auto stream = waiting.lock()) stream->kick();
  }
  return result;
}

Pumped OpenClStream::pump(Streams& freed, std::size_t turn) {
  progress_.reap();
  Discarded discarded;
  std::uint64_t consumed = 0;
  Freed resumed;
  Pumped result = Pumped::kEmpty;
  {
    const std::lock_guard lock(pump_mutex_);
    result = drain_ring(discarded, turn);
    if (unflushed_) flush();
    consumed = consumed_;
    resumed.take(freed_);
  }
  if (!discarded.empty()) {
    // User code, so without locks, and before anybody learns that the records have passed.
    const CallbackScope scope;
    discarded.clear();
  }
  progress_.handed_over(consumed, freed);
  resume_all(resumed);
  progress_.finish_steps();
  return result;
}

Pumped OpenClStream::drain_ring(Discarded& discarded, std::size_t turn) {
  std::uint64_t position = ring_.read_position.load(std::memory_order_relaxed);
  while (position < ring_.published()) {
    const RecordHeader& header = ring_.at(position);
    if (header.kind != RecordKind::kPad) {
      if (turn == 0) return Pumped::kMore;
      if (progress_.failed()) {
        if (discard(header, consumed_ + 1, discarded) == Outcome::kCut) return Pumped::kStands;
      } else {
        if (queue_is_full()) return Pumped::kStands;
        // A record that cuts the stream by failing is discarded in the next turn.
        if (execute(header, consumed_ + 1) == Outcome::kCut) {
          if (progress_.failed()) continue;
          return Pumped::kStands;
        }
      }
      ++consumed_;
      --turn;
    }
    position += header.size_bytes;
    ring_.read_position.store(position, std::memory_order_relaxed);
    ring_.consume_to(position);
  }
  return Pumped::kEmpty;
}

void OpenClStream::flush() {
  unflushed_ = false;
  const cl_int code = context_->cl.clFlush(queue_);
  if (code != kClSuccess) fail_record(cl_error(code, "clFlush", "it failed"), consumed_, "the queue", {});
}

OpenClStream::Outcome OpenClStream::execute(const RecordHeader& header, std::uint64_t sequence) {
  ClInFlight command;
  command.sequence = sequence;
  if (shared_->environment.timeline.load(std::memory_order_relaxed)) command.enqueued_ns = now_ns();
  switch (header.kind) {
    case RecordKind::kLaunch:
    case RecordKind::kCopy:
    case RecordKind::kCopyInline:
    case RecordKind::kFill: enqueue_work(header, std::move(command)); return Outcome::kHandedOver;
    case RecordKind::kEventMark: {
      command.what = "an event mark";
      const Status status = enqueue_marker(*context_, queue_, command.event);
      if (!status.ok()) {
        fail_record(status, sequence, command.what, {});
        return Outcome::kHandedOver;
      }
      // Other queues may wait for it from here on, and only what was flushed is sure to run.
      flush();
      if (DriverEvent* event = record_cast<EventRecord>(header).event) {  // null: a mark of the front door's own
        static_cast<OpenClEvent*>(event)->executed(id_, sequence, command.event);
      }
      progress_.add(std::move(command));
      return Outcome::kHandedOver;
    }
    case RecordKind::kEventWait: return execute_wait(record_cast<EventRecord>(header), sequence);
    case RecordKind::kHostFunction:
      return execute_host_function(record_cast<HostFunctionRecord>(header), sequence, nullptr);
    case RecordKind::kReplay: return execute_replay(record_cast<ReplayRecord>(header), sequence);
    case RecordKind::kGroup:  // on tapes only
    case RecordKind::kWaitGate:
    case RecordKind::kResetGate:
    case RecordKind::kUpdate:
    case RecordKind::kOpenGate:
    case RecordKind::kCall:
    case RecordKind::kCondition:
    case RecordKind::kJump:
    case RecordKind::kPad: break;
  }
  return Outcome::kHandedOver;
}

void OpenClStream::enqueue_work(const RecordHeader& header, ClInFlight command) {
  Status status;
  if (header.kind == RecordKind::kLaunch) {
    const auto& launch = record_cast<LaunchRecord>(header);
    command.code = launch.code;
    status = enqueue_launch(*context_, queue_, launch, command.event);
  } else if (header.kind == RecordKind::kCopy) {
    const auto& copy = record_cast<CopyRecord>(header);
    command.what = "a copy";
    command.staging = copy.staging;
    command.staged_bytes = copy.staging ? copy.bytes : 0;
    status = enqueue_copy(*context_, queue_, copy, nullptr, command.event);
  } else if (header.kind == RecordKind::kCopyInline) {
    command.what = "a copy";
    status = copy_inline(record_cast<CopyRecord>(header), command);
  } else {
    command.what = "a fill";
    status = enqueue_fill(*context_, queue_, record_cast<FillRecord>(header), command.event);
  }
  if (command.event) {
    unflushed_ = true;
    progress_.add(std::move(command));
    return;
  }
  // It failed, or there was nothing to do.
  std::free(command.staging);
  shared_->uncount_staged(command.staged_bytes);
  if (status.ok()) return;
  const std::string name = command.code ? command.code->name : std::string();
  fail_record(status, command.sequence, command.code ? "kernel '" + name + "' could not be launched" : command.what,
              name);
}

Status OpenClStream::copy_inline(const CopyRecord& copy, ClInFlight& command) {
  if (copy.bytes == 0) return {};
  // The record goes back to the submitter before the device has read it.
  command.staging = std::malloc(copy.bytes);
  if (!command.staging) {
    return {ErrorCode::kOutOfMemory,
            "there was no host memory to stage " + std::to_string(copy.bytes) + " bytes in; free some"};
  }
  std::memcpy(command.staging, reinterpret_cast<const std::byte*>(&copy) + kCopyInlineOffset, copy.bytes);
  return enqueue_copy(*context_, queue_, copy, command.staging, command.event);
}

OpenClStream::Outcome OpenClStream::execute_wait(const EventRecord& wait, std::uint64_t sequence) {
  const std::weak_ptr<OpenClStream> self = weak_from_this();
  if (!wait.mark_source) {
    return static_cast<OpenClHold*>(wait.event)->released_or_remember(self) ? Outcome::kHandedOver : Outcome::kCut;
  }
  const std::uint64_t source_id = mark_source_id(wait.mark_source);
  if (source_id == id_) return Outcome::kHandedOver;
  const std::shared_ptr<OpenClStream> source = shared_->streams.find(source_id);
  ClMarkState state;
  if (source) {
    state = source->progress_.look_at(wait.mark, &self);
  } else {
    state.cause = shared_->streams.failure_of_gone(source_id, wait.mark);
    state.kind = state.cause.ok() ? ClMarkState::kPassed : ClMarkState::kFailed;
  }
  switch (state.kind) {
    case ClMarkState::kPending: return Outcome::kCut;
    case ClMarkState::kPassed: break;
    case ClMarkState::kFailed: progress_.fail(std::move(state.cause), sequence); break;
    case ClMarkState::kEnqueued: {
      ClInFlight command;
      command.sequence = sequence;
      command.what = "an event wait";
      command.source = source_id;
      command.source_mark = wait.mark;
      const Status status = enqueue_wait(*context_, queue_, state.event, command.event);
      if (!status.ok()) {
        fail_record(status, sequence, command.what, {});
        break;
      }
      unflushed_ = true;
      progress_.add(std::move(command));
      break;
    }
  }
  return Outcome::kHandedOver;
}

OpenClStream::Outcome OpenClStream::discard(const RecordHeader& header, std::uint64_t sequence, Discarded& discarded) {
  if (header.kind == RecordKind::kCopy) {
    const auto& copy = record_cast<CopyRecord>(header);
    std::free(copy.staging);
    if (copy.staging) shared_->uncount_staged(copy.bytes);
  } else if (header.kind == RecordKind::kHostFunction) {
    if (host_ == HostState::kRunning) return Outcome::kCut;
    if (host_ == HostState::kNone) host_function_.reset(record_cast<HostFunctionRecord>(header).payload);
    if (host_function_) discarded.push_back(std::move(host_function_));
    host_ = HostState::kNone;
  } else if (header.kind == RecordKind::kReplay) {
    return discard_replay(record_cast<ReplayRecord>(header), sequence);
  }
  return Outcome::kHandedOver;
}

bool OpenClStream::queue_is_full() {
  if (progress_.depth() < kMaxInFlight) return false;
  progress_.reap();
  if (progress_.depth() < kMaxInFlight) return false;
  if (room_awaited_) return true;
  const ClEvent middle = progress_.middle();
  if (!middle) return false;
  shared_->service.start();
  if (unflushed_) flush();
  room_awaited_ = when_ended(middle, shared_->service, &OpenClStream::queue_has_room, 0).ok();
  return room_awaited_;
}

void OpenClStream::queue_has_room(std::uint64_t) {
  {
    const std::lock_guard lock(pump_mutex_);
    room_awaited_ = false;
  }
  kick();
}

Status OpenClStream::when_ended(const ClEvent& event, TaskThread& thread, void (OpenClStream::*action)(std::uint64_t),
                                std::uint64_t argument, std::shared_ptr<void> kept) {
  struct Call {
    std::shared_ptr<OpenClShared> shared;  // keeps the thread's object
    TaskThread& thread;
    std::function<void()> task;
  };
  auto call = std::make_unique<Call>(
      Call{shared_, thread, [stream = weak_from_this(), action, argument, kept = std::move(kept)] {
             if (const auto self = stream.lock()) (self.get()->*action)(argument);
           }});
  const auto on_event = [](cl_event, cl_int, void* data) {
    const std::unique_ptr<Call> owned(static_cast<Call*>(data));
    owned->thread.post(std::move(owned->task));
  };
  const cl_int code = context_->cl.clSetEventCallback(event.get(), kClComplete, on_event, call.get());
  if (code != kClSuccess) return cl_error(code, "clSetEventCallback", "its end could not be watched");
  (void)call.release();
  return {};
}

void OpenClStream::fail_record(const Status& why, std::uint64_t sequence, const std::string& what,
                               const std::string& name) {
  ErrorDetails details = why.details();
  details.sentence = what + ": " + details.sentence;
  details.name = name;
  details.sequence = sequence;
  details.submitted = true;
  progress_.fail(Status(std::move(details)), sequence);
}

// --- Host functions ---

OpenClStream::Outcome OpenClStream::execute_host_function(const HostFunctionRecord& record, std::uint64_t sequence,
                                                          const ReplayRecord* replay) {
  if (host_ == HostState::kDone) {
    host_ = HostState::kNone;
    return Outcome::kHandedOver;
  }
  if (host_ != HostState::kNone) return Outcome::kCut;
  host_ = HostState::kWaiting;
  host_sequence_ = sequence;
  if (replay) host_function_ = bind_kept(*record.payload, queue_, replay->program->block(replay->step));
  else host_function_.reset(record.payload);
  shared_->host_functions.start();
  ClInFlight command;  // others may have put work into the queue, so only a marker tells when it is the function's turn
  command.sequence = sequence;
  command.what = "a host function";
  Status status = enqueue_marker(*context_, queue_, command.event);
  if (status.ok()) {
    flush();
    const ClEvent event = command.event.share();
    progress_.add(std::move(command));
    status = when_ended(event, shared_->host_functions, &OpenClStream::host_function_turn, sequence);
  }
  if (!status.ok()) fail_record(status, sequence, "host function '" + host_function_->name + "'", host_function_->name);
  return Outcome::kCut;
}

void OpenClStream::host_function_turn(std::uint64_t sequence) {
  progress_.reap();  // did all before it succeed?
  std::shared_ptr<HostFunction> function;
  {
    const std::lock_guard lock(pump_mutex_);
    if (host_ == HostState::kWaiting && host_sequence_ == sequence && !progress_.failed()) {
      host_ = HostState::kRunning;
      function = std::move(host_function_);
    }
  }
  if (!function) {
    kick();
    return;
  }
  const std::int64_t started_ns = now_ns();
  Status outcome = run_host_function(*function, sequence);
  const std::int64_t ended_ns = now_ns();
  if (!outcome.ok()) progress_.fail(std::move(outcome), sequence);
  {
    const CallbackScope scope;  // destructors of captured data are the user's code too
    function.reset();
  }
  if (TimelineLog* log = shared_->environment.timeline.load(std::memory_order_acquire)) {
    log->started(static_cast<Sink*>(&ring_), sequence, started_ns);
    log->ended(static_cast<Sink*>(&ring_), sequence, ended_ns);
  }
  {
    const std::lock_guard lock(pump_mutex_);
    host_ = HostState::kDone;
  }
  kick();
}

}  // namespace slipway::internal
