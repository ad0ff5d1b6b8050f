#include "trace/timeline_log.h"

#include <algorithm>
#include <utility>

namespace slipway::internal {

TimelineLog::TimelineLog(std::size_t capacity) : capacity_(capacity) {
  // Touched once now: a page that is touched first while work is logged shows as a gap of 5 us in it.
  constexpr std::size_t kTouched = 1 << 14;
  entries_.resize(std::min(capacity, kTouched));
  entries_.clear();
}

TimelineLog::Known& TimelineLog::known(const void* object, const std::string& name) {
  Known& known = known_[object];
  // Sinks are used again, and so are addresses: another name is another thing.
  if (known.given != name) known.given = name, known.shown.clear();
  return known;
}

const std::string& TimelineLog::shown(Known& known, What what) {
  if (!known.shown.empty() || known.given.empty()) return known.shown;
  const unsigned uses = ++uses_[{what, known.given}];
  known.shown = uses == 1 ? known.given : known.given + " (" + std::to_string(uses) + ")";
  return known.shown;
}

TimelineEntry* TimelineLog::entry(const void* stream, std::uint64_t sequence) {
  if (taken_) return nullptr;
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

TimelineEntry* TimelineLog::entry_of_executor(const void* stream, std::uint64_t sequence) {
  TimelineEntry* e = entry(stream, sequence);
  Known& sink = known_[stream];
  if (!e) {
    // What was submitted to the log was counted then; the rest is counted once, whatever is said of it.
    const bool is_older = sink.first_submitted == 0 || sequence < sink.first_submitted;
    if (is_older && sequence > sink.dropped_before) ++dropped_, sink.dropped_before = sequence;
  } else if (e->submitted_ns == 0) {
    e->stream = shown(sink, What::kStream);
    e->sequence = sequence - sink.base;
  }
  return e;
}

void TimelineLog::submitted(const void* stream, const std::string& stream_name, std::uint64_t sequence,
                            std::uint64_t shown_sequence, std::string name, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  Known& sink = known(stream, stream_name);
  sink.base = sequence - shown_sequence;
  if (sink.first_submitted == 0) sink.first_submitted = sequence;
  if (TimelineEntry* e = entry(stream, sequence)) {
    e->sequence = shown_sequence;
    e->stream = shown(sink, What::kStream);
    e->name = std::move(name);
    e->submitted_ns = at_ns;
  } else {
    ++dropped_;
  }
}

bool TimelineLog::started(const void* stream, std::uint64_t sequence, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  TimelineEntry* e = entry_of_executor(stream, sequence);
  if (!e) return true;
  if (e->started_ns == 0) e->started_ns = at_ns;
  return !e->name.empty();
}

void TimelineLog::ended(const void* stream, std::uint64_t sequence, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  TimelineEntry* e = entry_of_executor(stream, sequence);
  if (e && e->ended_ns == 0) e->ended_ns = at_ns;
}

void TimelineLog::describe(const void* stream, std::uint64_t sequence, std::string name, const void* program,
                           std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  TimelineEntry* e = entry_of_executor(stream, sequence);
  if (!e) return;
  if (program) {
    e->subject = shown(known(program, name), What::kProgram);
    e->step = step;
  }
  if (e->name.empty()) e->name = std::move(name);
}

void TimelineLog::know(const void* stream, const std::string& name, std::uint64_t base) {
  const std::lock_guard lock(mutex_);
  known(stream, name).base = base;
}

void TimelineLog::span(TimelineEntry entry, const void* stream, const void* program) {
  const std::lock_guard lock(mutex_);
  if (taken_ || entries_.size() >= capacity_) {
    ++dropped_;
    return;
  }
  if (stream) entry.stream = shown(entry.stream.empty() ? known_[stream] : known(stream, entry.stream), What::kStream);
  if (program) entry.subject = shown(known(program, entry.subject), What::kProgram);
  entries_.push_back(std::move(entry));
}

std::vector<TimelineEntry> TimelineLog::take(std::uint64_t* dropped) {
  const std::lock_guard lock(mutex_);
  taken_ = true;
  if (dropped) *dropped = dropped_;
  index_.clear();
  known_.clear();
  return std::exchange(entries_, {});
}

}  // namespace slipway::internal
