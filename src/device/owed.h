// Updates that a thread owes: steps that it launched and said it would publish itself. A call of that thread which
// would wait for such a step would wait for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/biased_mutex.h"
#include "base/status.h"
#include "base/thread_id.h"

namespace slipway::internal {

class OwedUpdates {
 public:
  static constexpr std::uint64_t kNobody = 0;
  struct alignas(64) Owed {  // on lines of its own: what lies beside it in memory may be a worker's
    const void* graph;
    std::uint64_t step;
    const void* stream;
    std::uint64_t thread;           // kNobody: another one, which was not named
    const std::string* graph_name;  // both outlive the entry
    const std::string* gate_name;
    // Has the step passed, or been cancelled, by whomever? It comes by itself then, and nothing is owed.
    bool (*is_over)(const void* graph, std::uint64_t step);
    bool published = false;  // it only passes on that it waits for one that is not
    bool reached = false;    // of the present look

    bool over() const { return is_over(graph, step); }

    std::string what() const {
      return "step " + std::to_string(step) + " of graph '" + *graph_name + "' (gate '" + *gate_name + "')";
    }
  };

  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

  void add(const Owed& owed) {
    const std::lock_guard lock(mutex_);
    owed_.push_back(owed);
    count_.store(owed_.size(), std::memory_order_release);
  }
  // A step that has its values, or takes none. Where it stands behind one that has not, it is known to wait for that
  // one, until it has passed.
  void add_published(Owed owed) {
    const std::lock_guard lock(mutex_);
    std::erase_if(owed_, [](const Owed& o) { return o.published && o.over(); });
    // One of them is enough, however many follow on the same stream before another step is open.
    bool known = false;
    for (auto o = owed_.rbegin(); o != owed_.rend() && o->published && !known; ++o)
      known = o->graph == owed.graph && o->stream == owed.stream;
    count_.store(owed_.size(), std::memory_order_release);
    if (known) return;
    owed.published = true;
    owed_.push_back(owed);
    const Owed* front = find([&](const Owed& o) { return &o == &owed_.back(); }, [](const Owed&) { return true; });
    if (!front) owed_.pop_back();
    count_.store(owed_.size(), std::memory_order_release);
  }
  // Of these steps nothing is owed any more.
  void remove(const void* graph, std::uint64_t first, std::uint64_t last) {
    const std::lock_guard lock(mutex_);
    std::erase_if(owed_, [&](const Owed& o) { return o.graph == graph && o.step >= first && o.step <= last; });
    count_.store(owed_.size(), std::memory_order_release);
  }
  // The step is published. Does it wait for one that is not, by whomever? Then it is kept until it has passed.
  bool publish(const void* graph, std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    if (owed_.size() == 1 && owed_.front().graph == graph && owed_.front().step == step) {  // nothing is in front of it
      owed_.clear();
      count_.store(0, std::memory_order_release);
      return false;
    }
    return publish_among(graph, step);
  }
  // WouldDeadlock when this thread owes an update to something on the stream (null: on any).
  Status check(const void* stream, const char* what) {
    if (!any()) return {};
    const std::uint64_t me = thread_id();
    const std::lock_guard lock(mutex_);
    if (const Owed* owed = find([&](const Owed& o) { return !stream || o.stream == stream; },
                                [&](const Owed& o) { return o.thread == me; })) {
      return {ErrorCode::kWouldDeadlock, std::string(what) + " would wait for " + owed->what() +
                                             ", whose values this very thread owes; publish them first, or launch with "
                                             "Publisher::kOtherThread when another thread will"};
    }
    return {};
  }
  // The same for one step of a graph and those before it. `own`: only where the update is that graph's, too.
  Status check_step(const void* graph, std::uint64_t step, const char* what, bool own = false) {
    if (!any()) return {};
    const std::uint64_t me = thread_id();
    const std::lock_guard lock(mutex_);
    if (const Owed* owed = find([&](const Owed& o) { return o.graph == graph && o.step <= step; },
                                [&](const Owed& o) { return o.thread == me && (!own || o.graph == graph); })) {
      return {ErrorCode::kWouldDeadlock, std::string(what) + " would wait for " + owed->what() +
                                             ", whose values this very thread owes; publish them first"};
    }
    return {};
  }

 private:
  // Under the mutex: publish() where others are owed, too.
  bool publish_among(const void* graph, std::uint64_t step) {
    std::erase_if(owed_, [](const Owed& o) { return o.published && o.over(); });
    const auto own =
        std::find_if(owed_.begin(), owed_.end(), [&](const Owed& o) { return o.graph == graph && o.step == step; });
    bool held_up = false;
    if (own != owed_.end()) {
      own->published = true;
      held_up = find([&](const Owed& o) { return &o == &*own; }, [](const Owed&) { return true; }) != nullptr;
      if (!held_up) owed_.erase(own);
    }
    count_.store(owed_.size(), std::memory_order_release);
    return held_up;
  }
  static bool stands_behind(const Owed& o, const Owed& front) {
    return o.graph == front.graph ? front.step < o.step : front.stream == o.stream;
  }
  // The oldest that is not published, meets `wanted`, and is one of `roots` or in front of one. Under the mutex; what
  // stands in front was added before.
  template <class Roots, class Wanted>
  const Owed* find(Roots&& roots, Wanted&& wanted) {
    const Owed* found = nullptr;
    for (std::size_t i = owed_.size(); i-- > 0;) {
      Owed& o = owed_[i];
      o.reached = roots(o);
      for (std::size_t k = i + 1; k < owed_.size() && !o.reached; ++k)
        o.reached = owed_[k].reached && stands_behind(owed_[k], o);
      o.reached = o.reached && !o.over();
      if (o.reached && !o.published && wanted(o)) found = &o;
    }
    return found;
  }

  BiasedMutex mutex_;
  std::vector<Owed> owed_;  // in the order in which they were launched
  std::atomic<std::size_t> count_{0};
};

}  // namespace slipway::internal
