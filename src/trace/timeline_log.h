// The bounded log of when each unit of work was submitted, started and ended. Exists only while it is on; a
// flag of each stream keeps every other path free of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "slipway/trace.h"

namespace slipway::internal {

class TimelineLog {
 public:
  // Keeps the first `capacity` entries; later ones are dropped.
  explicit TimelineLog(std::size_t capacity) : capacity_(capacity) {}

  // A stream is known by its sink, a record by its number there; `shown_sequence` is what users count.
  void submitted(const void* stream, const std::string& stream_name, std::uint64_t sequence,
                 std::uint64_t shown_sequence, std::string name, std::int64_t at_ns);
  void started(const void* stream, std::uint64_t sequence, std::int64_t at_ns);
  void ended(const void* stream, std::uint64_t sequence, std::int64_t at_ns);
  // A span of another kind, complete.
  void span(TimelineEntry entry);
  std::vector<TimelineEntry> take();

 private:
  struct Key {
    const void* stream;
    std::uint64_t sequence;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const noexcept {
      return std::hash<const void*>()(k.stream) * 31 + std::hash<std::uint64_t>()(k.sequence);
    }
  };
  // The executor may come first, so either side makes the entry. Null when full.
  TimelineEntry* entry(const void* stream, std::uint64_t sequence);

  std::mutex mutex_;
  std::size_t capacity_;
  std::vector<TimelineEntry> entries_;
  std::unordered_map<Key, std::size_t, Hash> index_;
};

}  // namespace slipway::internal
