#include "trace/timeline_log.h"

#include <utility>

namespace slipway::internal {

TimelineEntry* TimelineLog::entry(const void* stream, std::uint64_t sequence) {
  const auto [it, is_new] = index_.try_emplace({stream, sequence}, entries_.size());
  if (is_new) {
    if (entries_.size() >= capacity_) {
      index_.erase(it);
      return nullptr;
    }
    entries_.emplace_back().sequence = sequence;
  }
  return &entries_[it->second];
}

void TimelineLog::submitted(const void* stream, const std::string& stream_name, std::uint64_t sequence,
                            std::uint64_t shown_sequence, std::string name, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (TimelineEntry* e = entry(stream, sequence)) {
    e->sequence = shown_sequence;
    e->stream = stream_name;
    e->name = std::move(name);
    e->submitted_ns = at_ns;
  }
}

void TimelineLog::started(const void* stream, std::uint64_t sequence, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (TimelineEntry* e = entry(stream, sequence)) e->started_ns = at_ns;
}

void TimelineLog::ended(const void* stream, std::uint64_t sequence, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (TimelineEntry* e = entry(stream, sequence)) e->ended_ns = at_ns;
}

void TimelineLog::span(TimelineEntry entry) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() < capacity_) entries_.push_back(std::move(entry));
}

std::vector<TimelineEntry> TimelineLog::take() {
  const std::lock_guard lock(mutex_);
  index_.clear();
  return std::exchange(entries_, {});
}

}  // namespace slipway::internal
