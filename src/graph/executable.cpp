#include "graph/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace slipway::internal {

ExecutableCore::ExecutableCore(std::shared_ptr<const DefinitionImpl> definition, const InstantiateOptions& options,
                               Engine& engine)
    : definition_(std::move(definition)), options_(options), engine_(engine) {
  ReplayLayout layout;
  layout.name = definition_->name;
  layout.groups = definition_->groups;
  layout.patches = definition_->patches;
  layout.gate_count = static_cast<std::uint32_t>(definition_->operations.size() + 1);
  layout.block_bytes = definition_->block_bytes;
  layout.depth = options.depth;
  program_ = std::make_shared<ReplayProgram>(definition_->tape, std::move(layout));
  open_.reserve(64);
}

ExecutableCore::~ExecutableCore() {
  // Replays that were submitted walk the program, whose tape refers to what the definition holds.
  DeviceImpl& device = *definition_->device;
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

// --- Launching ---

std::uint64_t ExecutableCore::begin(StreamImpl& stream, bool opens) {
  DeviceImpl& device = *definition_->device;
  const std::uint64_t next = program_->begun() + 1;
  if (next > options_.depth) {
    device.owed().check_step(this, next - options_.depth, "launching another step").throw_if_error();
  }
  auto begun = program_->begin_step();
  if (!begun.ok()) {
    ErrorDetails details = begun.status().details();
    details.submitted = false;
    details.sentence =
        "graph '" + definition_->name + "' takes no steps until recover() is called; the cause: " + details.sentence;
    Status(std::move(details)).throw_if_error();
  }
  const std::lock_guard lock(mutex_);
  if (opens) open_.push_back({begun.value(), 0, false, thread_id(), now_ns()});
  std::erase_if(streams_, [](const std::weak_ptr<StreamImpl>& s) { return s.expired(); });
  const bool known = std::any_of(streams_.begin(), streams_.end(), [&](auto& s) { return s.lock().get() == &stream; });
  if (!known) {
    for (auto& s : device.streams()) {
      if (s.get() == &stream) streams_.push_back(s);
    }
  }
  return begun.value();
}

void ExecutableCore::submit(const std::shared_ptr<StreamImpl>& stream, std::uint64_t step) {
  ReplayRecord record{};
  record.header = {sizeof record, RecordKind::kReplay, 0, 0};
  record.program = program_.get();
  record.step = step;
  bool taken = false;
  try {
    stream->submit_owning([&] { taken = true; }, reinterpret_cast<const std::byte*>(&record), sizeof record,
                          definition_->name, [](StreamCounters&) {});
  } catch (...) {
    if (!taken) {
      // It never came into the stream: its number counts as run.
      std::vector<Lane*> freed;
      program_->abandon(step, freed);
      engine_.make_ready(freed);
      close_open(step);
    }
    throw;
  }
  counts_.launches.fetch_add(1, std::memory_order_relaxed);
}

Step ExecutableCore::launch_plain(const std::shared_ptr<StreamImpl>& stream) {
  check_usable(*stream);
  const std::lock_guard lock(launch_mutex_);
  const std::uint64_t step = begin(*stream, false);
  submit(stream, step);
  return {step};
}

Step ExecutableCore::launch(const std::shared_ptr<StreamImpl>& stream, const std::vector<std::byte>& values) {
  if (definition_->groups.empty()) return launch_plain(stream);  // nothing to update
  check_usable(*stream);
  std::uint64_t step = 0;
  if (definition_->device->environment().blocking || options_.order == Order::kUpdateFirst) {
    // A launch that blocks would wait for an update that comes after it.
    const std::lock_guard lock(launch_mutex_);
    step = begin(*stream, true);
    counts_.update_first.fetch_add(1, std::memory_order_relaxed);
    try {
      publish(step, values);
    } catch (...) {
      std::vector<Lane*> freed;
      program_->abandon(step, freed);
      engine_.make_ready(freed);
      close_open(step);
      throw;
    }
    submit(stream, step);
    return {step};
  }
  {
    const std::lock_guard lock(launch_mutex_);
    step = begin(*stream, true);
    submit(stream, step);
  }
  counts_.replay_first.fetch_add(1, std::memory_order_relaxed);
  if (!options_.updater) {
    try {
      publish(step, values);
    } catch (...) {
      leave_open(*stream, step);
      throw;
    }
    return {step};
  }
  const std::lock_guard lock(mutex_);
  updates_.push_back({step, values});
  start_helper();
  changed_.notify_one();
  return {step};
}

void ExecutableCore::owe(StreamImpl& stream, std::uint64_t step) {
  definition_->device->owed().add(
      {this, step, &stream, thread_id(), &definition_->name, &definition_->groups.front().name});
}

void ExecutableCore::leave_open(StreamImpl& stream, std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const bool open = std::any_of(open_.begin(), open_.end(), [&](const OpenStep& o) { return o.step == step; });
  if (!open) return;
  owe(stream, step);
  start_helper();  // the watchdog
  if (helper_rests_) changed_.notify_one();
}

Step ExecutableCore::launch_open(const std::shared_ptr<StreamImpl>& stream, Publisher publisher) {
  if (definition_->groups.empty()) return launch_plain(stream);
  check_usable(*stream);
  if (definition_->device->environment().blocking) {
    throw Error(ErrorCode::kWouldDeadlock, "graph '" + definition_->name +
                                               "' was launched without values on a device in blocking mode, where a "
                                               "launch waits for its work; pass the values with the launch");
  }
  std::uint64_t step = 0;
  {
    const std::lock_guard lock(launch_mutex_);
    step = begin(*stream, true);
    if (publisher == Publisher::kThisThread) owe(*stream, step);
    submit(stream, step);
  }
  counts_.replay_first.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  start_helper();  // the watchdog
  if (helper_rests_) changed_.notify_one();
  return {step};
}

// --- Publishing ---

ExecutableCore::OpenStep ExecutableCore::take_open(std::uint64_t step) {
  program_->cancellation_of(step).throw_if_error();
  const std::string which = "step " + std::to_string(step) + " of graph '" + definition_->name + "'";
  const std::uint64_t begun = program_->begun();
  const std::lock_guard lock(mutex_);
  for (OpenStep& open : open_) {
    if (open.step != step) continue;
    if (open.busy) throw Error(ErrorCode::kBusy, which + " is being published by another thread; publish it once");
    open.busy = true;
    return open;
  }
  if (step == 0 || step > begun) {
    throw Error(ErrorCode::kInvalidArgument,
                which + " was to be published, and only " + std::to_string(begun) + " were launched; launch it first");
  }
  throw Error(ErrorCode::kFailedPrecondition, which + " was published already; values belong to exactly one step");
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
  if (step <= options_.depth) return;
  const std::uint64_t needed = step - options_.depth;
  if (program_->done().completed() >= needed) return;
  DeviceImpl& device = *definition_->device;
  device.owed().check_step(this, needed, "publishing a step").throw_if_error();
  const BlockingScope scope(device.rules());
  if (program_->done().wait(needed, device.rules().spin_ns, device.deadline(-1))) return;
  throw Error(ErrorCode::kTimeout, "the values of step " + std::to_string(step) + " of graph '" + definition_->name +
                                       "' found no room: step " + std::to_string(needed) +
                                       " had not passed within the wait limit. The step stays open; publish it again, "
                                       "or look for what holds the older one");
}

bool ExecutableCore::parameters_equal(std::uint64_t step, const std::vector<std::byte>& values) {
  const std::byte* block = program_->block(step);
  return std::all_of(definition_->variables.begin(), definition_->variables.end(), [&](const Variable& v) {
    return v.gate != 0 || std::memcmp(block + v.offset, values.data() + v.offset, v.size) == 0;
  });
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

void ExecutableCore::publish_gates(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken) {
  const bool logs = definition_->device->environment().timeline.load(std::memory_order_relaxed) != nullptr;
  std::byte* block = program_->block(step);
  std::vector<Lane*> freed;
  if (taken.gates_open == 0) {
    wait_for_slot(step);
    const std::int64_t started = logs ? now_ns() : 0;
    std::memcpy(block, values.data(), values.size());
    if (logs) log_update("values", step, 0, started, now_ns());
    program_->open_gate(0, step, freed);
    taken.gates_open = 1;
    engine_.make_ready(freed);
  } else if (!parameters_equal(step, values)) {
    throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                                 "' was published again with other values, but launches may have run "
                                                 "with the first ones; publish the same values, or cancel the step");
  }
  for (; taken.gates_open <= definition_->operations.size(); ++taken.gates_open) {
    const OperationDefinition& operation = definition_->operations[taken.gates_open - 1];
    const std::int64_t started = logs ? now_ns() : 0;
    counts_.operation_calls.fetch_add(1, std::memory_order_relaxed);
    try {
      evaluate(*definition_, operation, block);
    } catch (...) {
      if (logs) log_update(operation.name, step, taken.gates_open, started, 0);
      throw;
    }
    if (logs) log_update(operation.name, step, taken.gates_open, started, now_ns());
    program_->open_gate(taken.gates_open, step, freed);
    engine_.make_ready(freed);
  }
}

Status ExecutableCore::refused(const OpenStep& open, const std::string& why) const {
  ErrorDetails details;
  details.code = ErrorCode::kInvalidArgument;
  details.name = definition_->name;
  details.sequence = open.step;
  details.submitted = true;
  const bool in_operation = open.gates_open > 0;
  details.sentence = (in_operation ? "operation '" + definition_->operations[open.gates_open - 1].name + "' of graph '"
                                   : "publishing graph '") +
                     definition_->name + "' refused the values of step " + std::to_string(open.step) + ": " + why +
                     "; the step stays open, publish it again or cancel it";
  return Status(std::move(details));
}

void ExecutableCore::publish(std::uint64_t step, const std::vector<std::byte>& values) {
  OpenStep taken = take_open(step);
  try {
    publish_gates(step, values, taken);
  } catch (const Error& error) {
    put_back(taken);
    if (taken.gates_open == 0) throw;  // about the call, not about the values
    ErrorDetails details = *error.details();
    details.name = definition_->name;
    details.submitted = true;
    Status(std::move(details)).throw_if_error();
  } catch (const std::exception& error) {
    put_back(taken);
    refused(taken, error.what()).throw_if_error();
  } catch (...) {
    put_back(taken);
    refused(taken, "an exception that is not a std::exception").throw_if_error();
  }
  close_open(step);
  program_->cancellation_of(step).throw_if_error();
  counts_.published.fetch_add(1, std::memory_order_relaxed);
}

// --- Ending steps ---

void ExecutableCore::cancel(std::uint64_t step, Status cause) {
  std::vector<Lane*> freed;
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
  engine_.make_ready(freed);
}

void ExecutableCore::recover() {
  DeviceImpl& device = *definition_->device;
  device.check_usable("recovering a graph", definition_->generation);
  std::vector<std::weak_ptr<StreamImpl>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->recover();
  }
  program_->recover().throw_if_error();
}

void ExecutableCore::wait(std::uint64_t step, std::int64_t deadline_ns) {
  DeviceImpl& device = *definition_->device;
  device.check_usable("waiting for a step", definition_->generation);
  if (step > program_->begun()) {
    throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                                 "' was to be waited for, and was not launched; launch it first");
  }
  if (program_->done().completed() < step) {
    device.owed().check_step(this, step, "waiting for a step").throw_if_error();
    const BlockingScope scope(device.rules());
    if (!program_->done().wait(step, device.rules().spin_ns, deadline_ns)) {
      throw Error(ErrorCode::kTimeout, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                           "' had not passed when the wait's limit ran out; wait longer, or look for "
                                           "values that nobody publishes");
    }
  }
  program_->cancellation_of(step).throw_if_error();
}

GraphCounters ExecutableCore::counters() const {
  GraphCounters c;
  c.launches = counts_.launches.load(std::memory_order_relaxed);
  c.replay_first = counts_.replay_first.load(std::memory_order_relaxed);
  c.update_first = counts_.update_first.load(std::memory_order_relaxed);
  c.published = counts_.published.load(std::memory_order_relaxed);
  c.operation_calls = counts_.operation_calls.load(std::memory_order_relaxed);
  c.cancelled = counts_.cancelled.load(std::memory_order_relaxed);
  return c;
}

void ExecutableCore::drop() {
  std::uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    for (const OpenStep& open : open_) {
      // What the updater has or will get is still published; the rest has nobody left.
      const bool has_values =
          std::any_of(updates_.begin(), updates_.end(), [&](auto& u) { return u.step == open.step; });
      if (!open.busy && !has_values && (first == 0 || open.step < first)) first = open.step;
    }
  }
  if (first != 0) cancel(first, cancelled_error(first, ErrorCode::kCancelled, "its executable was dropped"));
  definition_->device->owed().remove_all(this);
}

// --- The helper thread: publishes for those who asked for it, and watches over open steps ---

void ExecutableCore::start_helper() {
  if (helper_started_) return;
  helper_started_ = true;
  std::thread([core = shared_from_this()] { core->helper_main(); }).detach();  // ends after drop()
}

void ExecutableCore::cancel_late() {
  std::int64_t limit_ns = std::chrono::nanoseconds(options_.watchdog).count();
  if (limit_ns == 0) limit_ns = definition_->device->rules().default_limit_ns;
  OpenStep late;
  {
    const std::lock_guard lock(mutex_);
    for (const OpenStep& open : open_) {
      if (!open.busy && now_ns() - open.launched_ns > limit_ns && (late.step == 0 || open.step < late.step))
        late = open;
    }
  }
  if (late.step == 0) return;
  const std::string gate = late.gates_open == 0 ? "values" : definition_->operations[late.gates_open - 1].name;
  cancel(late.step,
         cancelled_error(late.step, ErrorCode::kTimeout,
                         "gate '" + gate + "' was not opened within " + std::to_string(limit_ns / 1'000'000) +
                             " ms by the thread that owed it (thread " + std::to_string(late.thread) + ")"));
}

void ExecutableCore::helper_main() {
  const std::int64_t limit_ns = options_.watchdog.count() > 0 ? std::chrono::nanoseconds(options_.watchdog).count()
                                                              : definition_->device->rules().default_limit_ns;
  const auto look_every = std::chrono::nanoseconds(std::clamp<std::int64_t>(limit_ns / 8, 1'000'000, 1'000'000'000));
  std::unique_lock lock(mutex_);
  for (;;) {
    if (updates_.empty()) {
      if (stopping_) return;
      if (open_.empty()) {
        helper_rests_ = true;
        changed_.wait(lock, [&] { return stopping_ || !updates_.empty() || !open_.empty(); });
        helper_rests_ = false;
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
    lock.unlock();
    try {
      publish(update.step, update.values);
    } catch (const Error& error) {
      // There is no caller to publish it again.
      if (!passed(update.step)) cancel(update.step, cancelled_error(update.step, ErrorCode::kCancelled, error.what()));
    }
    lock.lock();
  }
}

}  // namespace slipway::internal
