// The bounded log of when each unit of work was submitted, started and ended. Exists only while it is on; a
// flag of each stream keeps every other path free of it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "slipway/trace.h"

namespace slipway::internal {

class TimelineLog {
 public:
  // Keeps the first `capacity` entries; later ones are dropped, and counted.
  explicit TimelineLog(std::size_t capacity);

  // A stream is known by its sink, a record by its number there; `shown_sequence` is what users count.
  void submitted(const void* stream, const std::string& stream_name, std::uint64_t sequence,
                 std::uint64_t shown_sequence, std::string name, std::int64_t at_ns);
  // A record that stood somewhere starts more than once: the first time counts, and so does the first end.
  // False: the record was submitted before the log was there, and describe() is to say what it is.
  bool started(const void* stream, std::uint64_t sequence, std::int64_t at_ns);
  void ended(const void* stream, std::uint64_t sequence, std::int64_t at_ns);

  // By the executor: what a record is, when nobody has said it, and of which program it is a step.
  void describe(const void* stream, std::uint64_t sequence, std::string name, const void* program, std::uint64_t step);

  // A stream that may have records on their way; its numbers begin after `base`.
  void know(const void* stream, const std::string& name, std::uint64_t base);

  // An entry of another kind. Where they are given, its stream is that of the sink `stream`, and its subject the name
  // of `program`.
  void span(TimelineEntry entry, const void* stream, const void* program);

  // Ends the log: what comes later is ignored.
  std::vector<TimelineEntry> take(std::uint64_t* dropped);

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
  struct Known {
    std::string given, shown;           // shown: empty until there is an entry of it
    std::uint64_t base = 0;             // streams
    std::uint64_t first_submitted = 0;  // since the log is there; 0: none
    std::uint64_t dropped_before = 0;   // the last record submitted before that which found no room
  };

  // The executor may come first, so either side makes the entry. Null when full.
  TimelineEntry* entry(const void* stream, std::uint64_t sequence);
  TimelineEntry* entry_of_executor(const void* stream, std::uint64_t sequence);
  enum class What : std::uint8_t { kStream, kProgram };
  // Which of them it is, the name `name` being that of now.
  Known& known(const void* object, const std::string& name);
  const std::string& shown(Known& known, What what);

  std::mutex mutex_;
  std::size_t capacity_;
  bool taken_ = false;
  std::uint64_t dropped_ = 0;
  std::vector<TimelineEntry> entries_;
  std::unordered_map<Key, std::size_t, Hash> index_;
  std::unordered_map<const void*, Known> known_;           // sinks and programs
  std::map<std::pair<What, std::string>, unsigned> uses_;  // of each name
};

}  // namespace slipway::internal
