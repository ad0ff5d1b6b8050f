// Runs the programs of programs.h on a device, in every way there is.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "property/program_modes.h"
#include "property/program_order.h"
#include "property/programs.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::property {

namespace kernels {

inline std::uint32_t element(const Block& b) noexcept { return b.index.x + b.index.y * b.grid.x; }
inline void affine(const Block& b, std::int32_t* out, const std::int32_t* in, std::int32_t a, std::int64_t c) {
  out[element(b)] = affine_of(in[element(b)], a, c);
}
inline void combine(const Block& b, std::int32_t* out, const std::int32_t* x, const std::int32_t* y, Triple t) {
  out[element(b)] = combine_of(x[element(b)], y[element(b)], t);
}
inline void bump(const Block& b, std::int32_t* out, std::int32_t a) { out[element(b)] = bump_of(out[element(b)], a); }
inline void decide(std::int32_t* word, const std::int32_t* in, std::int32_t modulus) {
  word[0] = static_cast<std::int32_t>(decided_by(in[0], static_cast<std::uint32_t>(modulus)));
}
inline void count_down(std::int32_t* word) { --word[0]; }

inline constexpr const char* kOpenCl = R"(
typedef struct { int x, y, z; } Triple;
#define AT (get_group_id(0) + get_group_id(1) * get_num_groups(0))
kernel void affine(global int* out, global const int* in, int a, long b) {
  ulong u = as_ulong(b);
  out[AT] = as_int(as_uint(in[AT]) * as_uint(a) + (uint)(u ^ (u >> 32)));
}
kernel void combine(global int* out, global const int* x, global const int* y, Triple t) {
  out[AT] = as_int((as_uint(x[AT]) ^ as_uint(t.x)) + as_uint(y[AT]) * as_uint(t.y) + as_uint(t.z));
}
kernel void bump(global int* out, int a) { out[AT] = as_int(as_uint(out[AT]) * 3 + as_uint(a)); }
kernel void decide(global int* word, global const int* in, int modulus) { word[0] = as_int(as_uint(in[0]) % modulus); }
kernel void count_down(global int* word) { --word[0]; }
)";

}  // namespace kernels

class ProgramRunner {
 public:
  explicit ProgramRunner(const std::string& uri) : device_(Device::open(uri)) {
    module_ = device_.info().driver == "cpu"
                  ? device_.load_table({kernel<&kernels::affine>("affine"), kernel<&kernels::combine>("combine"),
                                        kernel<&kernels::bump>("bump"), kernel<&kernels::decide>("decide"),
                                        kernel<&kernels::count_down>("count_down")})
                  : device_.load_source(kernels::kOpenCl);
    static constexpr const char* kSignatures[][2] = {
        {"affine", "inout tensor<i32>, in tensor<i32>, i32, i64"},
        {"combine", "inout tensor<i32>, in tensor<i32>, in tensor<i32>, bytes(12,4)"},
        {"bump", "inout tensor<i32>, i32"}};
    for (const auto& [name, signature] : kSignatures) {
      kernels_.push_back(module_.kernel(name, parse_signature(signature)));
      plans_.push_back(LaunchPlan::create(kernels_.back()));
      sites_.push_back(CallSite::create(kernels_.back(), {}));
    }
    decide_ = module_.kernel("decide", parse_signature("inout tensor<i32>, in tensor<i32>, i32"));
    count_down_ = module_.kernel("count_down", parse_signature("inout tensor<i32>"));
    affine_ =
        plans_[kAffine].typed_grid<Tensor<std::int32_t>, Tensor<const std::int32_t>, std::int32_t, std::int64_t>();
    for (int i = 0; i < kStreams; ++i) {
      streams_.push_back(device_.create_stream());
      scratch_.push_back(device_.allocate(kMostBlocks * 4));
    }
    for (int i = 0; i < kBuffers; ++i) memory_.push_back(device_.allocate(kElements[static_cast<std::size_t>(i)] * 4));
    marker_ = device_.allocate(64);
    words_ = device_.allocate(kWords * 4);
    for (std::size_t i = 0; i < kElements.size(); ++i) image_.buffers[i].resize(kElements[i]);
  }

  const Device& device() const noexcept { return device_; }
  bool can(const Mode& mode, const Program& program) const {
    const bool late = device_.info().driver == "cpu";
    const bool blocking = device_.info().uri.find("blocking") != std::string::npos;
    if (mode.held && !mode.graph && has_conditionals(program)) return false;  // the host would wait for what it holds
    return (mode.tier != Tier::kReadLate || late) && !(blocking && mode.held);
  }

  // Runs the steps and returns the memory behind them.
  const HostMemoryImage& run(const Program& program, const std::vector<StepCells>& steps, const HostMemoryImage& before,
                             const Mode& mode, Dice& dice) {
    mode_ = &mode;
    image_ = before;
    for (std::size_t i = 0; i < kBuffers; ++i)
      streams_[0].copy_to_device(memory_[i].address(), before.buffers[i].data(), kElements[i] * 4);
    if (mode.graph) run_graph(program, steps, dice);
    else run_eagerly(program, steps);
    for (std::size_t i = 0; i < kBuffers; ++i)
      streams_[0].copy_to_host(image_.buffers[i].data(), memory_[i].address(), kElements[i] * 4);
    streams_[0].synchronize();
    return image_;
  }

 private:
  // Where the values of one program come from: known now, or parameters of the capture under way.
  struct Binding {
    const Scope* scope = nullptr;
    Capture* capture = nullptr;
    std::vector<ParameterRef> parameters{};
    std::vector<Operation> operations{};

    Argument argument(const Source& s, ValueKind kind) const {
      if (capture && s.from == Source::From::kParameter) return parameters[s.index];
      if (capture && s.from == Source::From::kOutput) return operations[s.index].output_ref(s.output);
      const Cell& cell = s.from == Source::From::kFixed ? s.fixed : scope->of(s);
      if (kind == ValueKind::kI32) return cell[0];
      if (kind == ValueKind::kI64) return wide(cell);
      return Argument::bytes(cell.data(), sizeof(Triple), alignof(Triple));
    }
    bool varies(const Node& n) const {
      const auto is = [](const Source& s) { return s.from != Source::From::kFixed; };
      return capture && (is(n.a) || is(n.b) || is(n.t) || n.grid_operation >= 0);
    }
  };

  std::uint32_t& sum_of(const Node& n) { return image_.sums[static_cast<std::size_t>(n.resources[0] - kFirstSum)]; }
  DevicePtr at(int resource, std::uint32_t element = 0) const {
    return offset(memory_[static_cast<std::size_t>(resource)].address(), std::uint64_t{element} * 4);
  }
  const Event& event(std::size_t i) {
    while (events_.size() <= i) events_.push_back(device_.create_event());
    return events_[i];
  }

  void launch(const Stream& stream, const Node& n, unsigned kernel, const Binding& b,
              std::initializer_list<Argument> arguments) {
    const std::span<const Argument> given(arguments.begin(), arguments.size());
    LaunchShape shape;
    shape.grid = {n.grid[0], n.grid[1], 1};
    if (n.grid_operation >= 0) {
      const auto operation = static_cast<std::size_t>(n.grid_operation);
      if (b.capture) {
        shape.grid = {};
        shape.grid_from = b.operations[operation].grid(n.grid_output);
      } else {
        const Cell& grid = b.scope->outputs[operation][n.grid_output];
        shape.grid = {grid[0], grid[1], 1};
      }
    }
    const unsigned way = b.varies(n) ? 0 : mode_->way < 0 ? n.way : static_cast<unsigned>(mode_->way);
    if (way == 0) stream.launch_arguments(kernels_[kernel], shape, given);
    else if (way == 1) plans_[kernel].launch_arguments(stream, shape.grid, given);
    else sites_[kernel].launch_arguments(stream, shape.grid, given);
  }

  void submit(const Stream& stream, const Node& n, const Binding& b) {
    const int out = n.resources[0], in = n.resources[1];
    const auto a = [&] { return b.argument(n.a, ValueKind::kI32); };
    const auto wide_b = [&] { return b.argument(n.b, ValueKind::kI64); };
    switch (n.kind) {
      case kAffine:
        if (n.way == 1 && n.grid_operation < 0 && !b.varies(n) && mode_->way < 0) {
          affine_(stream, {n.grid[0], n.grid[1], 1}, Tensor<std::int32_t>(at(out)), Tensor<const std::int32_t>(at(in)),
                  static_cast<std::int32_t>(a().as_signed()), wide_b().as_signed());
          return;
        }
        return launch(stream, n, kAffine, b, {at(out), at(in), a(), wide_b()});
      case kCombine:
        return launch(stream, n, kCombine, b,
                      {at(out), at(in), at(n.resources[2]), b.argument(n.t, ValueKind::kTriple)});
      case kBump: return launch(stream, n, kBump, b, {at(out), a()});
      case kScratchPair: {
        const Argument between =
            b.capture ? Argument(b.operations[static_cast<std::size_t>(n.grid_operation)].output_ref(n.scratch_output))
                      : Argument(scratch_[static_cast<std::size_t>(&stream - streams_.data())]);
        launch(stream, n, kAffine, b, {between, at(in), a(), wide_b()});
        return launch(stream, n, kAffine, b, {at(out), between, a(), wide_b()});
      }
      case kCopy: return stream.copy(at(out, n.offset), at(in, n.from), std::uint64_t{n.count} * 4);
      case kUpload: return stream.copy_to_device(at(out, n.offset), n.data.data(), std::uint64_t{n.count} * 4);
      case kDownload:
        return stream.copy_to_host(image_.buffers[kHostBuffer].data() + n.offset, at(in, n.from),
                                   std::uint64_t{n.count} * 4);
      case kFill: return stream.fill(at(out, n.offset), n.pattern, n.pattern_bytes, n.count * 4 / n.pattern_bytes);
      case kHost:
        return stream.host_function([&sum = sum_of(n), word = n.a.fixed[0]] { add_to_sum(sum, std::span(&word, 1)); });
      case kExternal: return external(stream, n, b);
      case kConditional: return conditional(stream, n, b);
      default: return;
    }
  }

  void external(const Stream& stream, const Node& n, const Binding& b) {
    std::uint32_t& sum = sum_of(n);
    std::vector<std::pair<const Source*, ValueKind>> inputs;
    for (const auto& [source, kind] :
         {std::pair(&n.a, ValueKind::kI32), std::pair(&n.b, ValueKind::kI64), std::pair(&n.t, ValueKind::kTriple)}) {
      if (source->from != Source::From::kFixed) inputs.emplace_back(source, kind);
    }
    const auto add_one = [&sum] { add_to_sum(sum, std::array<std::int32_t, 1>{1}); };
    if (!b.capture) {
      std::vector<std::pair<Cell, ValueKind>> cells;
      for (const auto& [source, kind] : inputs) cells.emplace_back(b.scope->of(*source), kind);
      return stream.host_function([&sum, add_one, cells] {
        add_one();
        for (const auto& [cell, kind] : cells) add_cell(sum, cell, kind);
      });
    }
    std::vector<ParameterRef> refs;
    std::vector<ValueKind> kinds;
    for (const auto& [source, kind] : inputs) {
      const bool is_parameter = source->from == Source::From::kParameter;
      refs.push_back(is_parameter ? b.parameters[source->index]
                                  : b.operations[source->index].output_ref(source->output));
      kinds.push_back(kind);
    }
    const auto function = [&sum, add_one, kinds](ExternalCall& call) {
      add_one();
      for (std::size_t i = 0; i < kinds.size(); ++i) add_cell(sum, input(call, i, kinds[i]), kinds[i]);
    };
    switch (refs.size()) {
      case 0: return b.capture->external(stream, "external", {}, function);
      case 1: return b.capture->external(stream, "external", {refs[0]}, function);
      case 2: return b.capture->external(stream, "external", {refs[0], refs[1]}, function);
      default: return b.capture->external(stream, "external", {refs[0], refs[1], refs[2]}, function);
    }
  }

  // As a node; eagerly, the host looks and decides.
  void conditional(const Stream& stream, const Node& n, const Binding& b) {
    const DevicePtr word = offset(words_.address(), std::uint64_t{n.word} * 4);
    const auto body = [&](std::size_t i) -> GraphBody {
      return [this, &n, &b, word, i](const Stream& s) {
        for (const Node& inner : n.bodies[i]) submit(s, inner, b);
        s.launch(count_down_, {}, word);  // the turns of a loop; and a body has to have work
      };
    };
    stream.launch(decide_, {}, word, at(n.resources[1], n.from), static_cast<std::int32_t>(n.count));
    if (b.capture) {
      const Condition condition(word, DType::kI32);
      switch (n.form) {
        case Node::Form::kIf: return b.capture->if_node(stream, condition, body(0));
        case Node::Form::kIfElse: return b.capture->if_else_node(stream, condition, body(0), body(1));
        case Node::Form::kWhile: return b.capture->while_node(stream, condition, body(0));
        case Node::Form::kSwitch: break;
      }
      std::vector<GraphBody> bodies;
      for (std::size_t i = 0; i < n.bodies.size(); ++i) bodies.push_back(body(i));
      return b.capture->switch_node(stream, condition, bodies);
    }
    const auto decided = [&] {
      std::uint32_t value = 0;
      stream.copy_to_host(&value, word, 4);
      stream.synchronize();
      return value;
    };
    const std::uint32_t first = decided();
    if (n.form == Node::Form::kIfElse) return body(first != 0 ? 0 : 1)(stream);
    if (n.form == Node::Form::kSwitch) {
      if (first < n.bodies.size()) body(first)(stream);
      return;
    }
    if (first == 0) return;
    do body(0)(stream);
    while (n.form == Node::Form::kWhile && decided() != 0);
  }

  // --- Eagerly ---

  void run_eagerly(const Program& program, const std::vector<StepCells>& steps) {
    std::optional<testing::Hold> hold;
    if (mode_->held) hold.emplace(device_).hold(streams_[0]);
    const Order order(program);
    for (const StepCells& step : steps) {
      streams_[0].fill(marker_.address(), 1, 4, 1);
      submit_actions(program, order, step);
    }
  }
  void submit_actions(const Program& program, const Order& order, std::span<const Cell> values) {
    const Scope scope = scope_of(program, values.first(program.parameters.size()));
    const Binding binding{&scope};
    values = values.subspan(program.parameters.size());
    // Nested graphs take their values in the order of the nodes, which is that of the actions.
    for (const Action& action : order.actions()) {
      const Stream& stream = streams_[static_cast<std::size_t>(action.stream)];
      if (action.what == Action::What::kMark) stream.mark(event(action.event));
      else if (action.what == Action::What::kWait) stream.wait(event(action.event));
      else if (action.node->kind == kNested) submit_nested(*program.children[action.node->child], stream, values);
      else submit(stream, *action.node, binding);
    }
  }
  void submit_nested(const Program& child, const Stream& stream, std::span<const Cell>& values) {
    const Scope scope = scope_of(child, values.first(child.parameters.size()));
    const Binding binding{&scope};
    values = values.subspan(child.parameters.size());
    for (const Node& n : child.nodes) {
      if (n.kind == kNested) submit_nested(*child.children[n.child], stream, values);
      else if (n.kind != kEvent) submit(stream, n, binding);
    }
  }

  // --- As graphs ---

  static Cell input(auto& call, std::size_t i, ValueKind kind) {
    Cell cell{};
    if (kind == ValueKind::kI32) cell[0] = call.template input<std::int32_t>(i);
    if (kind == ValueKind::kI64) {
      const auto value = call.template input<std::int64_t>(i);
      std::memcpy(cell.data(), &value, sizeof value);
    }
    if (kind == ValueKind::kTriple) {
      const auto t = call.template input<Triple>(i);
      cell = {t.x, t.y, t.z};
    }
    return cell;
  }
  static OperationFunction function_of(const OperationNode& o) {
    return [seed = o.seed, kinds = o.input_kinds, outputs = o.outputs](OperationCall& call) {
      std::vector<Cell> inputs;
      for (std::size_t i = 0; i < kinds.size(); ++i) inputs.push_back(input(call, i, kinds[i]));
      const std::vector<Cell> cells = outputs_of(seed, outputs, inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Cell& c = cells[i];
        switch (outputs[i]) {
          case ValueKind::kI32: call.set(i, c[0]); break;
          case ValueKind::kI64: call.set(i, wide(c)); break;
          case ValueKind::kTriple: call.set(i, Triple{c[0], c[1], c[2]}); break;
          case ValueKind::kGrid: call.set_grid(i, {c[0], c[1], 1}); break;
          case ValueKind::kScratch: call.set_scratch(i, static_cast<std::uint64_t>(c[0])); break;
        }
      }
    };
  }
  static OutputSpec spec_of(ValueKind kind) {
    switch (kind) {
      case ValueKind::kI32: return OutputSpec::argument(ArgKind::kI32);
      case ValueKind::kI64: return OutputSpec::argument(ArgKind::kI64);
      case ValueKind::kTriple: return OutputSpec::bytes(sizeof(Triple), alignof(Triple));
      case ValueKind::kGrid: return OutputSpec::grid();
      default: return OutputSpec::scratch(kMostBlocks * 4);
    }
  }
  void add_operation(Binding& b, const Program& p, std::size_t index) {
    const OperationNode& o = p.operations[index];
    std::vector<ParameterRef> in;
    for (const Source& s : o.inputs) {
      in.push_back(s.from == Source::From::kParameter ? b.parameters[s.index]
                                                      : b.operations[s.index].output_ref(s.output));
    }
    const auto with = [&](std::initializer_list<ParameterRef> inputs) {
      if (o.same_as != index) return b.capture->apply(b.operations[o.same_as], inputs);
      const std::string name = "o" + std::to_string(index);
      std::vector<OutputSpec> s;
      for (const ValueKind kind : o.outputs) s.push_back(spec_of(kind));
      switch (s.size()) {
        case 1: return b.capture->operation(name, inputs, {s[0]}, function_of(o));
        case 2: return b.capture->operation(name, inputs, {s[0], s[1]}, function_of(o));
        case 3: return b.capture->operation(name, inputs, {s[0], s[1], s[2]}, function_of(o));
        default: return b.capture->operation(name, inputs, {s[0], s[1], s[2], s[3]}, function_of(o));
      }
    };
    switch (in.size()) {
      case 0: return b.operations.push_back(with({}));
      case 1: return b.operations.push_back(with({in[0]}));
      case 2: return b.operations.push_back(with({in[0], in[1]}));
      default: return b.operations.push_back(with({in[0], in[1], in[2]}));
    }
  }

  // With `initial` values. Its children are captured first, and launched inside it.
  GraphDefinition capture(const Program& p, std::span<const Cell> initial) {
    std::vector<std::pair<ExecutableGraph, StepValues>> nested;
    std::span<const Cell> rest = initial.subspan(p.parameters.size());
    for (const Node& n : p.nodes) {
      if (n.kind != kNested) continue;
      const Program& child = *p.children[n.child];
      const std::size_t taken = value_count(child);
      const GraphDefinition definition = capture(child, rest.first(taken));
      nested.emplace_back(definition.instantiate(), StepValues());
      nested.back().second = nested.back().first.values();
      rest = rest.subspan(taken);
    }
    Capture under_way(streams_[0], p.name);
    Binding b{nullptr, &under_way};
    for (std::size_t i = 0; i < p.parameters.size(); ++i) {
      const std::string name = "p" + std::to_string(i);
      const Cell& c = initial[i];
      if (p.parameters[i] == ValueKind::kI32) b.parameters.push_back(under_way.parameter<std::int32_t>(name, c[0]));
      else if (p.parameters[i] == ValueKind::kI64)
        b.parameters.push_back(under_way.parameter<std::int64_t>(name, wide(c)));
      else b.parameters.push_back(under_way.parameter<Triple>(name, {c[0], c[1], c[2]}));
    }
    for (std::size_t i = 0; i < p.operations.size(); ++i) add_operation(b, p, i);
    streams_[0].fill(marker_.address(), 1, 4, 1);
    const Order order(p);
    std::size_t next_child = 0;
    for (const Action& action : order.actions()) {
      const Stream& stream = streams_[static_cast<std::size_t>(action.stream)];
      if (action.what == Action::What::kMark) stream.mark(event(action.event));
      else if (action.what == Action::What::kWait) stream.wait(event(action.event));
      else if (action.node->kind != kNested) submit(stream, *action.node, b);
      else {
        const auto& [graph, values] = nested[next_child++];
        graph.launch(stream, values);
      }
    }
    return under_way.end();
  }

  // The names of all values, in the order of a step's cells.
  void add_names(const Program& p, const std::string& prefix, std::vector<std::pair<std::string, ValueKind>>& names) {
    for (std::size_t i = 0; i < p.parameters.size(); ++i)
      names.emplace_back(prefix + "p" + std::to_string(i), p.parameters[i]);
    std::vector<unsigned> launched(p.children.size());
    for (const Node& n : p.nodes) {
      if (n.kind != kNested) continue;
      const Program& child = *p.children[n.child];
      const unsigned number = has_names(child) ? ++launched[n.child] : 1;
      const std::string own = child.name + (number > 1 ? "#" + std::to_string(number) : "");
      add_names(child, prefix + own + "/", names);
    }
  }
  static bool has_names(const Program& p) {
    if (!p.parameters.empty() || !p.operations.empty()) return true;
    return std::any_of(p.nodes.begin(), p.nodes.end(),
                       [&](const Node& n) { return n.kind == kNested && has_names(*p.children[n.child]); });
  }

  void run_graph(const Program& program, const std::vector<StepCells>& steps, Dice& dice) {
    const GraphDefinition definition = capture(program, steps.front());
    const InstantiateOptions options{
        .depth = mode_->depth, .tier = mode_->tier, .serial = mode_->serial, .updater = mode_->updater};
    std::vector<ExecutableGraph> graphs{definition.instantiate(options)};
    if (mode_->twice) graphs.push_back(definition.instantiate(options));
    std::vector<std::pair<std::string, ValueKind>> names;
    add_names(program, "", names);
    std::vector<StepValues> values;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      values.push_back(s == 0 || mode_->twice ? graphs[s % graphs.size()].values() : values.back());
      for (std::size_t i = 0; i < names.size(); ++i) {
        const auto& [name, kind] = names[i];
        const Cell& c = steps[s][i];
        if (s > 0 && !mode_->twice && c == steps[s - 1][i]) continue;  // it keeps what it was
        if (kind == ValueKind::kI32) values[s].set(definition.parameter<std::int32_t>(name), c[0]);
        else if (kind == ValueKind::kI64) values[s].set(definition.parameter<std::int64_t>(name), wide(c));
        else values[s].set(definition.parameter<Triple>(name), Triple{c[0], c[1], c[2]});
      }
    }
    launch_steps(graphs, values, takes_values(program), dice);
  }

  void launch_steps(const std::vector<ExecutableGraph>& graphs, const std::vector<StepValues>& values, bool varies,
                    Dice& dice) {
    std::optional<testing::Hold> hold;
    if (mode_->held) hold.emplace(device_).hold(streams_[0]);
    const Stream other = mode_->streams ? device_.create_stream() : Stream();
    if (other) {  // behind what came before
      streams_[0].mark(event(0));
      other.wait(event(0));
    }
    std::vector<std::pair<std::size_t, Step>> open;
    const auto publish_one = [&] {
      const std::size_t at = dice.below(open.size());
      graphs[open[at].first % graphs.size()].publish(open[at].second, values[open[at].first]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    };
    Step last;
    for (std::size_t s = 0; s < values.size(); ++s) {
      const ExecutableGraph& graph = graphs[s % graphs.size()];
      const Stream& stream = other && s % 2 == 1 ? other : streams_[0];
      if (hold && s == mode_->depth) hold.reset();
      if (mode_->open && varies) {
        if (open.size() == mode_->depth) {
          while (!open.empty()) publish_one();
        }
        open.emplace_back(s, graph.launch_open(stream));
      } else {
        last = graph.launch(stream, values[s]);
      }
    }
    while (!open.empty()) publish_one();
    hold.reset();
    // Dropping the executable leaves alone what its own thread will publish, and the streams know of each other's
    // steps.
    if (other) graphs[0].wait(last);
  }

  const Mode* mode_ = nullptr;
  Device device_;
  Module module_;
  std::vector<Kernel> kernels_;
  Kernel decide_, count_down_;
  std::vector<LaunchPlan> plans_;
  std::vector<CallSite> sites_;
  TypedGridLaunch<Tensor<std::int32_t>, Tensor<const std::int32_t>, std::int32_t, std::int64_t> affine_;
  std::vector<Stream> streams_;
  std::vector<Memory> memory_, scratch_;
  Memory marker_, words_;
  std::vector<Event> events_;
  HostMemoryImage image_;
};

}  // namespace slipway::property
