// Updates that a thread owes: steps that it launched and said it would publish itself. A call of that thread which
// would wait for such a step would wait for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_id.h"

namespace slipway::internal {

class OwedUpdates {
 public:
  static constexpr std::uint64_t kNobody = 0;
  struct Owed {
    const void* graph;
    std::uint64_t step;
    const void* stream;
    std::uint64_t thread;           // kNobody: another one, which was not named
    const std::string* graph_name;  // both outlive the entry
    const std::string* gate_name;
    // Has the step passed, or been cancelled, by whomever? It comes by itself then, and nothing is owed.
    bool (*is_over)(const void* graph, std::uint64_t step);

    std::string what() const {
      return "step " + std::to_string(step) + " of graph '" + *graph_name + "' (gate '" + *gate_name + "')";
    }
  };

  void add(const Owed& owed) {
    const std::lock_guard lock(mutex_);
    owed_.push_back(owed);
    count_.store(owed_.size(), std::memory_order_release);
  }
  // Of these steps nothing is owed any more.
  void remove(const void* graph, std::uint64_t first, std::uint64_t last) {
    const std::lock_guard lock(mutex_);
    std::erase_if(owed_, [&](const Owed& o) { return o.graph == graph && o.step >= first && o.step <= last; });
    count_.store(owed_.size(), std::memory_order_release);
  }
  // Would a step of this graph on this stream wait for one that is owed, by whomever?
  bool holds_up(const void* graph, std::uint64_t step, const void* stream) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(owed_.begin(), owed_.end(), [&](const Owed& o) {
      return (o.graph == graph ? o.step < step : o.stream == stream) && !o.is_over(o.graph, o.step);
    });
  }
  // WouldDeadlock when this thread owes an update to something on the stream (null: on any).
  Status check(const void* stream, const char* what) const {
    if (count_.load(std::memory_order_acquire) == 0) return {};
    const std::uint64_t me = thread_id();
    const std::lock_guard lock(mutex_);
    for (const Owed& owed : owed_) {
      if (owed.thread != me || (stream && owed.stream != stream) || owed.is_over(owed.graph, owed.step)) continue;
      return {ErrorCode::kWouldDeadlock, std::string(what) + " would wait for " + owed.what() +
                                             ", whose values this very thread owes; publish them first, or launch with "
                                             "Publisher::kOtherThread when another thread will"};
    }
    return {};
  }
  // The same for one step of a graph and those before it.
  Status check_step(const void* graph, std::uint64_t step, const char* what) const {
    if (count_.load(std::memory_order_acquire) == 0) return {};
    const std::uint64_t me = thread_id();
    const std::lock_guard lock(mutex_);
    for (const Owed& owed : owed_) {
      if (owed.thread != me || owed.graph != graph || owed.step > step || owed.is_over(graph, owed.step)) continue;
      return {ErrorCode::kWouldDeadlock, std::string(what) + " would wait for " + owed.what() +
                                             ", whose values this very thread owes; publish them first"};
    }
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Owed> owed_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace slipway::internal
