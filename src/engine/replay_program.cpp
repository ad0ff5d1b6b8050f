#include "engine/replay_program.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "base/rules.h"
#include "record/kernel_code.h"

namespace slipway::internal {

void OrderedProgress::advance_locked(std::uint64_t to, Freed& freed) {
  for (;;) {
    if (all_from_ <= to + 1 && to < all_to_) to = all_to_;
    const auto next = std::find(early_.begin(), early_.end(), to + 1);
    if (next == early_.end()) break;
    early_.erase(next);
    ++to;
  }
  if (to >= all_to_) all_to_ = 0;
  std::erase_if(early_, [&](std::uint64_t step) { return step <= to; });
  reached_ = to;
  progress_.announce(to, freed);
}

void OrderedProgress::complete_locked(std::uint64_t step, Freed& freed) {
  if (step <= reached_) return;
  if (step == reached_ + 1 || !SLIPWAY_RULE(kContiguousGates)) advance_locked(step, freed);
  else early_.push_back(step);
}

void OrderedProgress::complete_all(std::uint64_t from, std::uint64_t to, Freed& freed) {
  const std::lock_guard lock(mutex_);
  if (to <= reached_ || from > to) return;
  all_from_ = all_to_ == 0 ? from : std::min(all_from_, from);
  all_to_ = std::max(all_to_, to);
  if (all_from_ <= reached_ + 1) advance_locked(reached_, freed);
}

void ReplayProgram::Free::operator()(std::byte* p) const noexcept { std::free(p); }

std::unique_ptr<std::byte, ReplayProgram::Free> ReplayProgram::allocate_lines(std::size_t bytes) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(kLine, bytes));
  if (!p) throw std::bad_alloc();
  return std::unique_ptr<std::byte, Free>(p);
}

namespace {

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Behind the last record there is a pad, so that whoever walks may look at what comes next without asking for the end.
constexpr std::uint64_t kTapeEnd = sizeof(CallRecord);

}  // namespace

ReplayProgram::ReplayProgram(std::span<const TapeLayout> branches, ReplayLayout layout)
    : id_(next_id()), layout_(std::move(layout)) {
  const std::size_t copies = layout_.own_tapes ? layout_.depth : 1;
  for (const TapeLayout& from : branches) {
    Branch b;
    b.bytes = from.records.size();
    b.stride = (b.bytes + kTapeEnd + kLine - 1) / kLine * kLine;
    b.tape = allocate_lines(copies * b.stride);
    std::copy_n(from.records.data(), b.bytes, b.tape.get());
    std::fill_n(b.tape.get() + b.bytes, b.stride - b.bytes, std::byte{});  // a pad
    make_calls(b);
    for (std::size_t i = 1; i < copies; ++i) std::copy_n(b.tape.get(), b.stride, b.tape.get() + i * b.stride);
    b.groups = from.groups;
    b.patches = from.patches;
    b.patched.resize(layout_.gate_count);
    for (const std::uint64_t most : from.most_turns) b.turns.push_back({most, 0, 0});
    branches_.push_back(std::move(b));
  }
  block_stride_ = std::max((layout_.block_bytes + kLine - 1) / kLine, std::size_t{1}) * kLine;
  blocks_ = allocate_lines(layout_.depth * block_stride_);
  std::fill_n(blocks_.get(), layout_.depth * block_stride_, std::byte{});
  gates_ = std::make_unique<OrderedProgress[]>(layout_.gate_count);
  if (layout_.resettable) events_ = std::make_unique<GateEvent[]>(layout_.gate_count);
}

void ReplayProgram::make_calls(Branch& b) {
  for (std::uint64_t at = 0; at < b.bytes;) {
    auto& header = *reinterpret_cast<RecordHeader*>(b.tape.get() + at);
    if (header.kind == RecordKind::kLaunch) {
      const auto& launch = record_cast<LaunchRecord>(header);
      const KernelCode& code = *launch.code;
      const LaunchExtent* extent = extent_of(launch);
      const bool is_plain = (header.flags & kLaunchSpread) == 0 && (!extent || extent->shared_bytes == 0);
      if (code.entry && !code.context && is_plain) {
        b.calls.emplace_back(at, &code);
        header.kind = RecordKind::kCall;
        reinterpret_cast<CallRecord&>(header).entry = code.entry;
      }
    }
    at += header.size_bytes;
  }
}

const KernelCode& ReplayProgram::code_of_call(std::uint64_t branch, std::uint64_t offset) const noexcept {
  const auto& calls = branches_[branch].calls;
  return *std::lower_bound(calls.begin(), calls.end(), offset, [](auto& c, std::uint64_t o) {
            return c.first < o;
          })->second;
}

void ReplayProgram::end_side(std::uint64_t step, Freed& freed) {
  {
    const std::lock_guard lock(mutex_);
    auto it = std::find_if(ended_sides_.begin(), ended_sides_.end(), [&](const auto& e) { return e.first == step; });
    if (it == ended_sides_.end()) it = ended_sides_.insert(it, {step, 0});
    if (++it->second < branches_.size() - 1) return;
    ended_sides_.erase(it);
  }
  sides_.complete(step, freed);
}

// Seldom, so that a launch does not read counts that are with those who walk.
void ReplayProgram::make_room(std::uint64_t step) {
  constexpr std::uint64_t kLeast = 64;
  const std::uint64_t passed = done().completed();
  const std::uint64_t room = std::max(kLeast, 2 * (step - passed));
  done_.make_room(room);
  for (std::uint32_t i = 0; i < layout_.gate_count; ++i) gates_[i].make_room(room);
  if (branches_.size() > 1) {
    sides_.make_room(room);
    ended_sides_.reserve(room);
  }
  room_until_ = passed + room;
}

void ReplayProgram::abandon(std::uint64_t step, Freed& freed) {
  for (std::uint32_t i = 0; i < layout_.gate_count; ++i) gates_[i].complete(step, freed);
  if (branches_.size() > 1) sides_.complete(step, freed);
  done_.complete(step, freed);
}

std::uint64_t ReplayProgram::cancel(std::uint64_t from_step, Status cause, Freed& freed) {
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      cancelled_ = true;
      cancelled_from_ = from_step;
      cancelled_to_ = std::numeric_limits<std::uint64_t>::max();
      cause_ = std::move(cause);
    } else {
      cancelled_from_ = std::min(cancelled_from_, from_step);
    }
    last = begun();
    if (SLIPWAY_RULE(kCauseBeforeGates)) any_cancelled_.store(true, std::memory_order_seq_cst);
  }
  if (!SLIPWAY_RULE(kCancelOpensGates)) return last;
  // An event has no step: one that is older may stand at it, and still gets its values. Those behind it see the cause
  // when they begin.
  const bool stands = done_.progress().completed_in_order() + 1 >= from_step;
  for (std::uint32_t i = 0; i < layout_.gate_count; ++i) {
    gates_[i].complete_all(from_step, last, freed);  // not those of older steps either
    // Signals that are lost here do no harm: whoever passes sees the cause, and recover() resets all.
    if (events_ && stands) events_[i].set(freed);
  }
  return last;
}

Status ReplayProgram::look_up_cancellation(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  return step >= cancelled_from_ && step <= cancelled_to_ ? cause_ : Status();
}

Status ReplayProgram::recover() {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) return {};
  const std::uint64_t passed = done_.progress().completed();
  if (passed < begun()) {
    return {ErrorCode::kBusy,
            "graph '" + layout_.name + "' has " + std::to_string(begun() - passed) +
                " cancelled steps that have not passed yet; synchronize or recover their streams first"};
  }
  cancelled_ = false;
  cancelled_to_ = begun();
  // Nobody waits at them. Those of marks are opened by cancel() alone where branches run one after the other.
  Freed nobody;
  for (std::uint32_t i = 0; i < layout_.gate_count; ++i) gates_[i].complete_all(1, begun(), nobody);
  // A step that was skipped has left some of them set.
  for (std::uint32_t i = 0; events_ && SLIPWAY_RULE(kRezero) && i < layout_.gate_count; ++i) events_[i].reset();
  return {};
}

}  // namespace slipway::internal
