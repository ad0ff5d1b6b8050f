// What a walker does besides on a simulated device: it tells of each step, ends its turn behind each node, and executes
// the work of devices with resettable gates.
#pragma once

#include <cstring>
#include <utility>

#include "engine/walk_event.h"
#include "engine/walker.h"

namespace slipway::internal {

struct SimulatedWalk {
  using What = WalkEvent::What;

  template <class W>
  static void tell(W& w, What what, const ReplayRecord& replay, std::uint32_t gate = 0, const void* object = nullptr) {
    if (what == What::kStepEnds) w.lane_.in_task = false;  // of a step that was cancelled there
    // The first branch begins and ends a step.
    if (replay.branch != 0 && (what == What::kStepBegins || what == What::kStepEnds)) return;
    w.executor_.tell({what, &w.lane_, replay.program, replay.step, gate, object});
  }
  template <class W>
  static void blocks(W& w, const Progress& source, std::uint64_t count) {
    w.executor_.tell({What::kBlocks, &w.lane_, nullptr, count, 0, &source});
  }
  template <class W>
  static bool end_turn(W& w) {
    w.stopped_ = w.leave(WalkResult::kTurn);
    return false;
  }

  // A task reads its arguments at any time between its beginning and its end, which are two turns.
  template <class W>
  static bool begins_task(W& w, const ReplayRecord& replay, const RecordHeader& header) {
    if (header.kind != RecordKind::kLaunch && header.kind != RecordKind::kCall) return false;
    if (std::exchange(w.lane_.in_task, !w.lane_.in_task)) {
      tell(w, What::kTask, replay, 0, &header);
      return false;
    }
    tell(w, What::kTaskBegins, replay, 0, &header);
    return true;
  }

  template <class W>
  static bool launch(W& w, const RecordHeader& header) {
    if (header.kind == RecordKind::kCall)
      run_call(record_cast<CallRecord>(header), record_cast<CallRecord>(header).entry);
    else w.executor_.launch(record_cast<LaunchRecord>(header), w.lane_);
    return true;
  }

  template <class W>
  static bool pass(W& w, const ReplayRecord& replay, std::uint32_t gate, Status& cause) {
    GateEvent& event = replay.program->event(gate);
    if (SLIPWAY_RULE(kGateInFront)) {
      if (w.executor_.waits_for_nothing(*replay.program, replay.step, gate)) {
        cause = w.executor_.unrecorded(*replay.program, replay.step, gate);
        return true;
      }
      if (w.blocks_on(event.progress(), event.awaited())) return false;
    }
    cause = replay.program->cancellation_of(replay.step);
    if (cause.ok()) tell(w, What::kGateWait, replay, gate);
    return true;
  }
  template <class W>
  static void reset(W& w, const ReplayRecord& replay, std::uint32_t gate) {
    if (SLIPWAY_RULE(kResetBehindWait)) replay.program->event(gate).reset();
    tell(w, What::kReset, replay, gate);
  }

  // False: the lane is blocked there.
  template <class W>
  static bool update(W& w, const UpdateRecord& record, std::uint64_t sequence) {
    ReplayProgram& program = *record.program;
    const auto about = [&](What what, std::uint32_t gate) {
      w.executor_.tell({what, &w.lane_, &program, record.step, gate, nullptr});
    };
    switch (static_cast<UpdateAction>(record.header.flags)) {
      case UpdateAction::kValues:
        std::memcpy(program.block(record.step), &record + 1, record.bytes);
        about(What::kValues, 0);
        break;
      case UpdateAction::kRewrite: {
        const UpdateGroup& group = program.group(0, record.group);
        if (Status refused = w.executor_.rewrites(program, record.step, group.gate); !refused.ok()) {
          w.lane_.fail(sequence, std::move(refused));
          // The gate is not opened as if all were well.
          if (SLIPWAY_RULE(kRescue)) w.cancel(program, record.step, w.lane_.failure());
          break;
        }
        program.patch(0, group, record.step);
        about(What::kRewrite, group.gate);
        break;
      }
      case UpdateAction::kSet: {
        const std::uint32_t gate = program.group(0, record.group).gate;
        about(program.event(gate).set(w.freed_) ? What::kSet : What::kLostSet, gate);
        resume_all(w.freed_);
        break;
      }
      case UpdateAction::kWait: return !w.blocks_on(program.done(), record.step);
    }
    return true;
  }
  // An update that is not executed: its device would wait for ever.
  template <class W>
  static void discard(W& w, const RecordHeader& header) {
    if (header.kind != RecordKind::kUpdate || !SLIPWAY_RULE(kRescue)) return;
    const auto& record = record_cast<UpdateRecord>(header);
    if (static_cast<UpdateAction>(header.flags) == UpdateAction::kSet) {
      w.cancel(*record.program, record.step, w.lane_.failure());
    }
  }
};

}  // namespace slipway::internal
