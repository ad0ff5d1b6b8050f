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

void ExecutableCore::check_usable(StreamImpl& stream) {
  check_same_device(*definition_->device, stream.device(), "the stream");
  definition_->device->check_usable("launching a graph", definition_->generation);
  stream.check_open();
}

void ExecutableCore::check_values(const std::vector<std::byte>& values) const {
  if (!definition_->specialised.empty()) check_specialised(*definition_, 0, values.data());
}

// --- Launching ---

void ExecutableCore::remember(const std::shared_ptr<StreamImpl>& stream) {
  // By who owns them, which a pointer alone would not tell: a later stream may lie where this one did.
  const auto same = [&](const std::weak_ptr<StreamImpl>& other) {
    return !other.owner_before(stream) && !stream.owner_before(other);
  };
  if (same(last_stream_)) return;
  last_stream_ = stream;
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const std::weak_ptr<StreamImpl>& s) { return s.expired(); });
  if (std::none_of(streams_.begin(), streams_.end(), same)) streams_.push_back(stream);
}

std::uint64_t ExecutableCore::begin(const std::shared_ptr<StreamImpl>& stream) {
  watched_->check(freed_seen_, definition_->name).throw_if_error();
  const std::uint64_t next = program_->begun() + 1;
  if (next > options_.depth) {
    definition_->device->owed().check_step(this, next - options_.depth, "launching another step").throw_if_error();
  }
  remember(stream);  // before there is a step, which would have to pass
  auto begun = program_->begin_step();
  if (!begun.ok()) {
    ErrorDetails details = begun.status().details();
    details.submitted = false;
    details.sentence =
        "graph '" + definition_->name + "' takes no steps until recover() is called; the cause: " + details.sentence;
    Status(std::move(details)).throw_if_error();
  }
  if (draws_) draws_->take(begun.value());
  return begun.value();
}

void ExecutableCore::submit(const std::shared_ptr<StreamImpl>& stream, std::uint64_t step, bool* submitted) {
  ReplayRecord record{};
  record.header = {sizeof record, RecordKind::kReplay, 0, 0};
  record.program = program_.get();
  record.step = step;
  bool taken = false;
  try {
    stream->submit_owning(
        [&] {
          taken = true;
          if (submitted) *submitted = true;
        },
        reinterpret_cast<const std::byte*>(&record), sizeof record, definition_->name, [](StreamCounters&) {});
  } catch (...) {
    if (!taken) abandon(step);
    throw;
  }
  count(counts_.launches);
  for (std::size_t i = 0; i < sides_.size(); ++i) submit_side(i, step);
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
  const auto capture = std::dynamic_pointer_cast<CaptureImpl>(stream->capture());
  if (!capture) return false;
  if (counts_.rebinds.load(std::memory_order_relaxed) != 0) {
    throw Error(ErrorCode::kUnsupported, "graph '" + definition_->name +
                                             "' was launched inside a capture after it was rebound, and only what was "
                                             "captured can become a part of another graph; rebind that graph instead");
  }
  capture->embed(*stream, definition_, values);
  return true;
}

Step ExecutableCore::launch_plain(const std::shared_ptr<StreamImpl>& stream) {
  check_usable(*stream);
  if (embedded(stream, definition_->initial_block)) return {};
  const auto lock = lock_launches();
  const std::uint64_t step = begin(stream);
  submit(stream, step);
  return {step};
}

Step ExecutableCore::launch(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values) {
  if (!definition_->takes_values()) return launch_plain(stream);  // nothing to update
  check_usable(*stream);
  check_values(values);
  if (embedded(stream, values)) return {};
  if (program_->layout().resettable) return launch_resettable(stream, values);
  OpenStep own;
  if (SLIPWAY_RULE(kUpdateFirst) &&
      (definition_->device->environment().blocking || options_.order == Order::kUpdateFirst)) {
    // A launch that blocks would wait for an update that comes after it.
    const auto lock = lock_launches();
    own.step = begin(stream);
    own.submitted = false;
    count(counts_.update_first);
    try {
      publish_taken(own, values);
    } catch (...) {
      abandon(own.step);
      throw;
    }
    submit(stream, own.step);
    return {own.step};
  }
  std::list<Update> update;  // made before the step, so that nothing can fail behind it
  {
    auto lock = lock_launches();
    if (options_.updater) update.push_back({0, values});
    own.step = begin(stream);
    if (options_.updater) open_begun(own.step, nullptr);
    if (!SLIPWAY_RULE(kSubmitInOrder)) lock.unlock();
    SLIPWAY_POINT("begun", program_.get(), own.step, 0);
    submit(stream, own.step);
    SLIPWAY_POINT("submitted", program_.get(), own.step, 0);
    count(counts_.replay_first);
  }
  if (options_.updater) {
    const std::lock_guard lock(mutex_);
    update.front().step = own.step;
    updates_.splice(updates_.end(), update);
    changed_.notify_one();
    return {own.step};
  }
  try {
    publish_taken(own, values);
  } catch (...) {
    // The step waits to be published again or cancelled; this thread owes it, and it is watched over.
    if (program_->cancellation_of(own.step).ok()) {
      own.thread = thread_id();
      own.launched_ns = now_ns();
      open(own);
      owe(*stream, own.step);
    }
    throw;
  }
  return {own.step};
}

void ExecutableCore::open_begun(std::uint64_t step, StreamImpl* owed_on) try {
  open({step, 0, false, true, thread_id(), now_ns()});
  if (owed_on) owe(*owed_on, step);
} catch (...) {
  abandon(step);
  throw;
}

void ExecutableCore::open(const OpenStep& step) {
  const std::lock_guard lock(mutex_);
  open_.push_back(step);
  start_helper();  // the watchdog
  if (helper_rests_) changed_.notify_one();
}

Step ExecutableCore::launch_open(const std::shared_ptr<StreamImpl>& stream, Publisher publisher) {
  if (!definition_->takes_values()) return launch_plain(stream);
  check_usable(*stream);
  if (definition_->device->environment().blocking) {
    throw Error(ErrorCode::kWouldDeadlock, "graph '" + definition_->name +
                                               "' was launched without values on a device in blocking mode, where a "
                                               "launch waits for its work; pass the values with the launch");
  }
  if (program_->layout().resettable) {
    throw Error(ErrorCode::kUnsupported, "graph '" + definition_->name + "' was launched without values on '" +
                                             definition_->device->info().uri +
                                             "', where a replay and its update are submitted together; pass the values "
                                             "with the launch");
  }
  std::uint64_t step = 0;
  {
    auto lock = lock_launches();
    step = begin(stream);
    open_begun(step, publisher == Publisher::kThisThread ? stream.get() : nullptr);
    if (!SLIPWAY_RULE(kSubmitInOrder)) lock.unlock();
    SLIPWAY_POINT("begun", program_.get(), step, 0);
    submit(stream, step);
    SLIPWAY_POINT("submitted", program_.get(), step, 0);
    count(counts_.replay_first);
  }
  return {step};
}

// --- Publishing ---

ExecutableCore::OpenStep ExecutableCore::take_open(std::uint64_t step) {
  program_->cancellation_of(step).throw_if_error();
  const auto sentence = [&](const std::string& rest) {
    return "step " + std::to_string(step) + " of graph '" + definition_->name + "' " + rest;
  };
  const std::lock_guard lock(mutex_);
  for (OpenStep& open : open_) {
    if (open.step != step) continue;
    if (open.busy && SLIPWAY_RULE(kOnePublisher)) {
      throw Error(ErrorCode::kBusy, sentence("is being published by another thread; publish it once"));
    }
    open.busy = true;
    return open;
  }
  const std::uint64_t begun = program_->begun();
  if (step == 0 || step > begun) {
    throw Error(ErrorCode::kInvalidArgument,
                sentence("was to be published, and only " + std::to_string(begun) + " were launched; launch it first"));
  }
  throw Error(ErrorCode::kFailedPrecondition, sentence("was published already; values belong to exactly one step"));
}

void ExecutableCore::put_back(const OpenStep& taken) {
  const std::lock_guard lock(mutex_);
  for (OpenStep& open : open_) {
    if (open.step == taken.step) {
      open = taken;
      open.busy = false;
    }
  }
}

void ExecutableCore::close_open(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [&](const OpenStep& open) { return open.step == step; });
  }
  definition_->device->owed().remove(this, step);
}

void ExecutableCore::wait_for_slot(std::uint64_t step) {
  if (step <= options_.depth || !SLIPWAY_RULE(kWaitForSlot)) return;
  const std::uint64_t needed = step - options_.depth;
  if (program_->done().completed() >= needed) return;
  DeviceImpl& device = *definition_->device;
  if (SLIPWAY_RULE(kRefuseOwnWait)) device.owed().check_step(this, needed, "publishing a step").throw_if_error();
  const BlockingScope scope(device.rules());
  if (program_->done().wait(needed, device.rules().spin_ns, device.deadline(-1))) return;
  throw Error(ErrorCode::kTimeout, "the values of step " + std::to_string(step) + " of graph '" + definition_->name +
                                       "' found no room: step " + std::to_string(needed) +
                                       " had not passed within the wait limit. The step stays open; publish it again, "
                                       "or look for what holds the older one");
}

void ExecutableCore::publish_gates(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken) {
  const bool logs = definition_->device->environment().timeline.load(std::memory_order_relaxed) != nullptr;
  std::byte* block = program_->block(step);
  Freed freed;
  if (taken.gates_open == 0) {
    check_values(values);
    wait_for_slot(step);
    const std::int64_t started = logs ? now_ns() : 0;
    if (!SLIPWAY_RULE(kValuesBeforeGate)) {
      program_->open_gate(0, step, freed);
      resume_all(freed);
      SLIPWAY_POINT("gate opened", program_.get(), step, 0);
    }
    std::memcpy(block, values.data(), values.size());
    if (draws_) {
      draws_->write(step, block);
      draws_->forget(program_->done().completed());
    }
    if (logs) log_update("values", step, 0, started, now_ns());
    SLIPWAY_POINT("values written", program_.get(), step, 0);
    program_->open_gate(0, step, freed);
    taken.gates_open = 1;
    resume_all(freed);
    SLIPWAY_POINT("gate opened", program_.get(), step, 0);
  } else if (!parameters_equal(step, values)) {
    throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                                 "' was published again with other values, but launches may have run "
                                                 "with the first ones; publish the same values, or cancel the step");
  }
  for (; taken.gates_open <= definition_->operations.size(); ++taken.gates_open) {
    const OperationDefinition& operation = definition_->operations[taken.gates_open - 1];
    const std::int64_t started = logs ? now_ns() : 0;
    try {
      if (evaluate(*definition_, taken.gates_open - 1, block, scratch_)) {
        counts_.operation_calls.fetch_add(1, std::memory_order_relaxed);
      }
      check_specialised(*definition_, taken.gates_open, block);
    } catch (...) {
      if (logs) log_update(operation.name, step, taken.gates_open, started, 0);
      throw;
    }
    if (logs) log_update(operation.name, step, taken.gates_open, started, now_ns());
    SLIPWAY_POINT("values written", program_.get(), step, taken.gates_open);
    program_->open_gate(taken.gates_open, step, freed);
    resume_all(freed);
    SLIPWAY_POINT("gate opened", program_.get(), step, taken.gates_open);
  }
}

Status ExecutableCore::refused(const OpenStep& open, const std::string& why, ErrorCode code) const {
  ErrorDetails details;
  details.code = code;
  details.name = definition_->name;
  details.sequence = open.step;
  details.submitted = open.submitted;
  const bool in_operation = open.gates_open > 0;
  details.sentence = (in_operation ? "operation '" + definition_->operations[open.gates_open - 1].name + "' of graph '"
                                   : "publishing graph '") +
                     definition_->name + "' refused the values of step " + std::to_string(open.step) + ": " + why +
                     (open.submitted ? "; the step stays open, publish it again or cancel it"
                                     : "; nothing was submitted, launch it again with other values");
  return Status(std::move(details));
}

void ExecutableCore::publish_taken(OpenStep& taken, const std::vector<std::byte>& values) {
  struct Publishing {
    std::atomic<int>& count;
    explicit Publishing(std::atomic<int>& c) : count(c) { count.fetch_add(1, std::memory_order_acq_rel); }
    ~Publishing() { count.fetch_sub(1, std::memory_order_acq_rel); }
  };
  const Publishing publishing(publishing_);
  program_->cancellation_of(taken.step).throw_if_error();
  if (passed(taken.step)) {  // cancelled, recovered from, and its slot is another's
    cancelled_error(taken.step, ErrorCode::kCancelled, "its graph has recovered meanwhile").throw_if_error();
  }
  try {
    publish_gates(taken.step, values, taken);
  } catch (const Error& error) {
    if (taken.gates_open == 0) throw;  // about the call, not about the values
    ErrorDetails details = *error.details();
    details.name = definition_->name;
    details.submitted = taken.submitted;
    Status(std::move(details)).throw_if_error();
  } catch (const std::bad_alloc&) {
    refused(taken, "there was no host memory", ErrorCode::kOutOfMemory).throw_if_error();
  } catch (const std::exception& error) {
    refused(taken, error.what()).throw_if_error();
  } catch (...) {
    refused(taken, "an exception that is not a std::exception").throw_if_error();
  }
  program_->cancellation_of(taken.step).throw_if_error();
  counts_.published.fetch_add(1, std::memory_order_relaxed);
}

void ExecutableCore::publish(std::uint64_t step, const std::vector<std::byte>& values) {
  OpenStep taken = take_open(step);
  try {
    publish_taken(taken, values);
  } catch (...) {
    if (program_->cancellation_of(step).ok()) put_back(taken);
    else close_open(step);
    throw;
  }
  close_open(step);
}

// --- Ending steps ---

void ExecutableCore::cancel(std::uint64_t step, Status cause) {
  Freed freed;
  const std::uint64_t begun = program_->begun();
  program_->cancel(step, std::move(cause), freed);
  counts_.cancelled.fetch_add(begun >= step ? begun - step + 1 : 0, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    // Steps that somebody is publishing are taken off by him.
    std::erase_if(open_, [&](const OpenStep& open) { return open.step >= step && !open.busy; });
    updates_.clear();
  }
  for (std::uint64_t s = step; s <= begun; ++s) definition_->device->owed().remove(this, s);
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
  // Reads and writes it, so that who publishes after this look sees (X3) that all steps have passed.
  if (publishing_.fetch_add(0, std::memory_order_acq_rel) != 0) {
    throw Error(ErrorCode::kBusy, "graph '" + definition_->name +
                                      "' was to recover while a thread is publishing values; let that end first");
  }
  program_->recover().throw_if_error();
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
                                           "' had not passed when the wait's limit ran out; wait longer, or look for "
                                           "values that nobody publishes");
    }
  }
  program_->cancellation_of(step).throw_if_error();
}

}  // namespace slipway::internal
