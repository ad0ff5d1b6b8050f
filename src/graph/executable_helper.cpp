// What an executable counted, how it ends, and its helper thread, which publishes for those who asked for it and
// watches over open steps.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "graph/executable.h"
#include "graph/tape_layout.h"

namespace slipway::internal {

GraphCounters ExecutableCore::counters() const {
  definition_->device->check_process("a look at a graph's counters");
  GraphCounters c;
  c.launches = counts_.launches.load(std::memory_order_relaxed);
  c.replay_first = counts_.replay_first.load(std::memory_order_relaxed);
  c.update_first = counts_.update_first.load(std::memory_order_relaxed);
  for (const auto* published : {&counts_.published_first, &counts_.published_behind, &counts_.published_open})
    c.published += published->load(std::memory_order_relaxed);
  c.operation_calls = counts_.operation_calls.load(std::memory_order_relaxed);
  c.cancelled = counts_.cancelled.load(std::memory_order_relaxed);
  c.unchanged = counts_.unchanged.load(std::memory_order_relaxed);
  c.rebinds = counts_.rebinds.load(std::memory_order_relaxed);
  return c;
}

std::string ExecutableCore::what_holds(std::uint64_t step) {
  if (program_->layout().resettable) {
    return "its values are work of the device, so look for what holds its stream or the device's stream of updates";
  }
  for (std::uint32_t gate = 0; definition_->takes_values() && gate <= definition_->operations.size(); ++gate) {
    if (program_->gate(gate).completed() < step) {
      return "its gate '" + name_of_gate(*definition_, gate) + "' is closed, so look for who has to publish it";
    }
  }
  return "all of its values are there, so wait longer, or look for what holds its stream";
}

void ExecutableCore::wait_for_cancelled() {
  const std::uint64_t begun = program_->begun();
  if (program_->cancellation_of(begun).ok() || passed(begun)) return;
  DeviceImpl& device = *definition_->device;
  // A step in front of the cancelled ones may still be open.
  device.owed().check_step(this, begun, "recovering a graph").throw_if_error();
  const BlockingScope scope(device.rules());
  (void)program_->done().wait(begun, device.rules().spin_ns, device.deadline(-1));
}

void ExecutableCore::wait_for_launches(std::unique_lock<BiasedMutex>& lock) {
  const BlockingScope scope(definition_->device->rules());
  lock.lock();
}

std::unique_lock<BiasedMutex> ExecutableCore::lock_launches_with_slot() {
  for (;;) {
    std::unique_lock<BiasedMutex> lock = lock_launches();
    const std::uint64_t next = program_->begun() + 1;
    if (has_slot(next) || program_->cancelled(next)) return lock;
    lock.unlock();
    wait_for_slot(next);
  }
}

void ExecutableCore::drop() {
  if (definition_->device->forked()) return;  // there is no helper thread, and nobody waits
  std::uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::lock_guard helper(helper_mutex_);
    stopping_ = true;
    changed_.notify();
    for (const OpenStep& open : open_) {
      // What the updater has or will get is still published; the rest has nobody left.
      const bool has_values = open.step == helper_step_ || std::any_of(updates_.begin(), updates_.end(),
                                                                       [&](auto& u) { return u.step == open.step; });
      if (!open.busy && !has_values && !over(open.step) && (first == 0 || open.step < first)) first = open.step;
    }
  }
  if (first != 0) cancel(first, cancelled_error(first, ErrorCode::kCancelled, "its executable was dropped"));
  definition_->device->owed().remove(this, 0, program_->begun());
  scratch_memory_.clear();  // goes behind what was submitted, and need not wait for the helper thread to end
  if (program_->layout().resettable && program_->cancelled(program_->begun())) {
    definition_->device->updates().abandoned.store(true, std::memory_order_relaxed);
  }
}

void ExecutableCore::log_update(const std::string& name, std::uint64_t step, std::uint32_t gate,
                                std::int64_t started_ns, std::int64_t ended_ns) {
  TimelineLog* log = definition_->device->environment().timeline.load(std::memory_order_acquire);
  if (!log) return;
  TimelineEntry entry;
  entry.kind = TimelineEntry::Kind::kUpdate;
  entry.name = name;
  entry.subject = definition_->name;
  entry.step = step;
  entry.gate = gate;
  entry.started_ns = started_ns;
  entry.ended_ns = ended_ns;
  log->span(std::move(entry), nullptr, program_.get());
}

OwedUpdates::Owed ExecutableCore::owed(StreamImpl& stream, std::uint64_t step, std::uint64_t thread) const {
  const auto& groups = definition_->serial.groups;
  return {this,
          step,
          &stream,
          thread,
          &definition_->name,
          groups.empty() ? nullptr : &groups.front().name,
          [](const void* graph, std::uint64_t s) { return static_cast<const ExecutableCore*>(graph)->over(s); }};
}

void ExecutableCore::stand_behind_owed(StreamImpl& stream, std::uint64_t step) try {
  definition_->device->owed().add_published(owed(stream, step, OwedUpdates::kNobody));
} catch (...) {
  abandon(step);
  throw;
}

bool ExecutableCore::parameters_equal(std::uint64_t step, const std::vector<std::byte>& values) {
  const std::byte* block = program_->block(step);
  return std::all_of(definition_->variables.begin(), definition_->variables.end(), [&](const Variable& v) {
    return v.gate != 0 || v.is_random || std::memcmp(block + v.offset, values.data() + v.offset, v.size) == 0;
  });
}

// --- The helper thread ---

void ExecutableCore::start_helper() {
  if (helper_started_) return;
  try {
    start_detached([core = shared_from_this()] { core->helper_main(); }, "helper");  // ends after drop()
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOutOfMemory, "graph '" + definition_->name +
                                             "' could not start the thread that watches over open steps (" +
                                             error.what() + "); end other threads, or launch with values");
  }
  helper_started_ = true;
}

void ExecutableCore::wake_helper() {
  const std::lock_guard lock(helper_mutex_);  // it has looked, and sleeps
  changed_.notify();
}

void ExecutableCore::abandon(std::uint64_t step) {
  Freed freed;
  program_->abandon(step, freed);
  resume_all(freed);
  close_open(step);
}

// A step that began since the last look has its whole time before it.
std::int64_t ExecutableCore::first_seen(std::uint64_t step, std::int64_t now) const noexcept {
  for (const Look& look : looks_) {
    if (look.begun >= step) return look.at_ns;
  }
  return now;
}

void ExecutableCore::cancel_late() {
  std::int64_t limit_ns = std::chrono::nanoseconds(options_.watchdog).count();
  if (limit_ns == 0) limit_ns = definition_->device->rules().default_limit_ns;
  const std::int64_t now = now_ns();
  const std::uint64_t begun = program_->begun(), oldest = oldest_open_.load(std::memory_order_acquire);
  if (looks_.empty() || looks_.back().begun < begun) looks_.push_back({begun, now});
  while (looks_.size() > 1 && (looks_.front().begun < oldest || looks_.size() > kMostLooks))
    looks_.erase(looks_.begin());
  if (oldest == 0 || now - first_seen(oldest, now) <= limit_ns) return;
  Freed freed;
  OpenStep late;
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const OpenStep& open : open_) {
      if (!open.busy && now - first_seen(open.step, now) > limit_ns && (late.step == 0 || open.step < late.step) &&
          !over(open.step))
        late = open;
    }
    if (late.step == 0) return;
    last = cancel_locked(
        late.step,
        cancelled_error(late.step, ErrorCode::kTimeout,
                        "gate '" + name_of_gate(*definition_, late.gates_open) + "' was not opened within " +
                            std::to_string(limit_ns / 1'000'000) + " ms by the thread that owed it (thread " +
                            std::to_string(late.thread) + ")"),
        freed);
  }
  end_cancel(late.step, last, freed);
}

void ExecutableCore::helper_main() {
  const std::int64_t limit_ns = options_.watchdog.count() > 0 ? std::chrono::nanoseconds(options_.watchdog).count()
                                                              : definition_->device->rules().default_limit_ns;
  const auto look_every = std::chrono::nanoseconds(std::clamp<std::int64_t>(limit_ns / 8, 1'000'000, 1'000'000'000));
  std::unique_lock lock(helper_mutex_);
  for (;;) {
    if (updates_.empty()) {
      if (stopping_) return;
      if (oldest_open_.load(std::memory_order_acquire) == 0) {
        if (store_then_load_rare(helper_rests_, true, oldest_open_, asymmetric_) == 0) {
          // Ended by drop(), which comes with the last handle.
          changed_.wait(lock, [&] {
            return stopping_ || !updates_.empty() || oldest_open_.load(std::memory_order_acquire) != 0;
          });
        }
        helper_rests_.store(false, std::memory_order_relaxed);
      }
      // Launches do not wake it: it looks around often enough to notice what is late.
      if (!stopping_ && updates_.empty()) changed_.wait_for(lock, look_every);
    }
    if (updates_.empty()) {
      lock.unlock();
      cancel_late();
      lock.lock();
      continue;
    }
    Update update = std::move(updates_.front());
    updates_.pop_front();
    helper_step_ = update.step;  // between the list and publish(), which marks it as busy
    lock.unlock();
    std::optional<std::string> refused_by;
    try {
      publish(update.step, update.values);
    } catch (const Error& error) {
      // There is no caller to publish it again.
      refused_by = error.what();
    }
    if (refused_by) {
      Freed freed;
      std::uint64_t last = 0;
      {
        const std::lock_guard open(mutex_);
        if (!over(update.step)) {
          const Status cause = cancelled_error(update.step, ErrorCode::kCancelled, *refused_by);
          last = cancel_locked(update.step, cause, freed);
        }
      }
      if (last != 0) end_cancel(update.step, last, freed);
    }
    lock.lock();
    helper_step_ = 0;
  }
}

}  // namespace slipway::internal
