// Replays: the tape's records become commands up to the first gate that is not open, which cuts the stream. Values are
// therefore fixed when what needs them is handed over, and whoever opens the gate hands it over. A large graph is
// flushed in pieces, so that the device begins with the first while the others are handed over.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "drivers/opencl/opencl_commands.h"
#include "drivers/opencl/opencl_stream.h"
#include "engine/replay_program.h"

namespace slipway::internal {
namespace {

// Nodes up to the first flush of a replay, and how long pieces grow: each is twice the one before, so that a device
// which is slow to take work up is not flushed for every few.
constexpr std::size_t kFirstPiece = 16;
constexpr std::size_t kLargestPiece = 256;
// Of a loop, in one turn of its stream.
constexpr unsigned kTurns = 128;

// One for each time that a stream really waits; it ends by itself.
class ReplayWait final : public Resumable {
 public:
  explicit ReplayWait(std::weak_ptr<OpenClStream> stream) : stream_(std::move(stream)) {}
  void resume() override {
    const std::unique_ptr<ReplayWait> self(this);
    if (const auto stream = stream_.lock()) stream->go_on_with_replay();
  }

 private:
  std::weak_ptr<OpenClStream> stream_;
};

}  // namespace

void OpenClStream::go_on_with_replay() {
  replay_waits_.store(false, std::memory_order_seq_cst);  // before the kick, which takes the pump's mutex
  kick();
}

bool OpenClStream::waits_for(Progress& progress, std::uint64_t step) {
  if (progress.completed() >= step) return false;
  // A wait that a failure left behind may still be there; its end kicks as well.
  if (replay_waits_.exchange(true, std::memory_order_seq_cst)) return true;
  auto wait = std::make_unique<ReplayWait>(weak_from_this());
  if (progress.add_waiter(step, wait.get(), [] {})) {
    (void)wait.release();
    return true;
  }
  replay_waits_.store(false, std::memory_order_seq_cst);
  return false;
}

OpenClStream::Outcome OpenClStream::execute_replay(const ReplayRecord& record, std::uint64_t sequence) {
  ReplayProgram& program = *record.program;
  if (!replaying_) {
    // Steps are serial. In this queue they are so by themselves.
    const bool behind_the_last = last_program_ == program.id() && last_step_ + 1 == record.step;
    if (!behind_the_last && waits_for(program.done(), record.step - 1)) return Outcome::kCut;
    replaying_ = true;
    replay_at_ = 0;
    unflushed_nodes_ = 0;
    piece_ = kFirstPiece;
    if (TimelineLog* log = shared_->environment.timeline.load(std::memory_order_acquire)) {
      log->started(static_cast<Sink*>(&ring_), sequence, now_ns());
      log->describe(static_cast<Sink*>(&ring_), sequence, program.name(), &program, record.step);
    }
  }
  Status cause = program.cancellation_of(record.step);
  const std::byte* const tape = program.tape(0, record.step);
  unsigned turns = 0;
  while (cause.ok() && replay_at_ != program.tape_bytes(0)) {
    const auto& header = *reinterpret_cast<const RecordHeader*>(tape + replay_at_);
    std::int64_t distance = header.size_bytes;
    Outcome outcome = Outcome::kHandedOver;
    switch (header.kind) {
      case RecordKind::kGroup:
        outcome = pass_gate(record, sequence, record_cast<GroupRecord>(header).group, cause);
        break;
      case RecordKind::kCondition:
        outcome = pass_condition(record_cast<ConditionRecord>(header), record, sequence, distance, cause);
        break;
      case RecordKind::kJump: distance = record_cast<JumpRecord>(header).distance; break;
      default: outcome = execute_node(header, record, sequence, cause); break;
    }
    if (outcome == Outcome::kCut) return Outcome::kCut;
    replay_at_ += static_cast<std::uint64_t>(distance);
    if (distance >= 0 || !cause.ok()) continue;
    cause = program.cancellation_of(record.step);
    if (++turns == kTurns && cause.ok()) {       // where conditions are read at once: others have their turn
      if (!std::exchange(turn_posted_, true)) {  // one at a time, however often it is kicked meanwhile
        shared_->service.post([stream = weak_from_this()] {
          if (const auto self = stream.lock()) self->take_turn();
        });
      }
      return Outcome::kCut;
    }
  }
  if (!cause.ok() && !give_up_host_function()) return Outcome::kCut;
  end_replay(record, sequence, cause);
  return Outcome::kHandedOver;
}

void OpenClStream::take_turn() {
  {
    const std::lock_guard lock(pump_mutex_);
    turn_posted_ = false;
  }
  kick();
}

// A replay that ends early leaves neither a host function that waits for its turn nor the outcome of one behind: the
// next replay would take them for its own. False: it runs, and whoever runs it goes on with the stream.
bool OpenClStream::give_up_host_function() {
  if (host_ == HostState::kRunning) return false;
  host_ = HostState::kNone;
  host_function_.reset();
  return true;
}

OpenClStream::Outcome OpenClStream::pass_gate(const ReplayRecord& record, std::uint64_t sequence, std::uint32_t index,
                                              Status& cause) {
  ReplayProgram& program = *record.program;
  const UpdateGroup& group = program.group(0, index);
  TimelineLog* log = shared_->environment.timeline.load(std::memory_order_acquire);
  if (waits_for(program.gate(group.gate), record.step)) {
    if (log && gate_since_ns_ == 0) gate_since_ns_ = now_ns();
    return Outcome::kCut;
  }
  const std::int64_t since = std::exchange(gate_since_ns_, 0);
  if (log && since != 0) {
    TimelineEntry entry;
    entry.kind = TimelineEntry::Kind::kGateWait;
    entry.name = group.before;
    entry.gate = group.gate;
    entry.subject = program.name();
    entry.sequence = sequence;
    entry.step = record.step;
    entry.started_ns = since;
    entry.ended_ns = now_ns();
    log->span(std::move(entry), static_cast<Sink*>(&ring_), &program);
  }
  cause = program.cancellation_of(record.step);
  if (cause.ok()) program.patch(0, group, record.step);
  return Outcome::kHandedOver;
}

OpenClStream::Outcome OpenClStream::execute_node(const RecordHeader& header, const ReplayRecord& record,
                                                 std::uint64_t sequence, Status& cause) {
  if (header.kind == RecordKind::kHostFunction) {
    // Where it failed, what is left of the replay is discarded in the next turn.
    if (execute_host_function(record_cast<HostFunctionRecord>(header), sequence, &record) == Outcome::kCut) {
      return Outcome::kCut;
    }
  } else {
    if (queue_is_full()) return Outcome::kCut;
    ClInFlight command;
    command.sequence = sequence;
    if (shared_->environment.timeline.load(std::memory_order_relaxed)) {
      command.enqueued_ns = now_ns();
      command.node_of = record.program;
      command.step = record.step;
    }
    enqueue_work(header, std::move(command));
    if (++unflushed_nodes_ >= piece_) {
      unflushed_nodes_ = 0;
      piece_ = std::min(2 * piece_, kLargestPiece);
      flush();
    }
  }
  if (progress_.failed()) cause = progress_.failure();
  return Outcome::kHandedOver;
}

void OpenClStream::end_replay(const ReplayRecord& record, std::uint64_t sequence, const Status& cause) {
  replaying_ = false;
  replay_at_ = 0;
  gate_since_ns_ = 0;
  condition_read_ = ClEvent();
  condition_.reset();
  last_program_ = record.program->id();
  last_step_ = record.step;
  if (!cause.ok()) {
    record.program->cancel(record.step, cause, freed_);
    progress_.fail(cause, sequence);
  }
  // The step ends when the device has run what was handed over of it.
  shared_->service.start();
  ClInFlight command;
  command.sequence = sequence;
  command.what = "the end of a replay";
  if (shared_->environment.timeline.load(std::memory_order_relaxed)) command.enqueued_ns = now_ns();
  command.ends = record.program;
  command.step = record.step;
  const Status status = enqueue_marker(*context_, queue_, command.event);
  if (!status.ok()) {
    fail_record(status, sequence, command.what, record.program->name());
    record.program->cancel(record.step, progress_.failure(), freed_);
    record.program->finish(record.step, freed_);
    return;
  }
  unflushed_ = true;
  const ClEvent event = command.event.share();
  progress_.add(std::move(command));
  // Without the call the step's end is noticed by the next who looks at the stream.
  (void)when_ended(event, shared_->service, &OpenClStream::go_on, 0);
}

void OpenClStream::go_on(std::uint64_t) { kick(); }

OpenClStream::Outcome OpenClStream::discard_replay(const ReplayRecord& record, std::uint64_t sequence) {
  if (!give_up_host_function()) return Outcome::kCut;
  if (replaying_) {
    end_replay(record, sequence, progress_.failure());
  } else {
    record.program->cancel(record.step, progress_.failure(), freed_);
    record.program->finish(record.step, freed_);
  }
  return Outcome::kHandedOver;
}

}  // namespace slipway::internal
