// Executes the records of a lane. A driver gives an Executor that does what differs between devices:
//   void launch(const LaunchRecord&, Lane&);           may throw: the stream fails with it
//   void copy(const CopyRecord&, const void* source);  source: the record's own bytes, or where `from` points
//   void fill(const FillRecord&);
//   void event(const EventRecord&, RecordKind);        told of marks and waits that were passed
//   void host_function(const HostFunctionRecord&);     told of it before it runs
//   DriverEnvironment& environment();
// One of a simulation has `Steps` (engine/walker_simulated.h): it is told of more, and given one record or node a turn.
// and uses `&walk<Executor>` as its WalkFunction. Everything else about records is here.
#pragma once

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rules.h"
#include "device/driver.h"
#include "engine/conditional.h"
#include "engine/lane_event.h"
#include "engine/tape_calls.h"
#include "engine/walk_event.h"

namespace slipway::internal {

// Records of a lane before others get a look. A switch of lanes costs about 40 ns, which 128 records of 10 ns hide.
constexpr unsigned kTurnRecords = 128;

// What a record owns is given up without being executed.
void discard_payload(const RecordHeader& header, DriverEnvironment& environment);
// Gives up everything that a lane still holds, after its engine has stopped.
void discard_lane(Lane& lane, DriverEnvironment& environment);
// The failure of the record `sequence`, or of what it was walking, from the exception that is being handled.
Status failure_of(const RecordHeader& header, const std::string& name, std::uint64_t sequence);

template <class Executor>
class Walker {
  static constexpr bool kSimulated = requires { typename Executor::Steps; };
  friend struct SimulatedWalk;

 public:
  Walker(Executor& executor, Engine& engine, Lane& lane)
      : executor_(executor), engine_(engine), lane_(lane), at_(lane.read_position.load(std::memory_order_relaxed)) {}

  WalkResult walk() {
    for (unsigned done = 0;;) {
      const std::uint64_t end = lane_.published();
      if (at_ == end) return leave(WalkResult::kEmpty);
      // Behind the look at what is published: what was submitted to a timeline is executed under it.
      log_ = executor_.environment().timeline.load(std::memory_order_acquire);
      while (at_ != end) {
        const RecordHeader& header = lane_.at(at_);
        if (header.kind == RecordKind::kPad) {
          at_ += header.size_bytes;
          continue;
        }
        if (!step(header)) return stopped_;
        at_ += header.size_bytes;
        // Room is given back in large pieces, so that the submitter's line is not taken for each record.
        if (at_ - given_back_ > lane_.capacity_bytes() / 4) give_back();
        if (++done == (kSimulated ? 1 : kTurnRecords)) return leave(WalkResult::kTurn);
      }
    }
  }

 private:
  WalkResult leave(WalkResult result) {
    lane_.read_position.store(at_, std::memory_order_relaxed);
    give_back();
    return result;
  }
  void give_back() {
    lane_.consume_to(at_);
    given_back_ = at_;
  }

  // False: the lane is blocked at this record, and no longer ours.
  [[gnu::always_inline]] bool step(const RecordHeader& header) {
    const std::uint64_t sequence = lane_.sequence + 1;
    if (lane_.discarding.load(std::memory_order_relaxed)) [[unlikely]]
      return discard(header, sequence);
    if (log_) [[unlikely]]
      log_start(header, sequence);
    switch (header.kind) {
      case RecordKind::kLaunch: launch(record_cast<LaunchRecord>(header), sequence); break;
      case RecordKind::kCopy:
      case RecordKind::kCopyInline: copy(header); break;
      case RecordKind::kFill: executor_.fill(record_cast<FillRecord>(header)); break;
      case RecordKind::kHostFunction:
        if (!host_function(record_cast<HostFunctionRecord>(header), sequence)) return false;
        break;
      case RecordKind::kEventMark: mark(record_cast<EventRecord>(header), sequence); return true;
      case RecordKind::kEventWait:
        if (!wait(record_cast<EventRecord>(header), sequence)) return false;
        break;
      case RecordKind::kReplay:
        if (!replay(record_cast<ReplayRecord>(header), sequence)) return false;
        break;
      case RecordKind::kUpdate:
        if constexpr (kSimulated) {
          if (!Executor::Steps::update(*this, record_cast<UpdateRecord>(header), sequence)) return false;
        }
        break;
      case RecordKind::kGroup:  // on tapes only
      case RecordKind::kOpenGate:
      case RecordKind::kCall:
      case RecordKind::kWaitGate:
      case RecordKind::kResetGate:
      case RecordKind::kCondition:
      case RecordKind::kJump:
      case RecordKind::kPad: break;
    }
    lane_.sequence = sequence;
    if (log_) [[unlikely]]
      log_->ended(sink(), sequence, now_ns());
    lane_.progress().advance(sequence);
    return true;
  }

  void launch(const LaunchRecord& record, std::uint64_t sequence) {
    try {
      executor_.launch(record, lane_);
    } catch (...) {
      lane_.fail(sequence, failure_of(record.header, record.code->name, sequence - lane_.base));
    }
  }

  void copy(const RecordHeader& header) {
    const auto& record = record_cast<CopyRecord>(header);
    const auto* source = header.kind == RecordKind::kCopyInline
                             ? reinterpret_cast<const std::byte*>(&header) + kCopyInlineOffset
                             : reinterpret_cast<const std::byte*>(record.from);
    executor_.copy(record, source);
    discard_payload(header, executor_.environment());  // the staging block
  }

  void mark(const EventRecord& record, std::uint64_t sequence) {
    lane_.sequence = sequence;
    if (record.event) {
      auto& event = static_cast<LaneEvent&>(*record.event);
      if (event.timing()) event.passed(record.mark, now_ns());
    }
    executor_.event(record, RecordKind::kEventMark);
    if (log_) [[unlikely]]
      log_->ended(sink(), sequence, now_ns());
    lane_.progress().announce(sequence, freed_);
    resume_all(freed_);
  }

  // True: the lane waits for the source to reach `count`, and is no longer ours.
  bool blocks_on(Progress& source, std::uint64_t count) {
    if (source.completed() >= count) return false;
    if (!log_) lane_.stands_since = 0;  // what a timeline that is off by now left behind
    leave(WalkResult::kBlocked);
    if (engine_.stay(source, count)) {
      if (executor_.environment().timeline.load(std::memory_order_acquire) == log_) return false;
      stopped_ = WalkResult::kTurn;  // the timeline was turned on or off meanwhile: the next turn looks at it
      return true;
    }
    if constexpr (kSimulated) Executor::Steps::blocks(*this, source, count);
    return source.add_waiter(count, &lane_,
                             [&] { lane_.state().store(LaneState::kBlocked, std::memory_order_seq_cst); });
  }

  // Walks one tape of the program for one step, from where it was left. Steps of a program are serial.
  bool replay(const ReplayRecord& record, std::uint64_t sequence) {
    ReplayProgram& program = *record.program;
    const std::uint64_t step = record.step;
    if (SLIPWAY_RULE(kSerialSteps) && record.branch == 0 && lane_.replay_at == 0 && blocks_on(program.done(), step - 1))
      return false;
    if constexpr (kSimulated) {
      if (lane_.replay_at == 0) Executor::Steps::tell(*this, WalkEvent::What::kStepBegins, record);
    }
    Status cause = program.cancellation_of(step);
    const std::byte* const tape = program.tape(record.branch, step);
    const std::byte* const end = tape + program.tape_bytes(record.branch);
    const std::byte* at = tape + lane_.replay_at;
    unsigned turns = 0;
    try {
      while (cause.ok()) {
        if constexpr (!kSimulated) {
          if (!log_) [[likely]]
            run_launches(at, end);
        }
        if (at == end) break;
        const auto& header = *reinterpret_cast<const RecordHeader*>(at);
        lane_.replay_at = static_cast<std::uint64_t>(at - tape);
        if constexpr (kSimulated) {
          if (Executor::Steps::begins_task(*this, record, header)) return Executor::Steps::end_turn(*this);
        }
        std::int64_t distance = header.size_bytes;
        if (!node(header, record, sequence, cause, distance)) return false;
        at += distance;
        if constexpr (kSimulated) {
          lane_.replay_at = static_cast<std::uint64_t>(at - tape);
          if (cause.ok()) return Executor::Steps::end_turn(*this);
        }
        if (distance < 0 && ++turns == kTurnRecords && cause.ok()) {
          // A loop gives others a look, as many records do. It may last until one of them has done something.
          lane_.replay_at = static_cast<std::uint64_t>(at - tape);
          stopped_ = leave(WalkResult::kLoop);
          return false;
        }
      }
    } catch (...) {
      cause = failure_of(header_at(at), name_at(program, record.branch, step, at), sequence - lane_.base);
    }
    if (!cause.ok()) cancel(program, step, cause);
    lane_.replay_at = program.tape_bytes(record.branch);
    // The other branches have ended when the last of them was joined, unless the step was cancelled.
    if (record.branch == 0 && program.branch_count() > 1 && blocks_on(program.sides(), step)) return false;
    lane_.replay_at = 0;
    lane_.resumed = false;  // a host function that was out while its step was cancelled
    lane_.stands_since = 0;
    if constexpr (kSimulated) Executor::Steps::tell(*this, WalkEvent::What::kStepEnds, record);
    if (log_) [[unlikely]]
      log_->ended(sink(), sequence, now_ns());  // before anybody sees that the step has passed
    end_replay(record, sequence, std::move(cause));
    return true;
  }

  void cancel(ReplayProgram& program, std::uint64_t step, const Status& cause) {
    program.cancel(step, cause, freed_);
    resume_all(freed_);
  }
  void end_replay(const ReplayRecord& record, std::uint64_t sequence, Status cause) {
    if (record.branch != 0) {  // a lane of the program's own, which goes on with the next step
      record.program->end_side(record.step, freed_);
    } else {
      if (!cause.ok()) lane_.fail(sequence, std::move(cause));
      record.program->finish(record.step, freed_);
    }
    resume_all(freed_);
  }

  // The launches from here on, up to something else. Where one throws, `at` is at it.
  void run_launches(const std::byte*& at, const std::byte* const end) {
    const std::byte* next = at;
    try {
      while (next != end) {
        const RecordHeader& header = header_at(next);
        if (header.kind == RecordKind::kCall) {
          run_calls(next);
        } else if (header.kind == RecordKind::kLaunch) {
          executor_.launch(record_cast<LaunchRecord>(header), lane_);
          next += header.size_bytes;
        } else {
          break;
        }
      }
    } catch (...) {
      at = next;
      throw;
    }
    at = next;
  }

  // One record of a tape; `distance`: how far on the next one lies. False: the lane is blocked there, and no longer
  // ours.
  bool node(const RecordHeader& header, const ReplayRecord& replay, std::uint64_t sequence, Status& cause,
            std::int64_t& distance) {
    ReplayProgram& program = *replay.program;
    const std::uint64_t step = replay.step;
    std::int64_t started_ns = log_ ? now_ns() : 0;
    switch (header.kind) {
      case RecordKind::kLaunch:
      case RecordKind::kCall:
        if constexpr (kSimulated) {
          if (!log_) return Executor::Steps::launch(*this, header);
        }
        launch_logged(header, replay, sequence);
        return true;
      case RecordKind::kGroup: return group(replay, record_cast<GroupRecord>(header).group, sequence, cause);
      case RecordKind::kOpenGate:
        program.open_gate(record_cast<GateRecord>(header).gate, step, freed_);
        resume_all(freed_);
        return true;
      case RecordKind::kJump:
        distance = record_cast<JumpRecord>(header).distance;
        if (distance < 0) cause = program.cancellation_of(step);  // a loop passes no gate that would tell
        return true;
      case RecordKind::kCondition:
        distance = pass_condition(executor_, record_cast<ConditionRecord>(header), replay, cause);
        break;
      case RecordKind::kCopy:
        executor_.copy(record_cast<CopyRecord>(header),
                       reinterpret_cast<const void*>(record_cast<CopyRecord>(header).from));
        break;
      case RecordKind::kCopyInline:
        executor_.copy(record_cast<CopyRecord>(header),
                       reinterpret_cast<const std::byte*>(&header) + kCopyInlineOffset);
        break;
      case RecordKind::kFill: executor_.fill(record_cast<FillRecord>(header)); break;
      case RecordKind::kWaitGate:
        if constexpr (kSimulated)
          return Executor::Steps::pass(*this, replay, record_cast<GateRecord>(header).gate, cause);
        break;
      case RecordKind::kResetGate:
        if constexpr (kSimulated) Executor::Steps::reset(*this, replay, record_cast<GateRecord>(header).gate);
        break;
      case RecordKind::kHostFunction:
        if (lane_.resumed) {
          started_ns = std::exchange(lane_.stands_since, 0);
        } else {
          lane_.stands_since = engine_.posts_host_functions() ? started_ns : 0;
        }
        if (!kept_host_function(record_cast<HostFunctionRecord>(header), replay, sequence, cause)) return false;
        break;
      default: break;
    }
    if (log_) [[unlikely]]
      log_node(name_of_record(header), program, step, sequence, started_ns);
    return true;
  }

  bool group(const ReplayRecord& replay, std::uint32_t index, std::uint64_t sequence, Status& cause) {
    ReplayProgram& program = *replay.program;
    const std::uint64_t step = replay.step;
    const UpdateGroup& group = program.group(replay.branch, index);
    if (log_) [[unlikely]] {
      if (!pass_logged(program, group, step, sequence)) return false;
    } else if (blocks_on(program.gate(group.gate), step)) {
      return false;
    }
    cause = program.cancellation_of(step);
    if (cause.ok()) program.patch(replay.branch, group, step);
    if constexpr (kSimulated) {
      if (cause.ok()) Executor::Steps::tell(*this, WalkEvent::What::kGroup, replay, group.gate);
    }
    return true;
  }

  // A host function that the graph keeps: it may run many times.
  bool kept_host_function(const HostFunctionRecord& record, const ReplayRecord& replay, std::uint64_t sequence,
                          Status& cause) {
    if (lane_.resumed) {
      lane_.resumed = false;
      cause = std::exchange(lane_.resume_status, Status());
      return true;
    }
    if (engine_.posts_host_functions() && !(cause = engine_.host_thread().start()).ok()) return true;
    executor_.host_function(record);
    auto function = bind_kept(*record.payload, nullptr, replay.program->block(replay.step));
    if (!engine_.posts_host_functions()) {
      cause = run_host_function(*function, sequence - lane_.base);
      return true;
    }
    hand_over(std::move(function), sequence);
    return false;
  }

  // The lane is the host thread's until it makes it ready.
  void hand_over(std::shared_ptr<HostFunction>&& function, std::uint64_t sequence) {
    leave(WalkResult::kBlocked);
    lane_.state().store(LaneState::kBlocked, std::memory_order_seq_cst);
    engine_.host_thread().post(std::move(function), sequence - lane_.base,
                               [&engine = engine_, &lane = lane_](Status status) {
                                 lane.resumed = true;
                                 lane.resume_status = std::move(status);
                                 engine.make_ready(lane);
                               });
  }

  // --- For the timeline; only while it is on. Out of line, so that the way without it pays no registers and stack ---

  // False: the lane is blocked at the gate, and no longer ours.
  [[gnu::noinline]] bool pass_logged(ReplayProgram& program, const UpdateGroup& group, std::uint64_t step,
                                     std::uint64_t sequence) {
    if (program.gate(group.gate).completed() < step) {
      lane_.stands_since = now_ns();
      if (blocks_on(program.gate(group.gate), step)) return false;
    }
    if (lane_.stands_since == 0) return true;
    TimelineEntry entry;
    entry.kind = TimelineEntry::Kind::kGateWait;
    entry.name = group.before;
    entry.gate = group.gate;
    entry.started_ns = std::exchange(lane_.stands_since, 0);
    log_inside(std::move(entry), program, step, sequence);
    return true;
  }

  // Launches of a tape come here only while it is on.
  [[gnu::noinline]] void launch_logged(const RecordHeader& header, const ReplayRecord& replay, std::uint64_t sequence) {
    const auto* place = reinterpret_cast<const std::byte*>(&header);
    const std::string& name = code_at(*replay.program, replay.branch, replay.step, place).name;
    const std::int64_t started_ns = now_ns();
    try {
      if (header.kind == RecordKind::kCall) {
        run_call(record_cast<CallRecord>(header), record_cast<CallRecord>(header).entry);
      } else {
        executor_.launch(record_cast<LaunchRecord>(header), lane_);
      }
    } catch (...) {
      log_node(name, *replay.program, replay.step, sequence, started_ns);
      throw;
    }
    log_node(name, *replay.program, replay.step, sequence, started_ns);
  }

  [[gnu::noinline]] void log_start(const RecordHeader& header, std::uint64_t sequence) {
    // What goes on after a wait has started before, perhaps when the timeline was not on.
    const bool goes_on = lane_.resumed || lane_.replay_at != 0;
    const bool is_named = goes_on || log_->started(sink(), sequence, now_ns());
    if (header.kind == RecordKind::kReplay) {
      const auto& record = record_cast<ReplayRecord>(header);
      log_->describe(sink(), sequence, record.program->name(), record.program, record.step);
    } else if (!is_named) {
      log_->describe(sink(), sequence, name_of_record(header), nullptr, 0);
    }
  }
  [[gnu::noinline]] void log_node(std::string name, const ReplayProgram& program, std::uint64_t step,
                                  std::uint64_t sequence, std::int64_t started_ns) {
    TimelineEntry entry;
    entry.kind = TimelineEntry::Kind::kNode;
    entry.name = std::move(name);
    entry.started_ns = started_ns;
    log_inside(std::move(entry), program, step, sequence);
  }
  void log_inside(TimelineEntry entry, const ReplayProgram& program, std::uint64_t step, std::uint64_t sequence) {
    entry.subject = program.name();
    entry.sequence = sequence - lane_.base;
    entry.step = step;
    entry.ended_ns = now_ns();
    log_->span(std::move(entry), sink(), &program);
  }

  bool wait(const EventRecord& record, std::uint64_t sequence) {
    auto& source = *static_cast<Progress*>(record.mark_source);
    if (blocks_on(source, record.mark)) return false;
    Status cause = source.failure_of(record.mark);
    if (!cause.ok()) lane_.fail(sequence, std::move(cause));
    else executor_.event(record, RecordKind::kEventWait);
    return true;
  }

  bool host_function(const HostFunctionRecord& record, std::uint64_t sequence) {
    Status outcome;
    if (lane_.resumed) {
      lane_.resumed = false;
      lane_.payload_handed_over = false;
      outcome = std::exchange(lane_.resume_status, Status());
    } else if (!engine_.posts_host_functions()) {
      executor_.host_function(record);
      const std::unique_ptr<HostFunction> function(record.payload);
      outcome = run_host_function(*function, sequence - lane_.base);
    } else if (outcome = engine_.host_thread().start(); !outcome.ok()) {
      delete record.payload;
    } else {
      executor_.host_function(record);
      lane_.payload_handed_over = true;
      hand_over(std::unique_ptr<HostFunction>(record.payload), sequence);
      return false;
    }
    if (!outcome.ok()) lane_.fail(sequence, std::move(outcome));
    return true;
  }

  // False: the lane is blocked, and no longer ours.
  bool discard(const RecordHeader& header, std::uint64_t sequence) {
    if (header.kind == RecordKind::kReplay) {
      const auto& record = record_cast<ReplayRecord>(header);
      cancel(*record.program, record.step, lane_.failure());
      if (record.branch == 0 && record.program->branch_count() > 1 && blocks_on(record.program->sides(), record.step)) {
        return false;
      }
      end_replay(record, sequence, Status());
    }
    if constexpr (kSimulated) Executor::Steps::discard(*this, header);
    discard_payload(header, executor_.environment());  // a lane does not fail at a host function that is out
    lane_.sequence = sequence;
    if (header.kind != RecordKind::kEventMark) {
      lane_.progress().advance(sequence);
      return true;
    }
    lane_.progress().announce(sequence, freed_);  // as failed: failure_of() tells
    resume_all(freed_);
    return true;
  }

  const Sink* sink() const noexcept { return &lane_; }

  Executor& executor_;
  Engine& engine_;
  Lane& lane_;
  TimelineLog* log_ = nullptr;
  WalkResult stopped_ = WalkResult::kBlocked;  // why step() left the lane
  std::uint64_t at_;
  std::uint64_t given_back_ = at_;
  Freed freed_;
};

template <class Executor>
WalkResult walk(void* executor, Engine& engine, Lane& lane) {
  return Walker<Executor>(*static_cast<Executor*>(executor), engine, lane).walk();
}

}  // namespace slipway::internal
