// Checks the order of what a simulation executes, event by event.
//
// The relations: (a) a gate is set before what waits there goes on, and the values are there by then; (b) a gate is
// reset before it is set again; (c) nothing is rewritten that an older step still reads; (d) one set for one wait;
// (e) updates of a device are totally ordered; (f) no thread sleeps between a replay and its update. And steps of a
// graph run one after another, without a gap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/replay_program.h"
#include "engine/walk_event.h"

namespace slipway::simulator {

class Checker {
 public:
  struct Gate {
    std::vector<std::uint64_t> written;  // by slot: the last step whose values for it are there
    std::uint64_t opened = 0;            // counting: how often, at the step `opened_step`
    std::uint64_t opened_step = 0;
    std::uint64_t set = 0;  // resettable: the last step that set it
    std::uint64_t sets = 0, waits = 0;
    std::uint64_t passed = 0;
  };
  struct Graph {
    internal::ReplayProgram* program;
    std::string name;
    std::uint32_t value_gates;  // those behind are branches'
    std::uint32_t groups;
    std::vector<Gate> gates;
    std::vector<std::uint64_t> writing;  // by slot: the step whose values were written there last
    std::uint64_t running = 0, ended = 0;
    bool began_first = false;                // the step that runs began before its first gate was set
    std::vector<std::uint64_t> launched_by;  // by step modulo its size: the thread
  };

  void add(internal::ReplayProgram& program, std::string name, std::uint32_t value_gates, std::uint32_t groups);
  std::vector<Graph>& graphs() noexcept { return graphs_; }
  Graph* find(const void* program);

  void tell(const internal::WalkEvent& event);
  // A place in the code that submits and publishes, of simulated thread `thread`.
  void point(const char* what, const void* program, std::uint64_t step, std::uint32_t gate, std::uint64_t thread);
  // The thread sleeps.
  void sleeps(std::uint64_t thread, const char* what);
  // Everything has ended.
  void drained();

  const std::string& problem() const noexcept { return problem_; }
  void forget_problem() { problem_.clear(); }
  std::uint64_t events() const noexcept { return events_; }
  // Gates that were passed in steps which began before, or behind, their first set: neither order is the only one.
  std::uint64_t began_first() const noexcept { return waits_behind_; }
  std::uint64_t set_first() const noexcept { return waits_ahead_; }

 private:
  void fail(const Graph& graph, std::uint64_t step, const std::string& what);
  void group(Graph& graph, std::uint64_t step, std::uint32_t gate);
  void update(Graph& graph, const internal::WalkEvent& event);

  std::vector<Graph> graphs_;
  std::string problem_;
  std::uint64_t events_ = 0;
  std::uint64_t waits_behind_ = 0, waits_ahead_ = 0;
  const void* updated_ = nullptr;  // whose update is under way
  std::uint64_t updated_step_ = 0;
  struct Half {  // of a pair of replay and update: what has been submitted
    std::uint64_t thread;
    const void* program;
    std::uint64_t step;
    bool is_replay;
  };
  std::vector<Half> halves_;
};

}  // namespace slipway::simulator
