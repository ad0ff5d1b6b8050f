#include "device/retire.h"

#include <algorithm>
#include <new>
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

void RetireList::add(std::function<void()>& destroy) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({pending_now(), {}});
  entries_.back().destroy.swap(destroy);
}

void RetireList::collect_locked(std::vector<std::function<void()>>& ready,
                                std::vector<std::shared_ptr<DriverStream>>& gone) {
  try {
    ready.reserve(entries_.size());
    gone.reserve(dropped_.size());
  } catch (const std::bad_alloc&) {
    return;  // what may go now goes later
  }
  std::erase_if(entries_, [&](Entry& entry) {
    std::erase_if(entry.waits_for, [](const Passing& p) { return p.stream->completed() >= p.sequence; });
    if (!entry.waits_for.empty()) return false;
    ready.push_back(std::move(entry.destroy));
    return true;
  });
  std::erase_if(dropped_, [&](std::shared_ptr<DriverStream>& stream) {
    if (stream->completed() < stream->sink().submitted()) return false;
    // One: pools hand out the same queue again, and others may have it still.
    if (const auto known = std::find(streams_.begin(), streams_.end(), stream); known != streams_.end()) {
      streams_.erase(known);
    }
    gone.push_back(std::move(stream));
    return true;
  });
}

void RetireList::collect() {
  // Destroyed outside the lock: a destructor may drop the last handle of something else.
  std::vector<std::function<void()>> ready;
  std::vector<std::shared_ptr<DriverStream>> gone;
  {
    const std::lock_guard lock(mutex_);
    if (entries_.empty() && dropped_.empty()) return;
    collect_locked(ready, gone);
  }
  for (auto& destroy : ready) destroy();
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
