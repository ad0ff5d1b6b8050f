// How far something has come: a count that only grows, and those who wait for it.
//
// A stream's progress is its count of finished records, and so an event mark is a number in it. Waits are
// checked at marks only, so finishing any other record costs one store.
//   P1  completed_ grows by its one writer (whoever runs the stream; for a hold, whoever releases it).
//   P2  announce() stores completed_ and then reads waiting_; add_waiter() raises waiting_ and then reads
//       completed_, all seq_cst: a waiter is either seen or sees that it need not wait.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fence.h"
#include "base/parker.h"
#include "base/status.h"

namespace slipway::internal {

// What waits for a progress and is no thread: a lane, a stream of another driver.
class Resumable {
 public:
  // What was waited for has come. Called without locks; it may not be there any more afterwards.
  virtual void resume() = 0;

 protected:
  ~Resumable() = default;
};

// Who was freed, to be resumed once no lock is held. The usual few have their place in it: opening a gate does not
// allocate.
class Freed {
 public:
  void push_back(Resumable* waiter) {
    if (count_ < first_.size()) first_[count_++] = waiter;
    else rest_.push_back(waiter);
  }
  void resume_all() {
    for (std::size_t i = 0; i < count_; ++i) first_[i]->resume();
    count_ = 0;
    for (Resumable* waiter : std::exchange(rest_, {})) waiter->resume();
  }
  bool empty() const noexcept { return count_ == 0 && rest_.empty(); }
  // An empty one takes over what another holds.
  void take(Freed& other) noexcept {
    count_ = std::exchange(other.count_, 0);
    std::copy_n(other.first_.begin(), count_, first_.begin());
    rest_.swap(other.rest_);
  }

 private:
  std::array<Resumable*, 4> first_;  // as many as count_ says
  std::size_t count_ = 0;
  std::vector<Resumable*> rest_;
};
inline void resume_all(Freed& freed) { freed.resume_all(); }

class Progress {
 public:
  Progress() { waiters_.reserve(kUsualWaiters); }  // so that a first wait does not allocate

  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }

  // The same for who has stored something, seq_cst, that the writer reads behind its store.
  std::uint64_t completed_in_order() const noexcept { return completed_.load(std::memory_order_seq_cst); }

  // By the one writer: a record that nobody can wait for has finished.
  void advance(std::uint64_t sequence) noexcept { completed_.store(sequence, std::memory_order_release); }

  // By the one writer: a record that may be waited for has finished. Those that it frees are added to `freed`, to be
  // resumed by the caller; host threads are woken here.
  void announce(std::uint64_t sequence, Freed& freed) {
    if (store_then_load(completed_, sequence, waiting_, false) != 0) [[unlikely]]
      wake(sequence, freed);
  }

  // Everything from `sequence` on fails with this cause until close_failure().
  void open_failure(std::uint64_t sequence, Status cause);
  // Nothing behind `sequence` fails any more.
  void close_failure(std::uint64_t sequence);

  // The cause with which `sequence` failed; success when it did not.
  Status failure_of(std::uint64_t sequence) const;

  // Makes it wait for `sequence`: false when that has come already. `block` is run under the lock, once it is
  // certain that it will wait, and before anybody can free it.
  template <class Block>
  bool add_waiter(std::uint64_t sequence, Resumable* waiter, Block&& block) {
    const std::lock_guard lock(mutex_);
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    if (completed_.load(std::memory_order_seq_cst) >= sequence) {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    block();
    waiters_.push_back({sequence, waiter, nullptr});
    return true;
  }

  // Waits on the calling thread. False when the deadline passed first.
  bool wait(std::uint64_t sequence, std::int64_t spin_ns, std::int64_t deadline_ns);

 private:
  void wake(std::uint64_t sequence, Freed& freed);
  struct Waiter {
    std::uint64_t sequence;
    Resumable* resumable;  // or
    Parker* parker;        // a host thread
  };
  static constexpr std::size_t kUsualWaiters = 8;
  struct FailedRange {
    std::uint64_t from;
    std::uint64_t to;  // exclusive
    Status cause;
  };

  alignas(64) std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<bool> ever_failed_{false};  // set under mutex_ before the failed record completes
  mutable std::mutex mutex_;
  std::vector<Waiter> waiters_;
  std::vector<FailedRange> failures_;
};

}  // namespace slipway::internal
