// The timeline in Chrome's trace-event format. One row of the viewer is one thread of the format.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "slipway/trace.h"
#include "trace/json_text.h"
#include "trace/tracks.h"

namespace slipway {
namespace {

using internal::append_json_string;
using internal::Instant;
using internal::Slice;
using internal::Track;
using Kind = TimelineEntry::Kind;

constexpr std::int64_t kNever = 0;

class ChromeTrace {
 public:
  ChromeTrace(std::span<const TimelineEntry> timeline, const ChromeTraceOptions& options)
      : timeline_(timeline), options_(options) {
    for (const TimelineEntry& e : timeline_) {
      for (const std::int64_t at : {e.submitted_ns, e.started_ns, e.ended_ns}) {
        if (at == kNever) continue;
        if (first_ns_ == kNever || at < first_ns_) first_ns_ = at;
        last_ns_ = std::max(last_ns_, at);
      }
    }
  }

  std::string text() {
    sort_out();
    unsigned tid = 1;
    std::vector<Track*> tracks;
    for (auto* group : {&updates_, &streams_}) {
      for (Track& track : *group) tracks.push_back(&track);
    }
    out_ = "{\"traceEvents\":[";
    begin("M", "process_name", 0);
    named_argument("name", options_.process);
    for (Track* track : tracks) {
      place_in_rows(*track);
      track->first_tid = tid;
      for (unsigned row = 0; row < track->rows; ++row, ++tid) {
        begin("M", "thread_name", tid);
        named_argument("name", row == 0 ? track->name : track->name + " (row " + std::to_string(row + 1) + ")");
        begin("M", "thread_sort_index", tid);
        out_ += ",\"args\":{\"sort_index\":" + std::to_string(tid) + "}}";
      }
    }
    for (const Track* track : tracks) write(*track);
    write_arrows();
    if (options_.dropped > 0) {
      begin("i", "the log was full: " + std::to_string(options_.dropped) + " entries were dropped", 0, last_ns_, "log");
      out_ += ",\"s\":\"g\"}";
    }
    out_ +=
        "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"slipway\",\"time_unit\":\"us\",\"first_ns\":" +
        std::to_string(first_ns_) + ",\"entries\":" + std::to_string(timeline_.size()) +
        ",\"unfinished\":" + std::to_string(unfinished_) + ",\"dropped\":" + std::to_string(options_.dropped) + "}}\n";
    return std::move(out_);
  }

 private:
  using StepKey = std::pair<std::string_view, std::uint64_t>;                  // graph, step
  using GateKey = std::tuple<std::string_view, std::uint64_t, std::uint32_t>;  // and gate
  static GateKey gate_key(const TimelineEntry& e) { return {e.subject, e.step, e.gate}; }

  // --- Which entry is shown where ---

  static Track& track_of(std::vector<Track>& tracks, std::string name) {
    for (Track& track : tracks) {
      if (track.name == name) return track;
    }
    tracks.push_back({std::move(name), {}, {}});
    return tracks.back();
  }

  Track& track_of(const TimelineEntry& e) {
    if (e.kind == Kind::kUpdate) return track_of(updates_, e.subject + ": updates");
    return track_of(streams_, e.stream.empty() ? "(no stream)" : e.stream);
  }

  std::string gate_name(const TimelineEntry& e) const {
    const auto found = gate_names_.find({e.subject, e.gate});
    if (found != gate_names_.end()) return std::string(found->second);
    return e.gate == 0 ? "values" : "operation " + std::to_string(e.gate);
  }

  std::pair<std::string, const char*> label(const TimelineEntry& e) const {
    const std::string name = e.name.empty() ? "(unnamed)" : e.name;
    const std::string step = " step " + std::to_string(e.step);
    switch (e.kind) {
      case Kind::kSubmission:
        if (e.subject.empty()) return {name, "submission"};
        return {e.subject + step, "replay"};
      case Kind::kNode: return {name, "node"};
      case Kind::kGateWait: return {"gate " + gate_name(e) + ", before " + name, "gate"};
      case Kind::kUpdate: return {"update" + step + ": " + name, "update"};
      case Kind::kReason: break;
    }
    return {e.subject.empty() ? name : name + ": " + e.subject, "reason"};
  }

  void sort_out() {
    for (const TimelineEntry& e : timeline_) {
      if (e.kind == Kind::kUpdate) gate_names_.emplace(std::pair(std::string_view(e.subject), e.gate), e.name);
    }
    for (const TimelineEntry& e : timeline_) {
      auto [name, category] = label(e);
      Track& track = track_of(e);
      if (e.kind == Kind::kSubmission && e.step > 0 && e.submitted_ns != kNever) {
        track.instants.push_back({&e, name + " submitted", "submitted", e.submitted_ns});
      }
      if (e.kind == Kind::kReason && e.started_ns != kNever) {
        track.instants.push_back({&e, std::move(name), category, e.started_ns});
        continue;
      }
      if (e.started_ns != kNever && e.ended_ns != kNever) {
        if (e.kind == Kind::kUpdate) track.instants.push_back({&e, "gate " + e.name + " opens", "gate", e.ended_ns});
        // Clocks of devices may disagree a little with that of the host.
        track.slices.push_back({&e, std::move(name), category, e.started_ns, std::max(e.started_ns, e.ended_ns)});
        continue;
      }
      ++unfinished_;
      if (e.kind == Kind::kSubmission && e.started_ns != kNever) {
        track.slices.push_back({&e, name + " (unfinished)", category, e.started_ns, last_ns_, true});
      } else if (e.started_ns != kNever) {
        track.instants.push_back(
            {&e, name + (e.kind == Kind::kUpdate ? " (refused)" : " (unfinished)"), category, e.started_ns, true});
      } else if (e.ended_ns != kNever) {
        track.instants.push_back({&e, name + " (its start was not seen)", category, e.ended_ns, true});
      } else if (e.submitted_ns != kNever) {
        track.instants.push_back({&e, name + " (submitted, not started)", category, e.submitted_ns, true});
      }
    }
  }

  // --- Writing ---

  void begin(const char* phase, const std::string& name, unsigned tid) {
    out_ += std::exchange(separator_, ",\n");
    out_ += std::string("{\"ph\":\"") + phase + "\",\"name\":";
    append_json_string(out_, name);
    out_ += ",\"pid\":1,\"tid\":" + std::to_string(tid);
  }
  void begin(const char* phase, const std::string& name, unsigned tid, std::int64_t at_ns, const char* category) {
    begin(phase, name, tid);
    out_ += std::string(",\"cat\":\"") + category + "\",\"ts\":" + microseconds(at_ns - first_ns_);
  }

  static std::string microseconds(std::int64_t ns) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(ns / 1000),
                  static_cast<long long>(ns % 1000));
    return text.data();
  }

  void named_argument(const char* name, const std::string& value) {
    out_ += std::string(",\"args\":{\"") + name + "\":";
    append_json_string(out_, value);
    out_ += "}}";
  }

  void arguments(const TimelineEntry& e, bool is_unfinished) {
    const char* separator = "";
    out_ += ",\"args\":{";
    const auto key = [&](const char* name) {
      out_ += std::exchange(separator, ",");
      out_ += std::string("\"") + name + "\":";
    };
    const auto number = [&](const char* name, std::uint64_t value) { key(name), out_ += std::to_string(value); };
    if (e.sequence > 0) number("sequence", e.sequence);
    if (e.step > 0) number("step", e.step);
    if (!e.subject.empty()) key(e.kind == Kind::kReason ? "launch" : "graph"), append_json_string(out_, e.subject);
    if (e.kind == Kind::kGateWait || e.kind == Kind::kUpdate) {
      number("gate", e.gate);
      key("gate_name"), append_json_string(out_, gate_name(e));
    }
    if (e.kind == Kind::kGateWait) key("group"), append_json_string(out_, e.name);
    if (e.kind == Kind::kReason) key("reason"), append_json_string(out_, e.name);
    if (e.submitted_ns != kNever) {
      key("submitted_us"), out_ += microseconds(e.submitted_ns - first_ns_);
      if (e.started_ns >= e.submitted_ns) key("queued_us"), out_ += microseconds(e.started_ns - e.submitted_ns);
    }
    if (is_unfinished) key("unfinished"), out_ += "true";
    out_ += "}}";
  }

  void write(const Track& track) {
    for (const Slice& slice : track.slices) {
      const unsigned tid = track.first_tid + slice.row;
      begin("X", slice.name, tid, slice.start_ns, slice.category);
      out_ += ",\"dur\":" + microseconds(slice.end_ns - slice.start_ns);
      arguments(*slice.entry, slice.is_unfinished);
      const TimelineEntry& e = *slice.entry;
      const Place place{slice.start_ns, slice.end_ns, tid};
      if (e.kind == Kind::kGateWait) waits_.emplace_back(&e, place);
      else if (e.kind == Kind::kUpdate) placed_updates_[gate_key(e)].push_back(place);
      else if (e.kind == Kind::kSubmission && e.step > 0) replays_[{e.subject, e.step}] = place;
    }
    for (const Instant& instant : track.instants) {
      begin("i", instant.name, track.first_tid, instant.at_ns, instant.category);
      out_ += ",\"s\":\"t\"";
      arguments(*instant.entry, instant.is_unfinished);
    }
  }

  // An arrow leaves the end of an update and comes to the end of the wait that it ended, or, where the replay did not
  // have to wait, to the place in the replay where it came.
  void write_arrows() {
    for (const auto& [wait, place] : waits_) {
      const auto found = placed_updates_.find(gate_key(*wait));
      if (found == placed_updates_.end()) continue;
      // A recovered graph may have several: the last one that came in time.
      Place* last = nullptr;
      for (Place& update : found->second) {
        if (update.end_ns <= place.end_ns && (!last || update.end_ns > last->end_ns)) last = &update;
      }
      if (!last) continue;
      last->is_used = true;
      arrow(*last, inside(place, place.end_ns), place.tid);
    }
    for (const auto& [key, updates] : placed_updates_) {
      const auto replay = replays_.find(StepKey(std::get<0>(key), std::get<1>(key)));
      if (replay == replays_.end()) continue;
      for (const Place& update : updates) {
        if (update.is_used || update.end_ns > replay->second.end_ns) continue;
        arrow(update, inside(replay->second, std::max(update.end_ns, replay->second.start_ns)), replay->second.tid);
      }
    }
  }

  struct Place {
    std::int64_t start_ns, end_ns;
    unsigned tid;
    bool is_used = false;
  };

  // The viewer looks for the slice at this time, and a slice does not contain its end.
  static std::int64_t inside(const Place& place, std::int64_t at_ns) {
    return std::max(place.start_ns, std::min(at_ns, place.end_ns - 1));
  }

  void arrow(const Place& from, std::int64_t to_ns, unsigned to_tid) {
    const std::int64_t from_ns = inside(from, from.end_ns);
    const std::string id = ",\"id\":" + std::to_string(++arrows_);
    begin("s", "opens", from.tid, from_ns, "opens");
    out_ += id + "}";
    begin("f", "opens", to_tid, std::max(from_ns, to_ns), "opens");
    out_ += id + ",\"bp\":\"e\"}";
  }

  std::span<const TimelineEntry> timeline_;
  const ChromeTraceOptions& options_;
  std::int64_t first_ns_ = kNever, last_ns_ = kNever;
  std::vector<Track> updates_, streams_;
  std::map<std::pair<std::string_view, std::uint32_t>, std::string_view> gate_names_;
  std::size_t unfinished_ = 0, arrows_ = 0;
  std::vector<std::pair<const TimelineEntry*, Place>> waits_;
  std::map<GateKey, std::vector<Place>> placed_updates_;
  std::map<StepKey, Place> replays_;
  std::string out_;
  const char* separator_ = "\n";
};

}  // namespace

std::string chrome_trace(std::span<const TimelineEntry> timeline, const ChromeTraceOptions& options) {
  return ChromeTrace(timeline, options).text();
}

}  // namespace slipway
