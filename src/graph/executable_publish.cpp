// Publishing: the values of a step that is open, behind its launch, and what becomes of it when that fails.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/rules.h"
#include "graph/executable.h"

namespace slipway::internal {

ExecutableCore::OpenStep ExecutableCore::take_open(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    const auto open = std::find_if(open_.begin(), open_.end(), [&](const OpenStep& o) { return o.step == step; });
    const bool may_be_taken = open != open_.end() && (!open->busy || !SLIPWAY_RULE(kOnePublisher));
    if (may_be_taken && !program_->any_cancelled()) [[likely]] {
      open->busy = true;
      return *open;
    }
  }
  return take_open_looking(step);
}

ExecutableCore::OpenStep ExecutableCore::take_open_looking(std::uint64_t step) {
  const auto sentence = [&](const std::string& rest) {
    return "step " + std::to_string(step) + " of graph '" + definition_->name + "' " + rest;
  };
  std::unique_lock lock(mutex_);
  if (Status cause = program_->cancellation_of(step); !cause.ok()) {
    erase_open([&](const OpenStep& o) { return o.step == step && !o.busy; });
    lock.unlock();
    definition_->device->owed().remove(this, step, step);
    cause.throw_if_error();
  }
  const auto open = std::find_if(open_.begin(), open_.end(), [&](const OpenStep& o) { return o.step == step; });
  if (open != open_.end()) {
    if (open->busy && SLIPWAY_RULE(kOnePublisher)) {
      throw Error(ErrorCode::kBusy, sentence("is being published by another thread; publish it once"));
    }
    open->busy = true;
    return *open;
  }
  const std::uint64_t begun = program_->begun();
  if (step == 0 || step > begun) {
    throw Error(ErrorCode::kInvalidArgument,
                sentence("was to be published, and only " + std::to_string(begun) + " were launched; launch it first"));
  }
  throw Error(ErrorCode::kFailedPrecondition, sentence("was published already; values belong to exactly one step"));
}

void ExecutableCore::put_back(const OpenStep& taken) {
  {
    const std::lock_guard lock(mutex_);
    if (!over(taken.step)) {
      for (OpenStep& open : open_) {
        if (open.step != taken.step) continue;
        open = taken;
        open.busy = false;
      }
      return;
    }
  }
  close_open(taken.step);
}

void ExecutableCore::close_open(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    erase_open([&](const OpenStep& open) { return open.step == step; });
  }
  definition_->device->owed().remove(this, step, step);
}

void ExecutableCore::wait_until_slot_is_free(std::uint64_t step) {
  if (!SLIPWAY_RULE(kWaitForSlot)) return;
  const std::uint64_t needed = step - options_.depth;
  DeviceImpl& device = *definition_->device;
  if (SLIPWAY_RULE(kRefuseOwnWait)) device.owed().check_step(this, needed, "publishing a step").throw_if_error();
  const BlockingScope scope(device.rules());
  if (program_->done().wait(needed, device.rules().spin_ns, device.deadline(-1))) return;
  throw Error(ErrorCode::kTimeout, "the values of step " + std::to_string(step) + " of graph '" + definition_->name +
                                       "' found no room: step " + std::to_string(needed) +
                                       " had not passed within the wait limit; look for what holds the older one, then "
                                       "publish or launch again");
}

void ExecutableCore::publish_gates(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken) {
  if (taken.gates_open == 0) publish_parameters(step, values, taken);
  else check_same_values(step, values);
  if (taken.gates_open <= definition_->operations.size()) publish_operations(step, taken);
}

void ExecutableCore::publish_parameters(std::uint64_t step, const std::vector<std::byte>& values, OpenStep& taken) {
  const bool logs = definition_->device->environment().timeline.load(std::memory_order_relaxed) != nullptr;
  std::byte* block = program_->block(step);
  Freed freed;
  check_values(values);
  if (taken.submitted) wait_for_slot(step);  // else its launch has
  const std::int64_t started = logs ? now_ns() : 0;
  if (!SLIPWAY_RULE(kValuesBeforeGate)) {
    open_gate(taken, 0, freed);
    resume_all(freed);
    SLIPWAY_POINT("gate opened", program_.get(), step, 0);
  }
  std::memcpy(block, values.data(), values.size());
  if (draws_) draws_->write(step, block);
  if (logs) log_update("values", step, 0, started, now_ns());
  SLIPWAY_POINT("values written", program_.get(), step, 0);
  open_gate(taken, 0, freed);
  taken.gates_open = 1;
  resume_all(freed);
  SLIPWAY_POINT("gate opened", program_.get(), step, 0);
}

void ExecutableCore::check_same_values(std::uint64_t step, const std::vector<std::byte>& values) {
  if (parameters_equal(step, values)) return;
  throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                               "' was published again with other values, but launches may have run "
                                               "with the first ones; publish the same values, or cancel the step");
}

void ExecutableCore::publish_operations(std::uint64_t step, OpenStep& taken) {
  const bool logs = definition_->device->environment().timeline.load(std::memory_order_relaxed) != nullptr;
  std::byte* block = program_->block(step);
  Freed freed;
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
    open_gate(taken, taken.gates_open, freed);
    resume_all(freed);
    SLIPWAY_POINT("gate opened", program_.get(), step, taken.gates_open);
  }
}

Status ExecutableCore::refused(const OpenStep& open, const std::byte* block, const std::string& why,
                               ErrorCode code) const {
  ErrorDetails details;
  details.code = code;
  details.name = definition_->name;
  details.sequence = open.step;
  details.submitted = open.submitted;
  const std::size_t operation = open.gates_open - 1;  // where there is one
  details.sentence = (open.gates_open > 0 ? "operation '" + definition_->operations[operation].name + "' of graph '"
                                          : "publishing graph '") +
                     definition_->name + "' refused the values of step " + std::to_string(open.step) +
                     (open.gates_open > 0 ? inputs_text(*definition_, operation, block) : "") + ": " + why +
                     (open.submitted ? "; the step stays open, publish it again or cancel it"
                                     : "; nothing was submitted, launch it again with other values");
  return Status(std::move(details));
}

void ExecutableCore::throw_told(const OpenStep& open, const std::byte* block) const {
  try {
    throw;
  } catch (const Error& error) {
    if (open.gates_open == 0) throw;  // about the call, not about the values
    ErrorDetails details = *error.details();
    details.name = definition_->name;
    details.sequence = open.step;
    details.submitted = open.submitted;
    Status(std::move(details)).throw_if_error();
  } catch (const std::bad_alloc&) {
    refused(open, block, "there was no host memory", ErrorCode::kOutOfMemory).throw_if_error();
  } catch (const std::exception& error) {
    refused(open, block, error.what()).throw_if_error();
  } catch (...) {
    refused(open, block, "an exception that is not a std::exception").throw_if_error();
  }
  throw Error(ErrorCode::kInternal, "unreachable");
}

void ExecutableCore::check_not_over(const OpenStep& taken) const {
  program_->cancellation_of(taken.step).throw_if_error();
  if (taken.submitted && passed(taken.step)) {  // cancelled, recovered from, and its slot is another's
    cancelled_error(taken.step, ErrorCode::kCancelled, "its graph has recovered meanwhile").throw_if_error();
  }
}

void ExecutableCore::publish_taken(OpenStep& taken, const std::vector<std::byte>& values) {
  if (program_->any_cancelled() || (taken.submitted && passed(taken.step))) [[unlikely]]
    check_not_over(taken);
  try {
    publish_gates(taken.step, values, taken);
  } catch (...) {
    throw_told(taken, program_->block(taken.step));
  }
  program_->cancellation_of(taken.step).throw_if_error();
}

void ExecutableCore::publish(std::uint64_t step, const std::vector<std::byte>& values) {
  OpenStep taken = take_open(step);
  try {
    publish_taken(taken, values);
  } catch (...) {
    put_back(taken);
    // In-line the step has run, and its failure is told here.
    if (over(step)) {
      if (const auto stream = take_unsettled(step).stream.lock()) (void)stream->take_failure();
    }
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    erase_open([&](const OpenStep& open) { return open.step == step; });
    count(counts_.published_open);
  }
  const bool held_up = definition_->device->owed().publish(this, step);
  if (blocking()) settle_published(step, held_up);
}

ExecutableCore::Unsettled ExecutableCore::take_unsettled(std::uint64_t step) {
  Unsettled taken;
  const std::lock_guard lock(mutex_);
  std::erase_if(unsettled_, [&](const Unsettled& open) {
    if (open.step == step) taken = open;
    return open.step == step;
  });
  return taken;
}

// Not where it would wait for values that are still to come: its failure is then told by the next call that waits.
void ExecutableCore::settle_published(std::uint64_t step, bool held_up) {
  const Unsettled unsettled = take_unsettled(step);
  if (held_up) return;
  DeviceImpl& device = *definition_->device;
  const std::shared_ptr<StreamImpl> stream = unsettled.stream.lock();
  {
    const BlockingScope scope(device.rules());
    const std::int64_t deadline = device.deadline(-1);
    if (!program_->done().wait(step, device.rules().spin_ns, deadline)) {
      throw Error(ErrorCode::kTimeout, "step " + std::to_string(step) + " of graph '" + definition_->name +
                                           "' was published and had not passed within the wait limit; " +
                                           what_holds(step));
    }
    // A step has passed a moment before its stream has passed it. (In a simulation no other thread runs meanwhile.)
    const auto pending = [&] {
      return stream->driver_stream().completed() < unsettled.sequence && now_ns() < deadline;
    };
    for (SpinTurn turn; stream && !t_simulated && pending();) turn();
  }
  const Status failure = program_->cancellation_of(step);  // its own, not that of work behind it
  if (!failure.ok() && stream) (void)stream->take_failure();
  failure.throw_if_error();
}

}  // namespace slipway::internal
