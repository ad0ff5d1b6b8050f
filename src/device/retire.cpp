#include "device/retire.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

namespace slipway::internal {

void RetireList::add_stream(std::shared_ptr<DriverStream> stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
}

void RetireList::retire_stream(const std::shared_ptr<DriverStream>& stream) noexcept {
  const Lost<std::shared_ptr<DriverStream>> kept(std::in_place, stream);
  if (forked()) return;
  try {
    const std::lock_guard lock(mutex_);
    dropped_.push_back(stream);
  } catch (const std::bad_alloc&) {
    return;
  }
  std::destroy_at(&kept.value);
  collect();
}

std::vector<RetireList::Passing> RetireList::pending_now() const {
  std::vector<Passing> pending;
  for (const auto& stream : streams_) {
    const std::uint64_t submitted = stream->sink().submitted();
    if (stream->completed() < submitted) pending.push_back({stream, submitted});
  }
  return pending;
}

void RetireList::add(Runs runs, std::function<void()>& destroy) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({pending_now(), {}, runs});
  entries_.back().destroy.swap(destroy);
}

void RetireList::collect_locked(Ready& ready) {
  try {
    ready.memory.reserve(entries_.size());
    ready.others.reserve(entries_.size());
    ready.gone.reserve(dropped_.size());
    freeing_.reserve(freeing_.size() + 1);
  } catch (const std::bad_alloc&) {
    return;  // what may go now goes later
  }
  std::erase_if(entries_, [&](Entry& entry) {
    std::erase_if(entry.waits_for, [](const Passing& p) { return p.stream->completed() >= p.sequence; });
    if (!entry.waits_for.empty()) return false;
    (entry.runs == Runs::kDriver ? ready.memory : ready.others).push_back(std::move(entry.destroy));
    return true;
  });
  std::erase_if(dropped_, [&](std::shared_ptr<DriverStream>& stream) {
    if (stream->completed() < stream->sink().submitted()) return false;
    // One: pools hand out the same queue again, and others may have it still.
    if (const auto known = std::find(streams_.begin(), streams_.end(), stream); known != streams_.end()) {
      streams_.erase(known);
    }
    ready.gone.push_back(std::move(stream));
    return true;
  });
  if (!ready.memory.empty()) freeing_.push_back(ready.batch = ++batches_);
}

void RetireList::collect() {
  // Destroyed outside the lock: a destructor may drop the last handle of something else.
  Ready ready;
  {
    const std::lock_guard lock(mutex_);
    if (entries_.empty() && dropped_.empty()) return;
    collect_locked(ready);
  }
  for (auto& free : ready.memory) free();
  if (ready.batch != 0) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(freeing_, ready.batch);
    }
    freed_.notify_all();
  }
  for (auto& destroy : ready.others) destroy();
}

Status RetireList::settle(const WaitRules& rules, std::int64_t deadline_ns) {
  collect();
  std::optional<BlockingScope> scope;  // left after the lock
  std::unique_lock lock(mutex_);
  const auto settled = [this, last = batches_] {
    return std::none_of(freeing_.begin(), freeing_.end(), [&](std::uint64_t batch) { return batch <= last; });
  };
  if (settled()) return {};
  lock.unlock();
  scope.emplace(rules);
  lock.lock();
  if (freed_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns)), settled)) {
    return {};
  }
  return {ErrorCode::kTimeout,
          "all work had passed, but another thread was still giving back memory that had been dropped when the wait's "
          "limit ran out; wait again with a longer limit"};
}

void RetireList::clear() {
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<DriverStream>> streams, dropped;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
    streams.swap(streams_);
    dropped.swap(dropped_);
  }
  for (auto& entry : entries) entry.destroy();
}

void RetireList::leak() {
  const std::lock_guard lock(mutex_);
  new std::vector<Entry>(std::move(entries_));
  new std::vector<std::shared_ptr<DriverStream>>(std::move(streams_));
  new std::vector<std::shared_ptr<DriverStream>>(std::move(dropped_));
}

std::vector<std::shared_ptr<DriverStream>> RetireList::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

}  // namespace slipway::internal
