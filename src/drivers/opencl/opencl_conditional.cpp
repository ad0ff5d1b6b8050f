// Conditional nodes: the stream is cut at a condition. What lies before it is in the queue, and behind that a read of
// the value; once that has ended, the pump goes on at the body that the value chooses.
#include <string>
#include <utility>

#include "base/clock.h"
#include "drivers/opencl/opencl_commands.h"
#include "drivers/opencl/opencl_stream.h"
#include "engine/conditional.h"
#include "engine/replay_program.h"

namespace slipway::internal {

OpenClStream::Outcome OpenClStream::pass_condition(const ConditionRecord& condition, const ReplayRecord& record,
                                                   std::uint64_t sequence, std::int64_t& distance, Status& cause) {
  if (!condition_read_) {
    if (queue_is_full()) return Outcome::kCut;
    condition_ = std::make_shared<std::uint64_t>(0);
    ClInFlight command;
    command.sequence = sequence;
    command.what = name_of_condition(condition.header.flags);
    if (shared_->environment.timeline.load(std::memory_order_relaxed)) {
      command.enqueued_ns = now_ns();
      command.node_of = record.program;
      command.step = record.step;
    }
    shared_->service.start();
    Status status = enqueue_copy(*context_, queue_, read_of(condition, *condition_), nullptr, command.event);
    if (status.ok()) {
      condition_read_ = command.event.share();
      command.written = condition_;
      progress_.add(std::move(command));
      flush();
      // Who waits for the stream has to be told of the rest, so the callback is no luxury here.
      if (execution_status(context_->cl, condition_read_) > kClComplete)
        status = when_ended(condition_read_, shared_->service, &OpenClStream::go_on, 0, condition_);
    }
    if (!status.ok()) {
      fail_record(status, sequence, name_of_condition(condition.header.flags), record.program->name());
    }
  }
  if (!progress_.failed() && execution_status(context_->cl, condition_read_) > kClComplete) return Outcome::kCut;
  progress_.reap();  // did it succeed, and all before it?
  condition_read_ = ClEvent();
  const std::shared_ptr<const std::uint64_t> value = std::move(condition_);
  if (progress_.failed()) {
    cause = progress_.failure();
    return Outcome::kHandedOver;
  }
  auto chosen = record.program->choose(0, condition, *value, record.step);
  if (chosen.ok()) distance = chosen.value();
  else cause = chosen.status();
  return Outcome::kHandedOver;
}

}  // namespace slipway::internal
