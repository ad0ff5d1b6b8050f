// In which order a program's nodes are submitted to its streams, with the events that their conflicts need: made anew
// from the nodes, so that a program stays right whatever is taken out of it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "property/programs.h"

namespace slipway::property {

struct Action {
  enum class What : std::uint8_t { kMark, kWait, kRun } what = What::kRun;
  int stream = 0;
  std::size_t event = 0;
  const Node* node = nullptr;
};

class Order {
 public:
  explicit Order(const Program& program) {
    positions_[0] = 1;  // the work that every program begins with, from which streams fork
    for (const Node& node : program.nodes) add(node);
    for (int s = 1; s < kStreams; ++s)
      if (positions_[index(s)] > 0) order(0, {s, positions_[index(s)]});
  }
  const std::vector<Action>& actions() const noexcept { return actions_; }
  std::size_t event_count() const noexcept { return events_; }

 private:
  struct Place {
    int stream = 0;
    std::uint64_t position = 0;  // nodes of that stream so far
  };
  struct Use {
    Place written;
    std::vector<Place> read;
  };
  static std::size_t index(int stream) noexcept { return static_cast<std::size_t>(stream); }

  void add(const Node& node) {
    order(node.stream, {0, 1});
    if (node.kind == kEvent) {
      const int other = node.other_stream;
      if (positions_[index(other)] > 0) order(node.stream, {other, positions_[index(other)]}, true);
      return;
    }
    std::vector<int> reads, writes;
    add_uses(node, reads, writes);
    for (const int r : reads) order(node.stream, uses_[r].written);
    for (const int r : writes) {
      order(node.stream, uses_[r].written);
      for (const Place& place : uses_[r].read) order(node.stream, place);
    }
    const Place here{node.stream, ++positions_[index(node.stream)]};
    actions_.push_back({Action::What::kRun, node.stream, 0, &node});
    for (const int r : reads) uses_[r].read.push_back(here);
    for (const int r : writes) uses_[r] = {here, {}};
  }
  static void add_uses(const Node& node, std::vector<int>& reads, std::vector<int>& writes) {
    if (node.kind == kNested) {
      for (int r = 0; r < kResources; ++r) writes.push_back(r);
      return;
    }
    if (node.kind != kConditional) writes.push_back(node.resources[0]);
    for (unsigned i = 1; i < kKinds[node.kind].resources; ++i) reads.push_back(node.resources[i]);
    if (node.kind == kScratchPair) writes.push_back(kResources + node.grid_operation);
    for (const std::vector<Node>& body : node.bodies)
      for (const Node& inner : body) add_uses(inner, reads, writes);
  }
  // The stream goes on behind the place.
  void order(int stream, const Place& place, bool always = false) {
    if (place.position == 0 || place.stream == stream) return;
    auto& known = seen_[index(stream)];
    if (known[index(place.stream)] >= place.position && !always) return;
    actions_.push_back({Action::What::kMark, place.stream, events_, nullptr});
    actions_.push_back({Action::What::kWait, stream, events_++, nullptr});
    const auto& theirs = seen_[index(place.stream)];
    for (std::size_t s = 0; s < kStreams; ++s) known[s] = std::max(known[s], theirs[s]);
    known[index(place.stream)] = positions_[index(place.stream)];
    ++positions_[index(stream)];  // a wait has to be joined as well
  }

  std::vector<Action> actions_;
  std::size_t events_ = 0;
  std::array<std::uint64_t, kStreams> positions_{};
  std::array<std::array<std::uint64_t, kStreams>, kStreams> seen_{};
  std::map<int, Use> uses_;
};

}  // namespace slipway::property
