// What the simulator's tests share: a device, kernels that note what they see, and graphs whose steps see their number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rules.h"
#include "simulator/simulation.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::simulator {

// What the launches of one node saw, in order.
struct Seen {
  std::vector<std::int64_t> values;
  // What a step of this number and value sees here. Unset: its value, equally often in each.
  std::function<std::vector<std::int64_t>(std::uint64_t step, std::int64_t value)> wanted{};
};
struct SeenBy {
  Seen* seen;
};
inline void see(SeenBy by, std::int64_t value) { by.seen->values.push_back(value); }
// Behind a join: what the other branch has noted by then, and 1000.
inline void joined(SeenBy other, SeenBy own) {
  own.seen->values.push_back(other.seen->values.empty() ? -1 : other.seen->values.back() + 1000);
}
inline void see_word(SeenBy by, std::uint64_t word) { by.seen->values.push_back(static_cast<std::int64_t>(word)); }
inline void see_at(SeenBy by, const std::int64_t* at) { by.seen->values.push_back(*at); }
inline void nothing(std::int32_t*) {}
// A condition that says 0, 1 or 2 turns, step after step; and counts them down.
inline void next_turns(std::int32_t* turns, std::int32_t* steps) { *turns = ++*steps % 3; }
inline void count_down(std::int32_t* turns) { --*turns; }
inline void fails(std::int32_t*) { throw std::runtime_error("boom"); }

// A graph whose steps note the value that they were given: behind gate 0, and, when it has an operation, 1000 more
// behind gate 1.
struct Steps {
  Seen first, second;
  std::uint64_t ended = 0;             // steps before this schedule
  std::vector<std::int64_t> expected;  // of each step since
  ScalarParameter<std::int64_t> value;
  std::vector<ScalarParameter<std::int64_t>> more;  // of nested graphs: they get the same
  GraphDefinition definition;
  ExecutableGraph graph;
  StepValues values;
  std::int32_t turns = 0, counted = 0;  // for conditions

  const StepValues& of(std::int64_t number) {
    values.set(value, number);
    for (const ScalarParameter<std::int64_t>& other : more) values.set(other, number);
    return values;
  }
  void expect(Step step, std::int64_t number) {
    if (expected.size() < step.number - ended) expected.resize(step.number - ended, -1);
    expected[step.number - ended - 1] = number;
  }
  // One step with this value. The threads of a simulation take turns, so they may share its values.
  Step launch(const Stream& stream, std::int64_t number) {
    StepValues own = of(number);
    const Step step = graph.launch(stream, own);
    expect(step, number);
    return step;
  }
  // Once all steps have passed, whatever became of them.
  void recover();
  Step open(const Stream& stream) { return graph.launch_open(stream, Publisher::kOtherThread); }
  void publish(Step step, std::int64_t number) {
    expect(step, number);
    StepValues own = of(number);
    graph.publish(step, own);
  }
};

class World {
 public:
  explicit World(const std::string& uri);
  ~World();

  Stream stream(const std::string& name);
  // A node without values in front, so that there is a prefix.
  Steps& steps(const std::string& name, bool with_operation, const InstantiateOptions& options = {});
  // The same with two streams: the second joins in front of the first one's last node.
  Steps& forked(const std::string& name, const InstantiateOptions& options = {});
  // Of what `work` submits to the stream that it is given.
  using Work = std::function<void(Capture& capture, const Stream& stream, Steps& steps)>;
  Steps& captured(const std::string& name, const Work& work, const InstantiateOptions& options = {});
  // Notes the step's value; and 1000 more, behind an operation of this name.
  void note(const Stream& stream, Steps& steps) const;
  void note_later(Capture& capture, const Stream& stream, Steps& steps, const std::string& operation) const;

  // One schedule: empty, or what went wrong.
  std::string run(Choices& choices);

  Device device;
  Simulation simulation;
  Module module;
  std::function<void()> before;        // each schedule
  std::function<std::string()> check;  // and after it
  bool count_steps = true;             // each step saw its own value

 private:
  std::string check_values();
  std::vector<std::unique_ptr<Steps>> graphs_;
};

// A program: makes a world whose threads are run again and again.
using MakeWorld = std::function<std::unique_ptr<World>()>;
struct Program {
  const char* name;
  MakeWorld make;
};
const std::vector<Program>& programs();
// Two graphs on one stream, each with an update, on a device whose gates are reset.
std::unique_ptr<World> two_on_one_stream();

// Runs schedules drawn from these seeds. The first problem, or nothing. A world that has one is given up.
std::string search(const MakeWorld& make, std::uint64_t schedules, std::uint64_t first_seed = 1);
// All of them, depth first; fails when there are more than `most`. Returns how many there were.
std::uint64_t search_all(const MakeWorld& make, std::uint64_t most, std::string& problem);
// Ends a world whose threads or streams do not end by themselves.
void give_up(std::unique_ptr<World> world);

// Switches a rule off for as long as it lives.
class Without {
 public:
  explicit Without(internal::Rule rule) : index_(static_cast<std::size_t>(rule)) {
    internal::g_rules_off[index_] = true;
  }
  ~Without() { internal::g_rules_off[index_] = false; }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  std::size_t index_;
};

}  // namespace slipway::simulator
