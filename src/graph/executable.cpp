#include "graph/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/rules.h"
#include "graph/capture_impl.h"

namespace slipway::internal {

ExecutableCore::ExecutableCore(std::shared_ptr<const DefinitionImpl> definition, const InstantiateOptions& options)
    : definition_(std::move(definition)), options_(options), watched_(definition_->addresses.get()) {
  ReplayLayout layout;
  layout.name = definition_->name;
  layout.gate_count = definition_->gate_count();
  layout.block_bytes = definition_->block_bytes;
  layout.depth = options.depth;
  layout.own_tapes = options.tier == Tier::kCut;
  Driver& driver = definition_->device->driver();
  layout.resettable = driver.gates().resettable;
  if (runs_beside(*definition_, options)) {
    for (std::size_t i = 1; i < definition_->branches.size(); ++i) sides_.push_back(driver.create_stream({}).take());
    program_ = std::make_shared<ReplayProgram>(definition_->branches, std::move(layout));
  } else {
    program_ = std::make_shared<ReplayProgram>(std::span(&definition_->serial, 1), std::move(layout));
  }
  open_.reserve(64);
  looks_.reserve(kMostLooks + 1);  // watching over steps allocates nothing
  first_values_ = definition_->initial_block;
  if (!definition_->random.empty()) draws_ = std::make_unique<StepDraws>(definition_->random);
  for (const Variable& v : definition_->variables) {
    scratch_.push_back(0);
    if (v.scratch_bytes == 0) continue;
    scratch_memory_.push_back(Device(definition_->device).allocate(v.scratch_bytes));
    scratch_.back() = static_cast<std::uint64_t>(scratch_memory_.back().address());
  }
}

ExecutableCore::~ExecutableCore() {
  // Replays that were submitted walk the program, whose tape refers to what the definition holds.
  DeviceImpl& device = *definition_->device;
  for (auto& side : sides_) device.retired().retire_stream(side);
  device.retired().retire([p = std::move(program_), r = definition_->resources]() mutable {
    p.reset();
    r.reset();
  });
}

Status ExecutableCore::cancelled_error(std::uint64_t step, ErrorCode code, const std::string& why) const {
  ErrorDetails details;
  details.code = code;
  details.name = definition_->name;
  details.sequence = step;
  details.submitted = true;
  details.sentence = "step " + std::to_string(step) + " of graph '" + definition_->name + "' was cancelled: " + why +
                     "; the rest of it and the steps behind it were skipped, call recover() on the graph to go on";
  return Status(std::move(details));
}

// --- Launching ---

namespace {

// By who owns them, which a pointer alone would not tell: a later stream may lie where this one did.
bool is_same(const std::weak_ptr<StreamImpl>& known, const std::shared_ptr<StreamImpl>& stream) noexcept {
  return !known.owner_before(stream) && !stream.owner_before(known);
}

}  // namespace

void ExecutableCore::remember(const std::shared_ptr<StreamImpl>& stream) {
  last_stream_ = stream;
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const std::weak_ptr<StreamImpl>& s) { return s.expired(); });
  const auto same = [&](const std::weak_ptr<StreamImpl>& known) { return is_same(known, stream); };
  if (std::none_of(streams_.begin(), streams_.end(), same)) streams_.push_back(stream);
}

std::uint64_t ExecutableCore::begin(const std::shared_ptr<StreamImpl>& stream, bool has_values) {
  watched_->check(freed_seen_, definition_->name).throw_if_error();
  const std::uint64_t next = program_->begun() + 1;
  OwedUpdates& owed = definition_->device->owed();
  if (has_values && blocking()) {
    stream->check_settling();
    owed.check_step(this, next, "launching another step in blocking mode").throw_if_error();
  } else if (next > options_.depth && definition_->takes_values() && owed.any()) {
    // Values need their slot. One that is opened now may get it by the time it is published, if another graph is in
    // front.
    owed.check_step(this, next - options_.depth, "launching another step", !has_values).throw_if_error();
  }
  if (!is_same(last_stream_, stream)) remember(stream);  // before there is a step, which would have to pass
  auto begun = program_->begin_step();
  if (!begun.ok()) refuse_step(begun.status());
  if (draws_) draw(begun.value());
  if (has_values && owed.any()) stand_behind_owed(*stream, begun.value());
  return begun.value();
}

void ExecutableCore::refuse_step(const Status& cause) const {
  ErrorDetails details = cause.details();
  details.submitted = false;
  details.sentence =
      "graph '" + definition_->name + "' takes no steps until recover() is called; the cause: " + details.sentence;
  throw Error(Status(std::move(details)).shared());
}

void ExecutableCore::draw(std::uint64_t step) try { draws_->take(step, program_->done().completed()); } catch (...) {
  abandon(step);
  throw;
}

void ExecutableCore::submit(const std::shared_ptr<StreamImpl>& stream, std::uint64_t step) {
  ReplayRecord record{};
  record.header = {sizeof record, RecordKind::kReplay, 0, 0};
  record.program = program_.get();
  record.step = step;
  if (!stream->try_submit(record)) submit_generally(*stream, record);
  count(counts_.launches);
  for (std::size_t i = 0; i < sides_.size(); ++i) submit_side(i, step);
}

void ExecutableCore::submit_generally(StreamImpl& stream, const ReplayRecord& record) {
  std::uint64_t sequence = 0;
  try {
    sequence = stream.submit_unsettled([] {}, reinterpret_cast<const std::byte*>(&record), sizeof record,
                                       definition_->name, [](StreamCounters&) {});
  } catch (...) {
    abandon(record.step);
    throw;
  }
  if (blocking()) remember_sequence(record.step, sequence);
}

void ExecutableCore::remember_sequence(std::uint64_t step, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  for (Unsettled& open : unsettled_) {
    if (open.step == step) open.sequence = sequence;
  }
}

void ExecutableCore::submit_side(std::size_t index, std::uint64_t step) {
  DriverStream& side = *sides_[index];
  ReplayRecord record{};
  record.header = {sizeof record, RecordKind::kReplay, 0, 0};
  record.program = program_.get();
  record.step = step;
  record.branch = index + 1;
  Status why;
  std::byte* place = side.sink().reserve(sizeof record, why);
  if (!place) {
    // The step is under way already, and cannot go on without this branch.
    Freed freed;
    program_->cancel(step, cancelled_error(step, why.code(), why.details().sentence), freed);
    program_->end_side(step, freed);
    resume_all(freed);
    return;
  }
  std::memcpy(place, &record, sizeof record);
  if (side.sink().commit(sizeof record)) side.kick();
}

bool ExecutableCore::embedded(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values) {
  if (!stream->may_be_captured()) return false;
  const auto capture = std::dynamic_pointer_cast<CaptureImpl>(stream->capture());
  if (!capture) return false;
  std::uint64_t seen = ~std::uint64_t{0};  // the new graph would take what lies there now for what was captured
  definition_->addresses->check(seen, definition_->name).throw_if_error();
  if (counts_.rebinds.load(std::memory_order_relaxed) != 0) {
    throw Error(ErrorCode::kUnsupported, "graph '" + definition_->name +
                                             "' was launched inside a capture after it was rebound, and only what was "
                                             "captured can become a part of another graph; rebind that graph instead");
  }
  capture->embed(*stream, definition_, values);
  return true;
}

void ExecutableCore::settle(StreamImpl& stream, std::uint64_t step) {
  stream.settle();
  if (blocking()) program_->cancellation_of(step).throw_if_error();
}

Step ExecutableCore::launch_plain(const std::shared_ptr<StreamImpl>& stream) {
  check_usable(*stream);
  if (embedded(stream, definition_->initial_block)) return {};
  std::uint64_t step = 0;
  {
    const auto lock = lock_launches();
    step = begin(stream, true);
    submit(stream, step);
  }
  settle(*stream, step);
  return {step};
}

Step ExecutableCore::launch(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values) {
  if (!definition_->takes_values()) return launch_plain(stream);  // nothing to update
  check_usable(*stream);
  check_values(values);
  if (embedded(stream, values)) return {};
  if (program_->layout().resettable) return launch_resettable(stream, values);
  OpenStep own;
  if (SLIPWAY_RULE(kUpdateFirst) && (blocking() || options_.order == Order::kUpdateFirst)) {
    // A launch that blocks would wait for an update that comes after it.
    {
      const auto lock = lock_launches_with_slot();
      own.step = begin(stream, true);
      own.submitted = false;
      count(counts_.update_first);
      try {
        publish_taken(own, values);
        count(counts_.published_first);
      } catch (...) {
        abandon(own.step);
        throw;
      }
      submit(stream, own.step);
    }
    settle(*stream, own.step);
    return {own.step};
  }
  std::list<Update> update;  // made before the step, so that nothing can fail behind it
  {
    auto lock = lock_launches();
    if (options_.updater) update.push_back({0, values});
    own.step = begin(stream, true);
    if (options_.updater) open_begun(own.step, nullptr, OwedUpdates::kNobody);
    if (!SLIPWAY_RULE(kSubmitInOrder)) lock.unlock();
    SLIPWAY_POINT("begun", program_.get(), own.step, 0);
    submit(stream, own.step);
    if (!SLIPWAY_RULE(kUpdateFirst)) stream->settle();
    SLIPWAY_POINT("submitted", program_.get(), own.step, 0);
    count(counts_.replay_first);
    if (options_.updater) {  // in the order of the steps: one may wait for the slot of another
      const std::lock_guard list(helper_mutex_);
      update.front().step = own.step;
      updates_.splice(updates_.end(), update);
      changed_.notify();
      return {own.step};
    }
  }
  struct Publishing {
    std::atomic<int>& count;
    explicit Publishing(std::atomic<int>& c) : count(c) { count.fetch_add(1, std::memory_order_acq_rel); }
    ~Publishing() { count.fetch_sub(1, std::memory_order_acq_rel); }
  };
  try {
    const Publishing publishing(publishing_);
    publish_taken(own, values);
    counts_.published_behind.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    // The step waits to be published again or cancelled; this thread owes it, and it is watched over.
    own.thread = thread_id();
    definition_->device->owed().remove(this, own.step, own.step);  // as one that has its values
    try {
      open(own, stream.get(), own.thread, true);
    } catch (const std::exception& why) {
      cancel(own.step, cancelled_error(own.step, ErrorCode::kOutOfMemory, why.what()));
    }
    throw;
  }
  return {own.step};
}

void ExecutableCore::open_begun(std::uint64_t step, StreamImpl* owed_on, std::uint64_t thread) try {
  open({step, 0, false, true, thread_id()}, owed_on, thread, false);
} catch (...) {
  abandon(step);
  throw;
}

void ExecutableCore::open(const OpenStep& step, StreamImpl* owed_on, std::uint64_t thread, bool may_have_passed) {
  const std::lock_guard lock(mutex_);
  if (program_->cancelled(step.step) || (may_have_passed && passed(step.step))) return;
  if (!helper_started_) start_helper();  // the watchdog
  open_.push_back(step);
  try {
    if (owed_on && blocking()) {
      std::erase_if(unsettled_, [&](const Unsettled& earlier) { return passed(earlier.step); });
      unsettled_.push_back({step.step, owed_on->weak_from_this(), 0});
    }
    if (owed_on) definition_->device->owed().add(owed(*owed_on, step.step, thread));
  } catch (...) {
    open_.pop_back();
    throw;
  }
  const std::uint64_t before = oldest_open_.load(std::memory_order_relaxed);
  const std::uint64_t now = before == 0 ? step.step : std::min(before, step.step);
  if (store_then_load(oldest_open_, now, helper_rests_, asymmetric_)) wake_helper();
}

void ExecutableCore::refuse_open() const {
  throw Error(ErrorCode::kUnsupported, "graph '" + definition_->name + "' was launched without values on '" +
                                           definition_->device->info().uri +
                                           "', where a replay and its update are submitted together; pass the values "
                                           "with the launch");
}

Step ExecutableCore::launch_open(const std::shared_ptr<StreamImpl>& stream, Publisher publisher) {
  if (!definition_->takes_values()) return launch_plain(stream);
  check_usable(*stream);
  if (program_->layout().resettable) refuse_open();
  std::uint64_t step = 0;
  {
    auto lock = lock_launches();
    step = begin(stream, false);
    // In blocking mode others have to know as well: whoever would wait for a step that stands behind this one.
    const bool mine = publisher == Publisher::kThisThread;
    open_begun(step, mine || blocking() ? stream.get() : nullptr, mine ? thread_id() : OwedUpdates::kNobody);
    if (!SLIPWAY_RULE(kSubmitInOrder)) lock.unlock();
    SLIPWAY_POINT("begun", program_.get(), step, 0);
    submit(stream, step);
    SLIPWAY_POINT("submitted", program_.get(), step, 0);
    count(blocking() ? counts_.update_first : counts_.replay_first);
  }
  return {step};
}

// --- Ending steps ---

void ExecutableCore::cancel(std::uint64_t step, Status cause) {
  Freed freed;
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = cancel_locked(step, std::move(cause), freed);
  }
  end_cancel(step, last, freed);
}

std::uint64_t ExecutableCore::cancel_locked(std::uint64_t step, Status cause, Freed& freed) {
  const std::uint64_t last = program_->cancel(step, std::move(cause), freed);
  counts_.cancelled.fetch_add(last >= step ? last - step + 1 : 0, std::memory_order_relaxed);
  // Steps that somebody is publishing are taken off by him.
  erase_open([&](const OpenStep& open) { return open.step >= step && !open.busy; });
  const std::lock_guard helper(helper_mutex_);
  updates_.remove_if([&](const Update& u) { return u.step >= step; });
  return last;
}

void ExecutableCore::end_cancel(std::uint64_t step, std::uint64_t last, Freed& freed) {
  definition_->device->owed().remove(this, step, last);
  resume_all(freed);
}

void ExecutableCore::recover() {
  DeviceImpl& device = *definition_->device;
  device.check_usable("recovering a graph", definition_->generation);
  device.captures().check_wait("recovering a graph").throw_if_error();
  std::vector<std::weak_ptr<StreamImpl>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  if (program_->layout().resettable) recover_updates();
  wait_for_cancelled();
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->recover();
  }
  // Reads and writes publishing_, so that who publishes after these looks sees (X3) that all steps have passed.
  bool publishes = publishing_.fetch_add(0, std::memory_order_acq_rel) != 0;
  {
    const std::lock_guard lock(mutex_);
    publishes |= std::any_of(open_.begin(), open_.end(), [](const OpenStep& open) { return open.busy; });
  }
  if (publishes) {
    throw Error(ErrorCode::kBusy, "graph '" + definition_->name +
                                      "' was to recover while a thread is publishing values; let that end first");
  }
  program_->recover().throw_if_error();
  // What walkers cancelled is still in the lists; steps that were begun since are not.
  const std::uint64_t last = program_->done().completed();
  {
    const std::lock_guard lock(mutex_);
    erase_open([&](const OpenStep& open) { return open.step <= last && !open.busy; });
    const std::lock_guard helper(helper_mutex_);
    updates_.remove_if([&](const Update& u) { return u.step <= last; });
  }
  definition_->device->owed().remove(this, 0, last);
}

void ExecutableCore::wait(std::uint64_t step, std::int64_t deadline_ns) {
  DeviceImpl& device = *definition_->device;
  device.check_usable("waiting for a step", definition_->generation);
  device.captures().check_wait("waiting for a step").throw_if_error();
  if (step > program_->begun()) {
    throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                                 "' was to be waited for, and was not launched; launch it first");
  }
  if (program_->done().completed() < step) {
    if (SLIPWAY_RULE(kRefuseOwnWait)) device.owed().check_step(this, step, "waiting for a step").throw_if_error();
    const BlockingScope scope(device.rules());
    if (!program_->done().wait(step, device.rules().spin_ns, deadline_ns)) {
      throw Error(ErrorCode::kTimeout, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                           "' had not passed when the wait's limit ran out; " + what_holds(step));
    }
  }
  program_->cancellation_of(step).throw_if_error();
}

}  // namespace slipway::internal
