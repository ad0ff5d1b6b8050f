// A tape that is walked again and again, each time as one step with its own values.
//
// Values of a step lie in one compact block per version slot (step % depth). A publisher writes the block and then
// opens gates; whoever walks the tape patches it from the block just before a group runs, and steps are serial, so
// nobody else reads or writes the tape then.
//
// A program may have several tapes, the branches of a fork, each walked by a lane of its own. The first one begins and
// ends the step. Branches wait for each other at gates that walkers open, behind those of the values.
//   G1  gate(i) >= k: what gate i stands for is in the block of step k. Gates count steps, and only contiguously:
//       completing step k before k - 1 opens nothing.
//   G2  the block of step k is written only after done() >= k - depth.
//   G3  cancelling from step k opens every gate for step k up to the last that was begun, after the cause was stored:
//       who passes a gate and then asks cancellation_of() sees it. Until recover(), no step begins.
//   G4  done() >= the last step that was begun, and none is begun meanwhile: nobody walks a tape, so it may be changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/biased_mutex.h"
#include "base/status.h"
#include "engine/gate_event.h"
#include "engine/progress.h"
#include "record/record.h"

namespace slipway::internal {

struct PatchPlace {
  std::uint32_t from;  // in the block
  std::uint32_t to;    // in the tape
  std::uint32_t bytes;
};

// All places that one gate's values go to. Its record lies before the first node that needs one of them, and there
// all are patched: those further on are read later in the same step. Where the first node that needs them is in the
// body of a conditional node, so that it may not be reached, there is another such record with the same places further
// on; whichever comes first in a step patches.
struct UpdateGroup {
  std::string name;    // of the gate: "values", or the operation
  std::string before;  // the node that needs it first
  std::uint32_t gate = 0;
  std::uint32_t first_patch = 0;
  std::uint32_t patch_count = 0;
};

// A progress whose steps may be completed in any order. Completing needs no memory, so that giving a step up does not
// fail: room is made before a step begins.
class OrderedProgress {
 public:
  // For as many steps that are completed before their turn.
  void make_room(std::size_t steps) {
    const std::lock_guard lock(mutex_);
    early_.reserve(steps);
  }
  Progress& progress() noexcept { return progress_; }
  void complete(std::uint64_t step, Freed& freed) {
    const std::lock_guard lock(mutex_);
    if (!is_next(step)) return complete_locked(step, freed);
    reached_ = step;
    progress_.announce(step, freed);
  }
  // The same where nobody can wait for `step` yet.
  void complete_unseen(std::uint64_t step, Freed& freed) {
    const std::lock_guard lock(mutex_);
    if (!is_next(step)) return complete_locked(step, freed);
    reached_ = step;
    progress_.advance(step);
  }
  // All of these; it needs no memory, so that cancelling does not fail half-way. They end at the last step there is.
  void complete_all(std::uint64_t from, std::uint64_t to, Freed& freed);

 private:
  // The usual case: none was completed out of its order.
  bool is_next(std::uint64_t step) const noexcept { return step == reached_ + 1 && early_.empty() && all_to_ == 0; }
  void complete_locked(std::uint64_t step, Freed& freed);
  void advance_locked(std::uint64_t to, Freed& freed);
  BiasedMutex mutex_;          // makes its holder progress_'s one writer
  std::uint64_t reached_ = 0;  // as progress_, whose line is with those who wait
  Progress progress_;
  std::vector<std::uint64_t> early_;
  std::uint64_t all_from_ = 0, all_to_ = 0;  // completed early as well; none where all_to_ is 0
};

struct TapeLayout {
  std::vector<std::byte> records;
  std::vector<UpdateGroup> groups;
  std::vector<PatchPlace> patches;
  std::vector<std::uint64_t> most_turns;  // of conditional nodes: how often the body of a loop may run in a step
};

struct ReplayLayout {
  std::string name;
  std::uint32_t gate_count = 0;
  std::uint32_t block_bytes = 0;
  std::uint32_t depth = 2;
  // A tape for each slot instead of one: a step's values are then fixed once its gates are passed, whatever later
  // steps bring, as on devices that take values when work is handed over.
  bool own_tapes = false;
  bool resettable = false;  // gates are events that the tape waits for and resets (engine/gate_event.h)
};

class ReplayProgram {
 public:
  ReplayProgram(std::span<const TapeLayout> branches, ReplayLayout layout);

  std::uint64_t id() const noexcept { return id_; }  // no other program of the process has it
  const std::string& name() const noexcept { return layout_.name; }
  const ReplayLayout& layout() const noexcept { return layout_; }
  std::uint64_t branch_count() const noexcept { return branches_.size(); }
  const std::byte* tape(std::uint64_t branch, std::uint64_t step) const noexcept {
    return branches_[branch].tape.get() + tape_offset(branches_[branch], step);
  }
  std::uint64_t tape_bytes(std::uint64_t branch) const noexcept { return branches_[branch].bytes; }
  // The code of the call at this offset of a tape. Looks for it: for failures and the timeline.
  const KernelCode& code_of_call(std::uint64_t branch, std::uint64_t offset) const noexcept;
  const UpdateGroup& group(std::uint64_t branch, std::uint32_t index) const noexcept {
    return branches_[branch].groups[index];
  }

  Progress& gate(std::uint32_t index) noexcept { return gates_[index].progress(); }
  Progress& done() noexcept { return done_.progress(); }
  GateEvent& event(std::uint32_t gate) noexcept { return events_[gate]; }
  std::byte* block(std::uint64_t step) noexcept { return blocks_.get() + step % layout_.depth * block_stride_; }

  // --- By the walker ---
  // Brings the tape up to the step's values. Only what differs is written.
  void patch(std::uint64_t branch, const UpdateGroup& group, std::uint64_t step) noexcept {
    const std::byte* from = block(step);
    Branch& b = branches_[branch];
    if (std::exchange(b.patched[group.gate].step, step) == step) return;  // in a loop, or behind a body
    std::byte* tape = b.tape.get() + tape_offset(b, step);
    for (std::uint32_t i = group.first_patch; i < group.first_patch + group.patch_count; ++i) {
      const PatchPlace& place = b.patches[i];
      if (place.bytes == 4) copy_if_different<4>(tape + place.to, from + place.from);
      else if (place.bytes == 8) copy_if_different<8>(tape + place.to, from + place.from);
      else if (std::memcmp(tape + place.to, from + place.from, place.bytes) != 0)
        std::memcpy(tape + place.to, from + place.from, place.bytes);
    }
  }
  // Where the walk goes on behind a condition that has this value, read as an unsigned number of its size: the distance
  // in bytes. Timeout when a loop has had all its turns.
  Result<std::uint32_t> choose(std::uint64_t branch, const ConditionRecord& condition, std::uint64_t value,
                               std::uint64_t step);
  void finish(std::uint64_t step, Freed& freed) { done_.complete(step, freed); }

  // A branch other than the first has ended its part, and touches the program no more.
  void end_side(std::uint64_t step, Freed& freed);
  // Steps of which all other branches have ended.
  Progress& sides() noexcept { return sides_.progress(); }

  // --- By whoever launches and publishes ---
  // The next step's number; the cause when steps were cancelled and recover() was not called. Throws bad_alloc, and has
  // begun none then.
  Result<std::uint64_t> begin_step() {
    const std::lock_guard lock(mutex_);
    if (cancelled_) [[unlikely]]
      return cause_;
    const std::uint64_t step = begun_.load(std::memory_order_relaxed) + 1;
    if (step > room_until_) [[unlikely]]
      make_room(step);
    begun_.store(step, std::memory_order_release);
    return step;
  }
  std::uint64_t begun() const noexcept { return begun_.load(std::memory_order_acquire); }
  void open_gate(std::uint32_t index, std::uint64_t step, Freed& freed) { gates_[index].complete(step, freed); }
  // The same before the step is submitted, by who launches it: no walker and no publisher knows of it yet.
  void open_gate_unseen(std::uint32_t index, std::uint64_t step, Freed& freed) {
    gates_[index].complete_unseen(step, freed);
  }
  // A step that was begun and never submitted: it counts as run.
  void abandon(std::uint64_t step, Freed& freed);

  // Cancels this step and all behind it, up to the last that was begun, which is returned. The first cause stays.
  std::uint64_t cancel(std::uint64_t from_step, Status cause, Freed& freed);
  // Success when the step was not cancelled. Gates are passed with acquire, after which the store of cancel() is
  // visible.
  Status cancellation_of(std::uint64_t step) const {
    if (!any_cancelled()) [[likely]]
      return {};
    return look_up_cancellation(step);
  }
  bool cancelled(std::uint64_t step) const { return any_cancelled() && !look_up_cancellation(step).ok(); }
  bool any_cancelled() const noexcept { return any_cancelled_.load(std::memory_order_seq_cst); }
  // Busy when steps that were begun have not passed.
  Status recover();

  // --- By whoever rebinds addresses, while no step is under way and none can begin (G4) ---
  template <class Visit>  // visit(branch, std::byte* tape, bytes), for each copy of each branch's tape
  void for_each_tape(Visit&& visit) {
    const std::size_t copies = layout_.own_tapes ? layout_.depth : 1;
    std::uint32_t index = 0;
    for (Branch& b : branches_) {
      for (std::size_t i = 0; i < copies; ++i) visit(index, b.tape.get() + i * b.stride, b.bytes);
      ++index;
    }
  }

 private:
  Status look_up_cancellation(std::uint64_t step) const;
  void make_room(std::uint64_t step);
  template <std::size_t kBytes>
  static void copy_if_different(std::byte* to, const std::byte* from) noexcept {
    if (std::memcmp(to, from, kBytes) != 0) std::memcpy(to, from, kBytes);
  }
  static constexpr std::size_t kLine = 64;
  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  static std::unique_ptr<std::byte, Free> allocate_lines(std::size_t bytes);
  struct Branch {
    std::uint64_t bytes = 0;
    std::uint64_t stride = 0;
    std::unique_ptr<std::byte, Free> tape{};
    std::vector<UpdateGroup> groups{};
    std::vector<PatchPlace> patches{};
    std::vector<std::pair<std::uint64_t, const KernelCode*>> calls{};  // by offset
    // The walker's: by gate the last step that was patched, and by conditional node what its loop has had. On lines of
    // their own: what lies beside them in memory may be a publisher's.
    struct alignas(kLine) Patched {
      std::uint64_t step = 0;
    };
    std::vector<Patched> patched{};
    struct alignas(kLine) Turns {
      std::uint64_t most = 0;
      std::uint64_t step = 0;
      std::uint64_t taken = 0;  // in that step, since the loop was entered
    };
    std::vector<Turns> turns{};
  };
  static void make_calls(Branch& branch);
  std::uint64_t tape_offset(const Branch& branch, std::uint64_t step) const noexcept {
    return layout_.own_tapes ? step % layout_.depth * branch.stride : 0;
  }

  const std::uint64_t id_;
  const ReplayLayout layout_;
  std::vector<Branch> branches_;
  std::unique_ptr<std::byte, Free> blocks_;  // each slot on lines of its own: while one is read the next one is written
  std::size_t block_stride_;
  std::unique_ptr<OrderedProgress[]> gates_;
  std::unique_ptr<GateEvent[]> events_;  // where gates are resettable
  OrderedProgress done_;
  OrderedProgress sides_;

  // Stored after the cause, before gates open. seq_cst, as is done(): who cancels stores this and reads that, who
  // begins a step has stored that and reads this. So an event is set for a step that stands at it, or the step never
  // gets there.
  std::atomic<bool> any_cancelled_{false};
  // Guards the rest. On a line of its own: walkers read what lies before, and only launches and publishers come here.
  alignas(64) mutable BiasedMutex mutex_;
  std::atomic<std::uint64_t> begun_{0};  // raised under mutex_, with release; who only wants to know reads it without
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ended_sides_;  // of steps that have some, but not all
  std::uint64_t room_until_ = 0;  // steps for which everything that counts them has room
  bool cancelled_ = false;
  std::uint64_t cancelled_from_ = 0;
  std::uint64_t cancelled_to_ = 0;  // inclusive, once recovered
  Status cause_;
};

}  // namespace slipway::internal
