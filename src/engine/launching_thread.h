// The submission queue, for devices whose native launch is slow: the calling thread appends records to its stream's
// ring, and a launching thread hands them to the device.
//
// The queue is the ring itself, so bounds, back-pressure and order are the ring's. What is added is who looks at it.
// The consumer states mean here:
//   kDetached  nobody looks: whoever publishes must kick (S3 of record/sink.h)
//   kReady     in ready: the thread will look at it
//   kPolled    in polled: the thread is awake, and looks at it or pumps it; a publication costs no wake-up
//   kBlocked   it stands at something that is not over, and whoever ends that kicks; publications need not
// Invariants:
//   T1  The state is stored under the mutex only. kDetached and kBlocked go to kReady by a kick; the others are the
//       thread's own moves.
//   T2  A kick raises poked_ under the mutex, whatever the state. The thread lowers it before it pumps, and looks at it
//       under the mutex before it leaves a stream to itself (kBlocked, kDetached). So a pump begins after every kick.
//   T3  Before it sleeps, the thread stores kDetached for each stream it polls and then reads published_ once more
//       (base/fence.h; it is the rare side). So a submitter sees kDetached and kicks, or the thread sees its record.
//       Only a kick that finds `asleep` wakes it, and lowers that, so that nobody wakes it a second time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/parker.h"
#include "record/ring.h"

namespace slipway::internal {

class LaunchingThread;
class QueuedStream;

// A ring that a launching thread may empty.
class QueuedRing final : public Ring {
 public:
  using Ring::Ring;

  // Before the first record: the stream that this is the ring of, and its thread. Both outlive it.
  void set_launching(QueuedStream* stream, LaunchingThread* thread) noexcept {
    stream_ = stream;
    launching_ = thread;
  }
  // By who empties it without a thread from now on: every publication kicks.
  void detach() noexcept;
  ConsumerState state() const noexcept { return consumer_.load(std::memory_order_relaxed); }
  bool has_work() const noexcept { return published() != read_position.load(std::memory_order_relaxed); }

  // Where the consumer reads next. Its own; relaxed, because the launching thread only peeks at it between pumps.
  std::atomic<std::uint64_t> read_position{0};

 protected:
  // A launching thread that submits to a queue of its own would wait for itself: it pumps in place instead, so that
  // what it submits comes behind everything that was submitted before.
  std::byte* reserve_slow(std::uint32_t bytes, Status& why, std::int64_t deadline_ns) override;

 private:
  friend class LaunchingThread;
  QueuedStream* stream_ = nullptr;
  LaunchingThread* launching_ = nullptr;
  std::atomic<bool> poked_{false};  // T2
};

enum class Pumped : std::uint8_t {
  kEmpty,   // everything published was taken
  kMore,    // its turn is over, and there is more
  kStands,  // at something that is not over; whoever ends it kicks
};

// What a launching thread pumps: a stream of a driver.
class QueuedStream {
 public:
  // Hands over what it can, at most a turn of records, so that other streams get theirs. By the launching thread.
  virtual Pumped pump_turn() = 0;
  virtual QueuedRing& queued_ring() = 0;

 protected:
  ~QueuedStream() = default;
};

class LaunchingThread {
 public:
  // The thread looks around for `spin_ns` before it sleeps; 0: it sleeps as soon as there is nothing to do.
  LaunchingThread(std::int64_t spin_ns, std::string name);
  ~LaunchingThread();  // stops without waiting
  LaunchingThread(const LaunchingThread&) = delete;
  LaunchingThread& operator=(const LaunchingThread&) = delete;

  // Makes kick() work; later calls do nothing.
  void start();
  // Has the stream pumped once more, beginning after this call. False: it was stopped, and nobody will. Any thread,
  // with any lock held but its own: it takes one mutex, which is a leaf.
  bool kick(const std::shared_ptr<QueuedStream>& stream);
  bool is_this_thread() const noexcept;

  // Ends it after the turn that it is at, and leaves all streams detached. False: it has not ended at the deadline
  // (now_ns() time), or is the caller; it then ends by itself.
  bool stop(std::int64_t deadline_ns);

 private:
  using Streams = std::vector<std::shared_ptr<QueuedStream>>;
  struct State {
    State(std::int64_t spin, std::string label) : spin_ns(spin), name(std::move(label)) {}
    const std::int64_t spin_ns;
    const std::string name;
    Parker parker;
    // Raised under the mutex with what it tells of (ready, stopping), relaxed: the thread takes the mutex when it
    // sees it, and before it sleeps.
    std::atomic<bool> attention{false};
    std::atomic<std::thread::id> id{};  // relaxed: only the thread itself must find its own there
    std::mutex mutex;                   // guards the rest, but for the thread's own
    std::condition_variable changed;
    Streams ready;
    bool asleep = false;
    bool stopping = false;
    bool ended = false;
    // The thread's own. A stream in it lives on; one that only the thread has is let go.
    Streams polled;
    Streams taken;
  };
  static void run(const std::shared_ptr<State>& state);
  static bool take_ready(State& state);                      // false: to stop
  static bool pump_all(State& state);                        // true: there was something to do
  static bool pump_one(State& state, QueuedStream& stream);  // false: it is left to itself
  static bool let_go(State& state, QueuedStream& stream);
  static void sleep(State& state);
  static void leave_all(State& state);

  std::shared_ptr<State> state_;  // the thread's too, so that it may outlive this object
  std::mutex start_mutex_;        // guards thread_; the thread never takes it
  std::thread thread_;
};

}  // namespace slipway::internal
