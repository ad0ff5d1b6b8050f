// The random numbers of a graph: which of its values are places in the sequence of a generator, and what a step takes.
//
// Replays draw what eager calls would because a launch takes its step's positions where an eager call would: under the
// lock under which steps are begun. Publishing writes them into the step's block; where a step is published later than
// it was launched, they are kept until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "slipway/random.h"

namespace slipway::internal {

class GeneratorImpl {
 public:
  explicit GeneratorImpl(std::uint64_t seed) : state_{seed, 0} {}

  Generator::State take(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    const Generator::State before = state_;
    state_.offset += count;
    return before;
  }
  Generator::State state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  void set_state(const Generator::State& state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }

 private:
  mutable std::mutex mutex_;
  Generator::State state_;
};

// What a graph takes from one generator in each step.
struct RandomSource {
  struct Draw {
    std::uint32_t seed_at;    // in the block
    std::uint32_t offset_at;  // likewise
    std::uint64_t first;      // position, counted from the step's first
  };
  std::shared_ptr<GeneratorImpl> generator;
  std::uint64_t count = 0;  // positions of a step
  std::vector<Draw> draws{};

  // What a step draws that begins with the generator in this state.
  void write(const Generator::State& from, std::byte* block) const noexcept;
};

struct DefinitionImpl;
// Are all values that are used in it random ones?
bool uses_only_random(const DefinitionImpl& definition);

// Of an executable whose graph draws.
class StepDraws {
 public:
  explicit StepDraws(const std::vector<RandomSource>& sources);

  // By who begins a step, in the order of the steps; those up to `passed` are not published any more.
  void take(std::uint64_t step, std::uint64_t passed);
  // Into the block of a step that was begun.
  void write(std::uint64_t step, std::byte* block) const;

 private:
  const std::vector<RandomSource>& sources_;  // the definition's
  struct Taken {
    std::uint64_t step;
    std::size_t source;
    Generator::State from;
  };
  mutable std::mutex mutex_;
  std::vector<Taken> taken_;  // of steps that may yet be published; keeps its memory
};

}  // namespace slipway::internal
