// How far a stream has come: the commands that the device has, the marks that others wait for, the failures.
//
//   Q1  Each record of the stream is first handed over (enqueued as a command, found to need none, or discarded),
//       in order, and has passed when it and all before it have ended.
//   Q2  What was enqueued depends on nothing that the host has yet to do, only on commands enqueued before: a queue
//       always runs dry by itself. Records that would break this stay in the ring.
//   Q3  in_flight_ is in order; queues are in order, so commands end from its front.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/parker.h"
#include "device/driver.h"
#include "drivers/opencl/opencl_context.h"
#include "drivers/opencl/opencl_thread.h"
#include "engine/launching_thread.h"

namespace slipway::internal {

class OpenClStream;
class ReplayProgram;

struct ClFailedRange {
  std::uint64_t from;
  std::uint64_t to;  // exclusive
  Status cause;
};

// The streams of one driver by number. A stream that is gone has passed; what it failed with stays known.
class ClStreamRegistry {
 public:
  std::uint64_t next_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  void add(std::uint64_t id, std::weak_ptr<OpenClStream> stream);
  void remove(std::uint64_t id, std::vector<ClFailedRange> failures);
  std::shared_ptr<OpenClStream> find(std::uint64_t id) const;
  Status failure_of_gone(std::uint64_t id, std::uint64_t sequence) const;
  std::vector<std::shared_ptr<OpenClStream>> all() const;

 private:
  struct Gone {
    std::uint64_t id;
    std::vector<ClFailedRange> failures;
  };
  std::atomic<std::uint64_t> next_id_{1};
  mutable std::mutex mutex_;  // guards the rest; nothing is called or locked inside
  std::vector<std::pair<std::uint64_t, std::weak_ptr<OpenClStream>>> streams_;
  std::deque<Gone> gone_;
};

// Who hands records over: whoever publishes them, or a launching thread for all streams, or one for each.
class ClSubmissionQueue {
 public:
  struct Options {
    bool threaded = false;
    bool per_stream = false;
    std::int64_t spin_ns = 0;
  };
  explicit ClSubmissionQueue(const Options& options) noexcept : options_(options) {}

  // A thread that runs, or null where there is to be none.
  std::shared_ptr<LaunchingThread> thread_for_stream();

 private:
  const Options options_;
  std::mutex mutex_;  // guards the rest; nothing is called or locked inside but the thread's start
  std::shared_ptr<LaunchingThread> for_all_;
};

// What the driver's streams share. The environment outlives them all (or is leaked with them).
struct OpenClShared {
  OpenClShared(DriverEnvironment& lent, const ClSubmissionQueue::Options& options) noexcept
      : environment(lent), queue(options) {}
  DriverEnvironment& environment;
  ClStreamRegistry streams;
  ClSubmissionQueue queue;
  TaskThread service;         // goes on with streams when OpenCL says that they can
  TaskThread host_functions;  // runs user code, so nothing else waits for it

  void uncount_staged(std::uint64_t bytes) noexcept {
    if (bytes != 0) environment.counters.staged_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  }
};

struct ClInFlight {
  std::uint64_t sequence = 0;  // passed once the command has ended
  ClEvent event;
  const KernelCode* code = nullptr;  // launches; kept alive by the front door until the record has passed
  const char* what = "";             // "a copy", for errors
  void* staging = nullptr;           // freed with it
  std::shared_ptr<void> written{};   // likewise: where the device writes meanwhile
  std::uint64_t staged_bytes = 0;    // counted in the device's staged_bytes
  std::int64_t enqueued_ns = 0;      // 0: not for the timeline
  std::uint64_t source = 0;          // waits: the stream and mark that is waited for
  std::uint64_t source_mark = 0;
  const ReplayProgram* node_of = nullptr;  // a graph's node, while the timeline is on
  ReplayProgram* ends = nullptr;           // the last command of a replay: of this program
  std::uint64_t step = 0;                  // of both; programs outlive their steps
};

struct ClMarkState {
  enum Kind { kPending, kEnqueued, kPassed, kFailed } kind = kPending;
  ClEvent event;  // kEnqueued
  Status cause;   // kFailed
};

// Any thread. One mutex, under which only cheap OpenCL queries are made; OpenCL's callbacks never take it, so it does
// not matter what the implementation holds while it calls them.
class ClProgress {
 public:
  ClProgress(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context, Sink& sink) noexcept;
  ~ClProgress();
  ClProgress(const ClProgress&) = delete;
  ClProgress& operator=(const ClProgress&) = delete;

  // --- By whoever drains the ring ---
  void add(ClInFlight command);
  std::size_t depth() const;
  // The command in the middle of those in flight; empty when there are none.
  ClEvent middle() const;
  // All records up to this one are handed over. `freed` receives the streams that waited for that.
  void handed_over(std::uint64_t sequence, std::vector<std::weak_ptr<OpenClStream>>& freed);

  // --- By anybody ---
  // Notices what has ended: frees staging, writes the timeline, finds failures.
  void reap();
  // Tells programs about steps that have ended. By whoever may resume others, so without locks.
  void finish_steps();
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  std::uint64_t handed_over() const noexcept { return handed_over_.load(std::memory_order_acquire); }

  // From `sequence` on everything fails with this cause, until recover(). The first failure stays.
  void fail(Status cause, std::uint64_t sequence);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  Status failure() const;
  // Nothing from `next` on fails any more.
  void recover(std::uint64_t next);
  Status failure_of(std::uint64_t sequence) const;
  std::vector<ClFailedRange> failures() const;

  // About a mark. While it is kPending, `waiter` (when given) is remembered, to be freed by handed_over().
  ClMarkState look_at(std::uint64_t mark, const std::weak_ptr<OpenClStream>* waiter);

  // For a thread that waits: the command whose end makes `sequence` pass, or empty when that was not enqueued yet.
  ClEvent command_for(std::uint64_t sequence) const;
  // Woken by each handed_over() that moves on.
  void add_waker(std::shared_ptr<Parker> waker);
  void remove_waker(const std::shared_ptr<Parker>& waker);

  // Gives up on the commands in flight, and on any that follow: they count as passed.
  void abandon();

 private:
  struct Unexplained {  // a wait that failed on the device, whose cause another stream knows
    std::uint64_t sequence = 0, source = 0, mark = 0;
  };
  Unexplained reap_locked(const Status* cause, std::uint64_t cause_of);
  Status explain(const Unexplained& wait) const;
  void fail_locked(Status cause, std::uint64_t sequence);
  Status failure_of_locked(std::uint64_t sequence) const;
  void publish_locked() noexcept;
  void finish(ClInFlight& command, cl_int status);
  void write_timeline(const ClInFlight& command) const;
  void give_up_locked(ClInFlight& command);
  void release_when_ended(ClInFlight& command) noexcept;

  const std::shared_ptr<OpenClShared> shared_;
  const std::shared_ptr<ClContext> context_;
  Sink& sink_;

  // Stored under mutex_, release; read anywhere, acquire.
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> handed_over_{0};
  std::atomic<bool> failed_{false};

  // Guards the rest. Taken after a pump mutex, never with another stream's of its kind; the timeline's own mutex is
  // the only one taken inside.
  mutable std::mutex mutex_;
  std::deque<ClInFlight> in_flight_;
  struct EndedStep {
    ReplayProgram* program;
    std::uint64_t step, sequence;
  };
  std::deque<EndedStep> ended_steps_;  // not passed before their program knows
  bool finishing_ = false;
  bool abandoned_ = false;
  std::vector<ClFailedRange> failures_;
  std::vector<std::pair<std::uint64_t, std::weak_ptr<OpenClStream>>> waiting_;  // by mark
  std::vector<std::shared_ptr<Parker>> wakers_;
};

}  // namespace slipway::internal
