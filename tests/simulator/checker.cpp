#include "simulator/checker.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace slipway::simulator {

using internal::WalkEvent;
using What = WalkEvent::What;

void Checker::add(internal::ReplayProgram& program, std::string name, std::uint32_t value_gates, std::uint32_t groups) {
  Graph graph{&program, std::move(name), value_gates, groups, {}, {}, 0, 0, false, {}};
  graph.gates.resize(program.layout().gate_count);
  for (Gate& gate : graph.gates) gate.written.resize(program.layout().depth);
  graph.writing.resize(program.layout().depth);
  graph.launched_by.resize(64);
  graphs_.push_back(std::move(graph));
}

Checker::Graph* Checker::find(const void* program) {
  for (Graph& graph : graphs_) {
    if (graph.program == program) return &graph;
  }
  return nullptr;
}

void Checker::fail(const Graph& graph, std::uint64_t step, const std::string& what) {
  if (problem_.empty()) problem_ = "step " + std::to_string(step) + " of graph '" + graph.name + "': " + what;
}

void Checker::group(Graph& graph, std::uint64_t step, std::uint32_t gate) {
  if (gate >= graph.value_gates) return;
  if (graph.gates[gate].written[step % graph.writing.size()] != step) {
    fail(graph, step, "(a) what waits at gate " + std::to_string(gate) + " went on before its values were there");
  }
  if (graph.writing[step % graph.writing.size()] != step) {
    fail(graph, step,
         "(c) gate " + std::to_string(gate) + " took over the values of step " +
             std::to_string(graph.writing[step % graph.writing.size()]));
  }
}

void Checker::tell(const WalkEvent& event) {
  ++events_;
  if (event.what == What::kBlocks) return;
  Graph* const found = find(event.program);
  if (!found) return;
  Graph& graph = *found;
  const std::uint64_t step = event.step;
  graph.ended = std::max(graph.ended, graph.program->done().completed());
  switch (event.what) {
    case What::kStepBegins:
      if (graph.running == step) break;  // it stood at its first node
      if (graph.running != 0) fail(graph, step, "began while step " + std::to_string(graph.running) + " was running");
      if (step != graph.ended + 1) fail(graph, step, "began behind step " + std::to_string(graph.ended));
      graph.running = step;
      graph.began_first = graph.gates[0].set < step;
      break;
    case What::kStepEnds:
      graph.ended = step;
      graph.running = 0;
      break;
    case What::kGroup: group(graph, step, event.gate); break;
    case What::kGateWait: {
      Gate& gate = graph.gates[event.gate];
      ++gate.waits;
      ++(graph.began_first ? waits_behind_ : waits_ahead_);
      if (gate.set < step)
        fail(graph, step, "(a) went on at gate " + std::to_string(event.gate) + " before it was set");
      if (gate.waits > gate.sets) fail(graph, step, "(d) two waits for one set of gate " + std::to_string(event.gate));
      group(graph, step, event.gate);
      break;
    }
    case What::kReset:
      if (graph.program->event(event.gate).is_set()) {
        fail(graph, step, "gate " + std::to_string(event.gate) + " stays set behind its reset");
      }
      break;
    case What::kTaskBegins:
    case What::kTask: break;
    default: update(graph, event); break;
  }
}

void Checker::update(Graph& graph, const WalkEvent& event) {
  const std::uint64_t step = event.step;
  // What is cancelled is discarded somewhere in between.
  const auto cancelled = [&](const void* program, std::uint64_t of) {
    const Graph* const g = find(program);
    return g && !g->program->cancellation_of(of).ok();
  };
  if (updated_ && cancelled(updated_, updated_step_)) updated_ = nullptr;
  if (cancelled(graph.program, step)) return;
  if (updated_ && (updated_ != graph.program || updated_step_ != step)) {
    fail(graph, step,
         "(e) its update began inside the one of step " + std::to_string(updated_step_) + " of graph '" +
             (find(updated_) ? find(updated_)->name : "?") + "'");
  }
  if (!updated_ && step > 1 && cancelled(graph.program, step - 1)) {
    for (Gate& gate : graph.gates) gate.waits = gate.sets;  // recover() has reset them
  }
  updated_ = graph.program;
  updated_step_ = step;
  if ((event.what == What::kValues || event.what == What::kRewrite) && graph.ended + 1 < step) {
    fail(graph, step, "(c) was rewritten while step " + std::to_string(graph.ended + 1) + " had not ended");
  }
  if (event.what == What::kValues) {
    graph.writing[step % graph.writing.size()] = step;
    return;
  }
  if (event.what == What::kRewrite) {
    graph.gates[event.gate].written[step % graph.writing.size()] = step;
    return;
  }
  Gate& gate = graph.gates[event.gate];
  if (event.what == What::kLostSet) {
    fail(graph, step, "(b) gate " + std::to_string(event.gate) + " was set before it was reset: a signal is lost");
  }
  ++gate.sets;
  gate.set = step;
  gate.written[step % graph.writing.size()] = step;  // unchanged ones as well
  graph.writing[step % graph.writing.size()] = step;
  if (gate.sets > gate.waits + 1) fail(graph, step, "(d) gate " + std::to_string(event.gate) + " was set twice");
  // The groups are set in order, the last one ends the update.
  if (event.gate == graph.program->group(0, graph.groups - 1).gate) updated_ = nullptr;
}

void Checker::point(const char* what, const void* program, std::uint64_t step, std::uint32_t gate,
                    std::uint64_t thread) {
  Graph* const graph = find(program);
  if (!graph) return;
  ++events_;
  graph->ended = std::max(graph->ended, graph->program->done().completed());  // some never came into their stream
  const auto is = [&](const char* text) { return std::strcmp(what, text) == 0; };
  if (is("begun") || is("prepared")) {
    graph->launched_by[step % graph->launched_by.size()] = thread;
  } else if (is("replay submitted") || is("update submitted")) {
    // Whichever comes second ends the pair.
    const auto same = [&](const Half& h) { return h.thread == thread && h.program == program && h.step == step; };
    if (std::erase_if(halves_, same) == 0) halves_.push_back({thread, program, step, is("replay submitted")});
  } else if (is("values written")) {
    const std::uint64_t depth = graph->writing.size();
    graph->gates[gate].written[step % depth] = step;
    if (gate != 0) return;
    if (step > depth && graph->ended < step - depth) {
      fail(*graph, step,
           "(c) its values were written over those of step " + std::to_string(step - depth) + ", which had not passed");
    }
    std::uint64_t& writing = graph->writing[step % depth];
    if (writing == step) fail(*graph, step, "its values were written twice");
    writing = step;
  } else if (is("gate opened")) {
    Gate& opened = graph->gates[gate];
    opened.opened = opened.opened_step == step ? opened.opened + 1 : 1;
    opened.opened_step = step;
  }
}

void Checker::sleeps(std::uint64_t thread, const char* what) {
  for (const Half& half : halves_) {
    if (half.thread != thread || !half.is_replay) continue;
    fail(*find(half.program), half.step,
         std::string("(f) thread ") + std::to_string(thread) + " slept for a " + what +
             " between the replay and its update");
  }
}

void Checker::drained() {
  updated_ = nullptr;
  halves_.clear();
  for (Graph& graph : graphs_) {
    if (!graph.program->layout().resettable) continue;
    const bool ok = graph.program->cancellation_of(graph.ended).ok();
    for (std::size_t i = 0; i < graph.gates.size(); ++i) {
      Gate& gate = graph.gates[i];
      if (ok && gate.sets != gate.waits) {
        fail(graph, graph.ended,
             "(d) gate " + std::to_string(i) + " was set " + std::to_string(gate.sets) + " times and waited for " +
                 std::to_string(gate.waits) + " times");
      }
      if (ok && i < graph.value_gates && graph.program->event(static_cast<std::uint32_t>(i)).is_set()) {
        fail(graph, graph.ended, "gate " + std::to_string(i) + " is left set when all has ended");
      }
      gate.sets = gate.waits = 0;
    }
  }
}

}  // namespace slipway::simulator
