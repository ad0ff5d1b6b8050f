// What a schedule is made of: at each place where several could go on, which of them did.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace slipway::simulator {

// Drawn from a seed, taken from a list, or all of them one after the other.
class Choices {
 public:
  void seed(std::uint64_t seed) {
    seed_ = state_ = seed;
    random_ = true;
    made_.clear();
    given_.clear();
  }
  // These first; then always the first that could go on.
  void list(std::vector<std::uint32_t> choices) {
    random_ = false;
    made_.clear();
    given_ = std::move(choices);
  }
  // Depth first: after a schedule, the next one. False when that was the last.
  bool next() {
    while (!made_.empty() && made_.back().chosen + 1 == made_.back().count) made_.pop_back();
    if (made_.empty()) return false;
    ++made_.back().chosen;
    std::vector<std::uint32_t> given;
    for (const Made& m : made_) given.push_back(m.chosen);
    list(std::move(given));
    return true;
  }

  std::uint32_t choose(std::uint32_t count) {
    if (count == 1) return 0;
    const std::size_t at = made_.size();
    std::uint32_t chosen = 0;
    if (at < given_.size()) chosen = given_[at] < count ? given_[at] : count - 1;
    else if (random_) chosen = static_cast<std::uint32_t>(draw() % count);
    made_.push_back({chosen, count});
    return chosen;
  }

  std::size_t size() const noexcept { return made_.size(); }
  std::vector<std::uint32_t> made() const {
    std::vector<std::uint32_t> list;
    for (const Made& m : made_) list.push_back(m.chosen);
    return list;
  }
  // For a report: both ways to have it again.
  std::string text() const {
    std::ostringstream out;
    if (random_) out << "seed " << seed_ << ", ";
    out << "choices ";
    for (std::size_t i = 0; i < made_.size(); ++i) out << (i == 0 ? "" : ",") << made_[i].chosen;
    return out.str();
  }

 private:
  struct Made {
    std::uint32_t chosen;
    std::uint32_t count;
  };
  std::uint64_t draw() noexcept {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t seed_ = 0;
  std::uint64_t state_ = 0;
  bool random_ = true;
  std::vector<Made> made_;
  std::vector<std::uint32_t> given_;
};

}  // namespace slipway::simulator
