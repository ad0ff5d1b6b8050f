// Random programs of launches, copies, fills, host functions, forks, nested graphs, conditional nodes and values, and
// what they must do, computed by plain loops on the host. Nothing here knows how Slipway runs them (program_runner.h).
//
// To add a kind of node: a row in kKinds, with what it takes, touches and does, and its submission in the runner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "property/program_values.h"

namespace slipway::property {

// Where a value comes from.
struct Source {
  enum class From : std::uint8_t { kFixed, kParameter, kOutput } from = From::kFixed;
  unsigned index = 0;   // which parameter or operation
  unsigned output = 0;  // of the operation
  Cell fixed{};
};

struct OperationNode {
  unsigned same_as = 0;  // the first application of the same function; itself, where it is that
  std::uint64_t seed = 0;
  std::vector<Source> inputs;
  std::vector<ValueKind> input_kinds;
  std::vector<ValueKind> outputs;
};

struct Node {
  unsigned kind = 0;  // row of kKinds
  int stream = 0;
  int other_stream = 0;             // events
  unsigned way = 0;                 // general, planned, by a call site
  std::array<int, 3> resources{0};  // the first is written
  std::array<std::uint32_t, 2> grid{1, 1};
  int grid_operation = -1;  // whose output gives the grid instead, or memory
  unsigned grid_output = 0, scratch_output = 0;
  Source a, b, t;                                 // i32, i64, triple
  std::uint32_t offset = 0, from = 0, count = 0;  // elements
  std::uint32_t pattern_bytes = 4;
  std::uint64_t pattern = 0;
  std::vector<std::int32_t> data;
  unsigned child = 0;  // nested graphs: which
  // Conditional nodes: element `from` of the second resource, modulo `count`, decides; it is kept in a word of its own.
  enum class Form : std::uint8_t { kIf, kIfElse, kWhile, kSwitch } form = Form::kIf;
  unsigned word = 0;
  std::vector<std::vector<Node>> bodies;
};

struct Program {
  std::string name;
  std::vector<ValueKind> parameters;
  std::vector<OperationNode> operations;
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<Program>> children;
};

// --- What programs compute ---

// The values of one step: parameters in order, then those of nested graphs in the order of their launches.
using StepCells = std::vector<Cell>;

struct Scope {
  std::span<const Cell> parameters;
  std::vector<std::vector<Cell>> outputs;  // of operations

  const Cell& of(const Source& s) const {
    if (s.from == Source::From::kParameter) return parameters[s.index];
    return s.from == Source::From::kOutput ? outputs[s.index][s.output] : s.fixed;
  }
};

inline Scope scope_of(const Program& program, std::span<const Cell> parameters) {
  Scope scope{parameters, {}};
  for (const OperationNode& operation : program.operations) {
    std::vector<Cell> inputs;
    inputs.reserve(operation.inputs.size());
    for (const Source& s : operation.inputs) inputs.push_back(scope.of(s));
    const OperationNode& first = program.operations[operation.same_as];
    scope.outputs.push_back(outputs_of(first.seed, first.outputs, inputs));
  }
  return scope;
}

struct HostMemoryImage {
  std::array<std::vector<std::int32_t>, kBuffers + 1> buffers;
  std::array<std::uint32_t, kSums> sums{};

  friend bool operator==(const HostMemoryImage&, const HostMemoryImage&) = default;
};

struct Kind {
  const char* name;
  unsigned weight;     // how often
  unsigned resources;  // that it touches; the first is written (and read where it is a sum or grows in place)
  void (*make)(Node&, const Program&, Dice&);
  void (*apply)(const Node&, const Scope&, HostMemoryImage&);
};

inline std::uint32_t blocks_of(const Node& n, const Scope& s) {
  if (n.grid_operation < 0) return n.grid[0] * n.grid[1];
  const Cell& c = s.outputs[static_cast<std::size_t>(n.grid_operation)][n.grid_output];
  return static_cast<std::uint32_t>(c[0] * c[1]);
}

namespace kinds {

inline Source any_source(const Program& p, Dice& dice, ValueKind kind) {
  if (!dice.coin(3)) {
    std::vector<Source> all;
    for (unsigned i = 0; i < p.parameters.size(); ++i)
      if (p.parameters[i] == kind) all.push_back({Source::From::kParameter, i, 0, {}});
    for (unsigned i = 0; i < p.operations.size(); ++i) {
      const auto& outputs = p.operations[p.operations[i].same_as].outputs;
      for (unsigned o = 0; o < outputs.size(); ++o)
        if (outputs[o] == kind) all.push_back({Source::From::kOutput, i, o, {}});
    }
    if (!all.empty()) return all[dice.below(all.size())];
  }
  return {Source::From::kFixed, 0, 0, dice.cell(kind)};
}
inline void any_grid(Node& n, const Program& p, Dice& dice, bool with_scratch = false) {
  n.grid = {dice.coin(8) ? 0 : dice.below(8) + 1, dice.below(3) + 1};
  if (dice.coin(3)) n.grid = {1, 1};
  for (unsigned i = 0; i < p.operations.size(); ++i) {
    const auto& outputs = p.operations[p.operations[i].same_as].outputs;
    const auto grid = std::find(outputs.begin(), outputs.end(), ValueKind::kGrid);
    const auto scratch = std::find(outputs.begin(), outputs.end(), ValueKind::kScratch);
    if (grid == outputs.end() || (with_scratch && scratch == outputs.end())) continue;
    if (!with_scratch && dice.coin()) continue;
    n.grid_operation = static_cast<int>(i);
    n.grid_output = static_cast<unsigned>(grid - outputs.begin());
    n.scratch_output = static_cast<unsigned>(scratch - outputs.begin());
  }
}
inline void any_buffers(Node& n, Dice& dice, int most) {
  for (int& r : n.resources) r = dice.pick(0, most);
}
inline void any_range(Node& n, Dice& dice) {
  const std::uint32_t room = std::min(kElements[static_cast<std::size_t>(n.resources[0])],
                                      kElements[static_cast<std::size_t>(n.resources[1])]);
  n.count = dice.coin(4) && room > 32 ? 1030 + dice.below(room - 1030 + 1) : 1 + dice.below(32);
  n.offset = dice.below(kElements[static_cast<std::size_t>(n.resources[0])] - n.count + 1);
  n.from = dice.below(kElements[static_cast<std::size_t>(n.resources[1])] - n.count + 1);
}
inline auto at(HostMemoryImage& m, int resource, std::uint32_t offset) {
  return m.buffers[static_cast<std::size_t>(resource)].begin() + offset;
}

inline void make_launch(Node& n, const Program& p, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  n.way = dice.below(3);
  n.a = any_source(p, dice, ValueKind::kI32);
  n.b = any_source(p, dice, ValueKind::kI64);
  n.t = any_source(p, dice, ValueKind::kTriple);
  any_grid(n, p, dice);
}
inline void apply_affine(const Node& n, const Scope& s, HostMemoryImage& m) {
  for (std::uint32_t i = 0; i < blocks_of(n, s); ++i)
    *at(m, n.resources[0], i) = affine_of(*at(m, n.resources[1], i), s.of(n.a)[0], wide(s.of(n.b)));
}
inline void apply_combine(const Node& n, const Scope& s, HostMemoryImage& m) {
  const Cell& t = s.of(n.t);
  for (std::uint32_t i = 0; i < blocks_of(n, s); ++i)
    *at(m, n.resources[0], i) = combine_of(*at(m, n.resources[1], i), *at(m, n.resources[2], i), {t[0], t[1], t[2]});
}
inline void apply_bump(const Node& n, const Scope& s, HostMemoryImage& m) {
  for (std::uint32_t i = 0; i < blocks_of(n, s); ++i)
    *at(m, n.resources[0], i) = bump_of(*at(m, n.resources[0], i), s.of(n.a)[0]);
}
// Through memory of the executable's own; without an operation that declares some it is a plain launch.
inline void make_scratch(Node& n, const Program& p, Dice& dice) {
  make_launch(n, p, dice);
  n.grid_operation = -1;
  any_grid(n, p, dice, true);
}
inline void apply_scratch(const Node& n, const Scope& s, HostMemoryImage& m) {
  for (std::uint32_t i = 0; i < blocks_of(n, s); ++i) {
    const std::int32_t between = affine_of(*at(m, n.resources[1], i), s.of(n.a)[0], wide(s.of(n.b)));
    *at(m, n.resources[0], i) = affine_of(between, s.of(n.a)[0], wide(s.of(n.b)));
  }
}
inline void make_copy(Node& n, const Program&, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  if (n.resources[0] == n.resources[1]) n.resources[1] = (n.resources[0] + 1) % kBuffers;
  any_range(n, dice);
}
inline void apply_copy(const Node& n, const Scope&, HostMemoryImage& m) {
  std::copy_n(at(m, n.resources[1], n.from), n.count, at(m, n.resources[0], n.offset));
}
inline void make_upload(Node& n, const Program&, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  n.resources[1] = n.resources[0];
  any_range(n, dice);
  for (std::uint32_t i = 0; i < n.count; ++i) n.data.push_back(static_cast<std::int32_t>(dice.next()));
}
inline void apply_upload(const Node& n, const Scope&, HostMemoryImage& m) {
  std::copy(n.data.begin(), n.data.end(), at(m, n.resources[0], n.offset));
}
inline void make_download(Node& n, const Program&, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  n.resources[0] = kHostBuffer;
  any_range(n, dice);
}
inline void make_fill(Node& n, const Program&, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  n.resources[1] = n.resources[0];
  any_range(n, dice);
  n.count = (n.count + 1) / 2 * 2;  // pairs, for the widest pattern
  const std::uint32_t room = kElements[static_cast<std::size_t>(n.resources[0])];
  n.count = std::min(n.count, room);
  n.offset = std::min(n.offset, room - n.count) / 2 * 2;
  n.pattern_bytes = 1U << dice.below(4);
  n.pattern = dice.next();
  if (n.pattern_bytes < 8) n.pattern &= (std::uint64_t{1} << (8 * n.pattern_bytes)) - 1;
}
inline void apply_fill(const Node& n, const Scope&, HostMemoryImage& m) {
  auto* to = reinterpret_cast<std::byte*>(&*at(m, n.resources[0], n.offset));
  for (std::uint32_t i = 0; i < n.count * 4; i += n.pattern_bytes) std::memcpy(to + i, &n.pattern, n.pattern_bytes);
}
inline void make_host(Node& n, const Program&, Dice& dice) {
  n.resources[0] = dice.pick(kFirstSum, kSums);
  n.a = {Source::From::kFixed, 0, 0, dice.cell(ValueKind::kI32)};
}
inline void make_external(Node& n, const Program& p, Dice& dice) {
  n.resources[0] = dice.pick(kFirstSum, kSums);
  n.a = any_source(p, dice, ValueKind::kI32);
  n.b = any_source(p, dice, ValueKind::kI64);
  n.t = any_source(p, dice, ValueKind::kTriple);
}
inline void apply_host(const Node& n, const Scope& s, HostMemoryImage& m) {
  add_cell(m.sums[static_cast<std::size_t>(n.resources[0] - kFirstSum)], s.of(n.a), ValueKind::kI32);
}
// What it is given by value is not an input of the external operation, and stays outside the sum.
inline void apply_external(const Node& n, const Scope& s, HostMemoryImage& m) {
  const std::pair<const Source*, ValueKind> inputs[] = {
      {&n.a, ValueKind::kI32}, {&n.b, ValueKind::kI64}, {&n.t, ValueKind::kTriple}};
  std::uint32_t& sum = m.sums[static_cast<std::size_t>(n.resources[0] - kFirstSum)];
  add_to_sum(sum, std::array<std::int32_t, 1>{1});
  for (const auto& [source, kind] : inputs) {
    if (source->from != Source::From::kFixed) add_cell(sum, s.of(*source), kind);
  }
}
inline void make_event(Node& n, const Program&, Dice& dice) { n.other_stream = dice.pick(0, kStreams); }
inline void apply_event(const Node&, const Scope&, HostMemoryImage&) {}
inline void make_nested(Node& n, const Program& p, Dice& dice) {
  if (!p.children.empty()) n.child = dice.below(p.children.size());
}

// Its bodies are made by add_nodes.
inline void make_conditional(Node& n, const Program&, Dice& dice) {
  any_buffers(n, dice, kBuffers);
  n.from = dice.below(32);
  n.form = static_cast<Node::Form>(dice.below(4));
  n.bodies.resize(n.form == Node::Form::kIfElse ? 2 : n.form == Node::Form::kSwitch ? 1 + dice.below(3) : 1);
  n.count = n.form == Node::Form::kSwitch ? static_cast<std::uint32_t>(n.bodies.size()) + 1 : 2 + dice.below(3);
}

}  // namespace kinds

enum KindNumber : unsigned {
  kAffine,
  kCombine,
  kBump,
  kScratchPair,
  kCopy,
  kUpload,
  kDownload,
  kFill,
  kHost,
  kExternal,
  kEvent,
  kNested,
  kConditional
};
// clang-format off
inline constexpr Kind kKinds[] = {
    {"affine", 6, 2, kinds::make_launch, kinds::apply_affine},
    {"combine", 4, 3, kinds::make_launch, kinds::apply_combine},
    {"bump", 4, 1, kinds::make_launch, kinds::apply_bump},
    {"scratch", 2, 2, kinds::make_scratch, kinds::apply_scratch},
    {"copy", 2, 2, kinds::make_copy, kinds::apply_copy},
    {"upload", 2, 1, kinds::make_upload, kinds::apply_upload},
    {"download", 1, 2, kinds::make_download, kinds::apply_copy},
    {"fill", 2, 1, kinds::make_fill, kinds::apply_fill},
    {"host", 1, 1, kinds::make_host, kinds::apply_host},
    {"external", 1, 1, kinds::make_external, kinds::apply_external},
    {"event", 2, 0, kinds::make_event, kinds::apply_event},
    {"nested", 2, kResources, kinds::make_nested, nullptr},  // run by run_on_host, and taken to touch everything
    {"conditional", 2, 2, kinds::make_conditional, nullptr},  // run by run_on_host; touches what its bodies do
};
// clang-format on

// --- Programs ---

inline std::size_t value_count(const Program& p) {
  std::size_t count = p.parameters.size();
  for (const Node& n : p.nodes)
    if (n.kind == kNested) count += value_count(*p.children[n.child]);
  return count;
}
// Does any record of it take a step's value?
inline bool takes_values(const Program& p);
inline bool takes_values(const Program& p, const std::vector<Node>& nodes) {
  const auto varies = [](const Source& s) { return s.from != Source::From::kFixed; };
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) {
    switch (n.kind) {
      case kAffine: return varies(n.a) || varies(n.b) || n.grid_operation >= 0;
      case kScratchPair: return varies(n.a) || varies(n.b) || n.grid_operation >= 0;
      case kCombine: return varies(n.t) || n.grid_operation >= 0;
      case kBump: return varies(n.a) || n.grid_operation >= 0;
      case kExternal: return varies(n.a) || varies(n.b) || varies(n.t);
      case kNested: return takes_values(*p.children[n.child]);
      case kConditional:
        return std::any_of(n.bodies.begin(), n.bodies.end(), [&](const auto& body) { return takes_values(p, body); });
      default: return false;
    }
  });
}
inline bool takes_values(const Program& p) { return takes_values(p, p.nodes); }

// How nodes may be made.
struct Making {
  const Program& program;
  Dice& dice;
  bool nested;         // with graphs inside
  unsigned words = 0;  // of conditional nodes so far
};
// In bodies, which are `depth` deep, everything is on the stream of the node.
inline void add_nodes(Making& m, std::vector<Node>& nodes, std::size_t count, int depth = 0, int stream = 0) {
  unsigned total = 0;
  for (const Kind& kind : kKinds) total += kind.weight;
  while (nodes.size() < count) {
    Node n;
    std::uint32_t at = m.dice.below(total);
    while (at >= kKinds[n.kind].weight) at -= kKinds[n.kind++].weight;
    if (n.kind == kNested && (!m.nested || depth > 0)) continue;
    if (n.kind == kEvent && depth > 0) continue;
    if (n.kind == kConditional && depth > 1) continue;
    n.stream = depth > 0 ? stream : m.dice.coin() ? 0 : m.dice.pick(0, kStreams);
    kKinds[n.kind].make(n, m.program, m.dice);
    if (n.kind == kScratchPair && n.grid_operation < 0) n.kind = kAffine;
    if (n.kind == kConditional) n.word = m.words++;
    for (std::vector<Node>& body : n.bodies) add_nodes(m, body, m.dice.below(4), depth + 1, n.stream);
    nodes.push_back(std::move(n));
  }
}

inline Program make_program(Dice& dice, int depth = 0, const std::string& name = "program") {
  static constexpr ValueKind kPlain[] = {ValueKind::kI32, ValueKind::kI64, ValueKind::kTriple};
  Program p;
  p.name = name;
  for (unsigned i = dice.below(5); i > 0; --i) p.parameters.push_back(kPlain[dice.below(3)]);
  for (unsigned i = dice.below(4); i > 0; --i) {
    OperationNode operation;
    operation.same_as = static_cast<unsigned>(p.operations.size());
    const bool again = !p.operations.empty() && dice.coin(4);
    if (again) {
      operation.same_as = p.operations[dice.below(p.operations.size())].same_as;
      operation.input_kinds = p.operations[operation.same_as].input_kinds;
    } else {
      operation.seed = dice.next();
      for (unsigned k = dice.below(4); k > 0; --k) operation.input_kinds.push_back(kPlain[dice.below(3)]);
      operation.outputs = {kPlain[dice.below(3)]};
      if (dice.coin()) operation.outputs.push_back(ValueKind::kGrid);
      if (operation.outputs.size() == 2 && dice.coin()) operation.outputs.push_back(ValueKind::kScratch);
      if (dice.coin(3)) operation.outputs.push_back(kPlain[dice.below(3)]);
    }
    bool has_all = true;  // inputs are parameters or outputs, never constants
    for (const ValueKind kind : operation.input_kinds) {
      Source s;
      for (int tries = 0; tries < 8 && s.from == Source::From::kFixed; ++tries) s = kinds::any_source(p, dice, kind);
      has_all = has_all && s.from != Source::From::kFixed;
      operation.inputs.push_back(s);
    }
    if (has_all) p.operations.push_back(std::move(operation));
  }
  const bool nested = depth < 2 && dice.coin(depth == 0 ? 3 : 5);
  for (unsigned i = nested ? 1 + dice.below(2) : 0; i > 0; --i) {
    p.children.push_back(
        std::make_shared<Program>(make_program(dice, depth + 1, "g" + std::to_string(p.children.size()))));
  }
  std::vector<Node> nodes;
  Making making{p, dice, nested};
  add_nodes(making, nodes, 1 + dice.below(depth == 0 ? 14 : 5));
  p.nodes = std::move(nodes);
  return p;
}

inline bool has_conditionals(const Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [&](const Node& n) {
    return n.kind == kConditional || (n.kind == kNested && has_conditionals(*p.children[n.child]));
  });
}

// Nodes that are no graphs.
inline void run_node(const Node& n, const Scope& scope, HostMemoryImage& memory) {
  if (n.kind != kConditional) return kKinds[n.kind].apply(n, scope, memory);
  const auto run_body = [&](std::size_t i) {
    for (const Node& inner : n.bodies[i]) run_node(inner, scope, memory);
  };
  std::uint32_t decided = decided_by(*kinds::at(memory, n.resources[1], n.from), n.count);
  switch (n.form) {
    case Node::Form::kIf:
      if (decided != 0) run_body(0);
      return;
    case Node::Form::kIfElse: return run_body(decided != 0 ? 0 : 1);
    case Node::Form::kWhile:
      for (; decided != 0; --decided) run_body(0);
      return;
    case Node::Form::kSwitch:
      if (decided < n.bodies.size()) run_body(decided);
      return;
  }
}

// Runs one step; `values` are those of the program and of all nested in it.
inline void run_on_host(const Program& p, std::span<const Cell> values, HostMemoryImage& memory) {
  const Scope scope = scope_of(p, values.first(p.parameters.size()));
  values = values.subspan(p.parameters.size());
  for (const Node& n : p.nodes) {
    if (n.kind != kNested) {
      run_node(n, scope, memory);
      continue;
    }
    const std::size_t taken = value_count(*p.children[n.child]);
    run_on_host(*p.children[n.child], values.first(taken), memory);
    values = values.subspan(taken);
  }
}

}  // namespace slipway::property
