// The submitting side of a stream: who may write to its sink, and the way a record takes into it.
//
// The right to submit is a BiasedMutex (its B1 to B3): a stream is biased to the first thread that submits. Who holds
// it touches the producer's fields of the sink.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "base/biased_mutex.h"
#include "base/thread_id.h"
#include "device/capture_target.h"
#include "device/device_impl.h"
#include "trace/counters.h"

namespace slipway::internal {

class StreamImpl final : public std::enable_shared_from_this<StreamImpl>, private NativeWork {
 public:
  StreamImpl(std::shared_ptr<DeviceImpl> device, std::shared_ptr<DriverStream> driver_stream, std::string name,
             std::uint64_t id);
  ~StreamImpl() override;

  DeviceImpl& device() noexcept { return *device_; }
  const std::shared_ptr<DeviceImpl>& shared_device() const noexcept { return device_; }
  std::uint32_t generation() const noexcept { return generation_; }
  DriverStream& driver_stream() noexcept { return *driver_; }
  const std::shared_ptr<DriverStream>& shared_driver_stream() const noexcept { return driver_; }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t base() const noexcept { return base_; }
  StreamCounters& counters() noexcept { return counters_; }

  // --- The fast path ---
  // Takes the right to submit, when this thread is the owner and nothing asks for the slow path.
  bool try_enter() noexcept {
    if (!right_.enter(t_fast_thread_id, BiasedMutex::Inside::kBriefly)) return false;  // inside callbacks that is 0
    if (sink_->slow_flags() == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  Sink& sink() noexcept { return *sink_; }  // once entered
  void leave() noexcept { right_.leave(); }
  // For whoever took something away that fast paths read, seq_cst, between try_enter() and leave(): with store_rare()
  // of base/fence.h. On return nobody uses what was there. Short: a fast path waits for nothing.
  void await_fast_paths() const noexcept {
    while (right_.is_inside_briefly()) std::this_thread::yield();
  }
  void kick() { driver_->kick(); }
  // Submits a record that owns nothing. False, and nothing happened: the general way is to be taken.
  template <class Record>
  bool try_submit(const Record& record) {
    static_assert(sizeof(Record) % kRecordAlignment == 0);
    if (!try_enter()) return false;
    std::byte* place = sink_->try_reserve(sizeof record);
    if (!place) {
      leave();
      return false;
    }
    std::memcpy(place, &record, sizeof record);
    const bool must_kick = sink_->commit(sizeof record);
    leave();
    if (must_kick) kick();
    return true;
  }

  // --- The general way ---
  // Submits one finished record: takes the right to submit, refuses on a failed or closed stream, waits for
  // room, and in blocking mode for the record itself. `name` is for the timeline. Calls `count` with the right
  // held. Returns the sequence number. Throws with nothing submitted, except in blocking mode, where the
  // failure of the work itself is thrown.
  template <class Count>
  std::uint64_t submit(const std::byte* record, std::uint32_t bytes, const std::string& name, Count&& count,
                       std::span<const ParameterUse> uses = {}) {
    return submit_owning([] {}, record, bytes, name, std::forward<Count>(count), uses);
  }

  // The same for a record that owns something: `taken` is called once the record is in the sink.
  template <class Taken, class Count>
  std::uint64_t submit_owning(Taken&& taken, const std::byte* record, std::uint32_t bytes, const std::string& name,
                              Count&& count, std::span<const ParameterUse> uses = {}) {
    check_settling();
    const std::uint64_t sequence =
        submit_unsettled(std::forward<Taken>(taken), record, bytes, name, std::forward<Count>(count), uses);
    if (sequence != 0) settle();
    return sequence;
  }

  // The same without waiting in blocking mode, for whoever holds something that others need; settle() follows. 0: it
  // was captured.
  template <class Taken, class Count>
  std::uint64_t submit_unsettled(Taken&& taken, const std::byte* record, std::uint32_t bytes, const std::string& name,
                                 Count&& count, std::span<const ParameterUse> uses = {}) {
    Submission submission(*this);
    if (const auto target = may_be_captured() ? capture() : nullptr) {
      target->append(*this, record, bytes, name, uses);
      taken();
      return 0;
    }
    count(counters_);
    const std::uint64_t sequence = append(submission, record, bytes, name, 0);
    taken();
    return sequence;
  }
  // What follows a submission once the right to submit is given up: in blocking mode, waiting for it.
  void settle();
  // WouldDeadlock where that would wait for values that this thread owes.
  void check_settling();

  // The capture that this stream is part of; null when it is none's. Set by the graph layer.
  std::shared_ptr<CaptureTarget> capture() const;
  void set_capture(std::shared_ptr<CaptureTarget> target);
  bool may_be_captured() const noexcept { return (sink_->slow_flags() & kSlowCaptured) != 0; }
  // Whether what others put on the native queue is captured too.
  bool captures_native_work() const noexcept { return captures_native_work_; }
  // Refuses what a captured stream must not be asked.
  void refuse_captured(const char* what);

  // A mark that belongs to no event, also on a failed stream: something to wait for. Its number in the sink.
  // Waits for room until `deadline_ns` (now_ns() time, not 0).
  std::uint64_t internal_mark(std::int64_t deadline_ns);

  // The failure that nobody was told of yet; then it counts as told.
  Status take_failure();
  void synchronize(std::int64_t deadline_ns);
  void recover();
  // Counts that a call left the fast path, and tells the timeline; `subject` is what was to be launched.
  void note(Reason reason, const std::string& subject);
  // Throws what a submission would be refused with.
  void check_open() {
    device_->check_usable("a submission to a stream", generation_);
    refusal().throw_if_error();
  }
  std::uint64_t submitted() const noexcept { return sink_->submitted() - base_; }
  std::uint64_t completed() { return driver_->completed() - base_; }

 private:
  // Holds the right to submit.
  class Submission {
   public:
    explicit Submission(StreamImpl& stream);
    void release() noexcept { lock_.unlock(); }

   private:
    std::unique_lock<BiasedMutex> lock_;
  };
  // Writes the record, gives up the right to submit and kicks. Internal marks give a
  // deadline: they are submitted on a failed stream too.
  std::uint64_t append(Submission& submission, const std::byte* record, std::uint32_t bytes, const std::string& name,
                       std::int64_t deadline_ns);
  // synchronize(), checked.
  void finish(std::int64_t deadline_ns);
  // Why a submission is refused; success in the usual case.
  Status refusal() {
    if ((sink_->slow_flags() & (kSlowClosed | kSlowFailed)) == 0 &&
        !device_->environment().lost.load(std::memory_order_acquire)) [[likely]]
      return {};
    return look_up_refusal();
  }
  Status look_up_refusal();
  Status take(std::unique_ptr<HostFunction>& work) override;

  // What the fast path reads, together.
  Sink* sink_;
  BiasedMutex right_;
  StreamCounters counters_;

  std::shared_ptr<DeviceImpl> device_;
  std::shared_ptr<DriverStream> driver_;
  std::string name_;
  std::uint64_t base_;  // the sink may have been used before: its count at the beginning
  std::uint32_t generation_;
  bool captures_native_work_;
  bool shared_told_ = false;  // under right_
  mutable std::mutex capture_mutex_;
  std::shared_ptr<CaptureTarget> capture_;  // under capture_mutex_; kSlowCaptured says when to look
  std::atomic<bool> failure_told_{false};
};

}  // namespace slipway::internal
