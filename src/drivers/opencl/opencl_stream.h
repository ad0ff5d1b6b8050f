// A stream: a ring of records, and an in-order command queue that they are handed over to.
//
// Records are handed over at once by whoever publishes them, or, where the device's URI asks for a submission queue, by
// a launching thread (engine/launching_thread.h). Five cut the stream: a host function (until it has run), a wait for
// something that is not itself in a queue yet (a hold, or a mark that lies behind a cut), a replay at a gate that is
// not open, a replay at a condition (until it was read), and a queue that holds kMaxInFlight commands already. What
// lies behind a cut stays in the ring, which therefore pushes back as on other devices, and is discarded from there
// when the stream fails. Whoever ends the cut goes on with the stream: the host-function thread, the holder, the stream
// of the mark, whoever publishes, the service thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/driver.h"
#include "drivers/opencl/opencl_context.h"
#include "drivers/opencl/opencl_progress.h"
#include "engine/launching_thread.h"
#include "engine/replay_program.h"

namespace slipway::internal {

class OpenClStream final : public DriverStream, public QueuedStream, public std::enable_shared_from_this<OpenClStream> {
 public:
  // Takes over one reference to the queue.
  static std::shared_ptr<OpenClStream> create(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context,
                                              cl_command_queue queue, std::uint32_t ring_bytes, std::string name);
  ~OpenClStream() override;  // never waits

  Sink& sink() override { return ring_; }
  // Pumps, or has the launching thread pump while there is one.
  void kick() override;
  Pumped pump_turn() override;
  QueuedRing& queued_ring() override { return ring_; }
  std::uint64_t completed() override;
  Status wait(std::uint64_t sequence, std::int64_t deadline_ns) override;
  Status failure() override;
  void recover() override;
  // Waits (within the device's limit) until everything submitted so far is in the queue; null when it does not get
  // there, which only a cut can cause.
  void* native_handle() override;
  // A gate, or the end of the step before, that a replay waited for.
  void go_on_with_replay();

  std::uint64_t id() const noexcept { return id_; }
  ClProgress& progress() noexcept { return progress_; }
  const std::shared_ptr<ClContext>& context() const noexcept { return context_; }

  // Fails the stream, so that everything not handed over yet is discarded.
  void close(Status cause);
  // Waits for everything submitted. False: at the deadline (now_ns() time) it has not passed.
  bool drain(std::int64_t deadline_ns);
  // Ends the launching thread, be it this stream's own or shared; callers pump from then on. False: it is still inside
  // a call of the implementation, perhaps with our locks.
  bool stop_launching(std::int64_t deadline_ns) { return !launching_ || launching_->stop(deadline_ns); }

 private:
  OpenClStream(std::shared_ptr<OpenClShared> shared, std::shared_ptr<ClContext> context, cl_command_queue queue,
               std::uint32_t ring_bytes, std::string name);

  using Streams = std::vector<std::weak_ptr<OpenClStream>>;
  using Discarded = std::vector<std::shared_ptr<HostFunction>>;
  enum class Outcome { kHandedOver, kCut };
  enum class Goal { kHandedOver, kPassed };

  // Pumps on the calling thread. From inside a pump it is put off until the outer one has given up its locks.
  void kick_in_place();
  // The three of a pump: under pump_mutex_, they hand over what they can, at most `turn` records.
  Pumped pump(Streams& freed, std::size_t turn);
  Pumped drain_ring(Discarded& discarded, std::size_t turn);
  Outcome execute(const RecordHeader& header, std::uint64_t sequence);
  Outcome execute_wait(const EventRecord& wait, std::uint64_t sequence);
  // Of a replay: the graph keeps it, and it may run again.
  Outcome execute_host_function(const HostFunctionRecord& record, std::uint64_t sequence, const ReplayRecord* replay);
  // Launches, copies and fills: one command each.
  void enqueue_work(const RecordHeader& header, ClInFlight command);

  // Replays (opencl_replay.cpp), from where they were cut.
  Outcome execute_replay(const ReplayRecord& record, std::uint64_t sequence);
  Outcome execute_node(const RecordHeader& header, const ReplayRecord& record, std::uint64_t sequence, Status& cause);
  Outcome pass_gate(const ReplayRecord& record, std::uint64_t sequence, std::uint32_t group, Status& cause);
  // A condition (opencl_conditional.cpp): has its value read, which cuts the stream until it is there.
  Outcome pass_condition(const ConditionRecord& condition, const ReplayRecord& record, std::uint64_t sequence,
                         std::int64_t& distance, Status& cause);
  bool waits_for(Progress& progress, std::uint64_t step);
  void end_replay(const ReplayRecord& record, std::uint64_t sequence, const Status& cause);
  void go_on(std::uint64_t);
  bool give_up_host_function();
  Outcome discard_replay(const ReplayRecord& record, std::uint64_t sequence);
  Outcome discard(const RecordHeader& header, std::uint64_t sequence, Discarded& discarded);
  Status copy_inline(const CopyRecord& copy, ClInFlight& command);
  bool queue_is_full();
  void flush();

  // Has `action` called on a thread of the driver once the command has ended.
  Status when_ended(const ClEvent& event, TaskThread& thread, void (OpenClStream::*action)(std::uint64_t),
                    std::uint64_t argument, std::shared_ptr<void> kept = {});
  void host_function_turn(std::uint64_t sequence);
  void queue_has_room(std::uint64_t);
  void take_turn();  // of a loop that let others run

  bool await(Goal goal, std::uint64_t sequence, std::int64_t deadline_ns);
  void fail_record(const Status& why, std::uint64_t sequence, const std::string& what, const std::string& name);

  const std::shared_ptr<OpenClShared> shared_;
  const std::shared_ptr<ClContext> context_;
  const cl_command_queue queue_;
  const std::string name_;
  const std::uint64_t id_;
  const std::shared_ptr<LaunchingThread> launching_;  // null: in-line
  QueuedRing ring_;  // without a launching thread its consumer counts as detached all the time: every commit kicks
  ClProgress progress_;

  // Guards the rest and the consuming side of ring_. Held while OpenCL enqueues (which may compile); inside, a kernel's
  // mutex, then any stream's progress, an event's or hold's, the registry's are taken, one at a time. Never held while
  // anything is waited for or user code runs, and never by a callback of OpenCL.
  std::mutex pump_mutex_;
  std::uint64_t consumed_ = 0;  // records up to ring_.read_position
  bool unflushed_ = false;
  bool room_awaited_ = false;
  bool turn_posted_ = false;
  enum class HostState { kNone, kWaiting, kRunning, kDone } host_ = HostState::kNone;
  std::uint64_t host_sequence_ = 0;              // of the function that host_ is about
  std::shared_ptr<HostFunction> host_function_;  // in kWaiting

  bool replaying_ = false;                       // the replay at position_ has begun
  std::uint64_t replay_at_ = 0;                  // how far, in its tape
  std::int64_t gate_since_ns_ = 0;               // for the timeline
  std::size_t unflushed_nodes_ = 0, piece_ = 0;  // of the replay: handed over since a flush, and when the next is due
  // The condition at replay_at_ while it is read. The value belongs to whoever OpenCL calls back as well, since the
  // command may outlive the stream.
  ClEvent condition_read_;
  std::shared_ptr<std::uint64_t> condition_;
  std::uint64_t last_program_ = 0;  // whose step was handed over last, and which
  std::uint64_t last_step_ = 0;
  Freed freed_;                            // to be resumed without the mutex
  std::atomic<bool> replay_waits_{false};  // somebody will call go_on_with_replay()
};

}  // namespace slipway::internal
