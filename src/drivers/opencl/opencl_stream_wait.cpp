// The side of a stream that callers wait on.
#include <algorithm>
#include <utility>

#include "base/wait.h"
#include "drivers/opencl/opencl_stream.h"

namespace slipway::internal {
namespace {

// A sleeper looks again after this long, should the implementation not call back.
constexpr std::int64_t kLookAgain_ns = 20'000'000;

}  // namespace

std::uint64_t OpenClStream::completed() {
  progress_.reap();
  progress_.finish_steps();
  return progress_.completed();
}

bool OpenClStream::await(Goal goal, std::uint64_t sequence, std::int64_t deadline_ns) {
  const auto reached = [&] {
    progress_.reap();
    progress_.finish_steps();
    return (goal == Goal::kPassed ? progress_.completed() : progress_.handed_over()) >= sequence;
  };
  if (reached()) return true;
  kick();
  if (reached()) return true;
  const WaitRules& rules = shared_->environment.wait_rules;
  const BlockingScope scope(rules);
  const std::int64_t start = now_ns();
  while (now_ns() - start < rules.spin_ns) {
    if (reached()) return true;
    cpu_relax();
  }
  const auto waker = std::make_shared<Parker>();
  progress_.add_waker(waker);
  ClEvent watched;
  bool in_time = true;
  while (!reached()) {
    const std::int64_t now = now_ns();
    if (now >= deadline_ns) {
      in_time = false;
      break;
    }
    ClEvent next = goal == Goal::kPassed ? progress_.command_for(sequence) : ClEvent();
    if (next && next.get() != watched.get()) {
      auto* kept = new std::shared_ptr<Parker>(waker);
      const auto on_event = [](cl_event, cl_int, void* data) {
        const std::unique_ptr<std::shared_ptr<Parker>> owned(static_cast<std::shared_ptr<Parker>*>(data));
        (*owned)->unpark();
      };
      if (context_->cl.clSetEventCallback(next.get(), kClComplete, on_event, kept) != kClSuccess) delete kept;
      watched = std::move(next);
    }
    waker->park(std::min(deadline_ns, now + kLookAgain_ns));
    if (progress_.failed()) kick();
  }
  progress_.remove_waker(waker);
  return in_time;
}

Status OpenClStream::wait(std::uint64_t sequence, std::int64_t deadline_ns) {
  if (await(Goal::kPassed, sequence, deadline_ns)) return {};
  const std::string name = name_.empty() ? "the stream" : "stream '" + name_ + "'";
  return {ErrorCode::kTimeout,
          "submission " + std::to_string(sequence) + " of " + name + " had not passed when the wait's limit ran out; " +
              std::to_string(progress_.completed()) + " have, and " + std::to_string(progress_.handed_over()) +
              " were handed to the device. They stay submitted: wait again with a longer limit, or "
              "look for an event that nobody marks and for a kernel that does not end"};
}

bool OpenClStream::drain(std::int64_t deadline_ns) { return await(Goal::kPassed, ring_.submitted(), deadline_ns); }

void* OpenClStream::native_handle() {
  const std::int64_t deadline = now_ns() + shared_->environment.wait_rules.default_limit_ns;
  return await(Goal::kHandedOver, ring_.submitted(), deadline) ? queue_ : nullptr;
}

Status OpenClStream::failure() { return progress_.failure(); }

void OpenClStream::recover() { progress_.recover(ring_.submitted() + 1); }

void OpenClStream::close(Status cause) {
  progress_.fail(std::move(cause), progress_.handed_over() + 1);
  kick();
}

}  // namespace slipway::internal
