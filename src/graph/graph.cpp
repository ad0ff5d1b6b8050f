// The handles of graph.h.
#include "slipway/graph.h"

#include <string>

#include "graph/executable.h"
#include "graph/graph_access.h"

namespace slipway {

using internal::deref;

namespace internal {

StepValues ExecutableImpl::values() const {
  StepValues values;
  values.definition_ = core->shared_definition();
  values.bytes_ = core->first_values();
  return values;
}

const std::vector<std::byte>& GraphAccess::bytes_of(const StepValues& values, const DefinitionImpl& of) {
  if (values.definition_.get() == &of) [[likely]]
    return values.bytes_;
  throw Error(ErrorCode::kInvalidNode,
              std::string("values of ") +
                  (values.definition_ ? "graph '" + values.definition_->name + "'" : "no graph") +
                  " were given to graph '" + of.name + "'; use those that its own values() made");
}

const std::vector<std::byte>& ExecutableImpl::bytes_of(const StepValues& values) const {
  return GraphAccess::bytes_of(values, core->definition());
}

}  // namespace internal

// Without a frame in the usual case, so what is refused is told elsewhere.
std::byte* StepValues::place(const ParameterRef& parameter, std::size_t size) {
  const internal::DefinitionImpl* definition = definition_.get();
  if (!definition || parameter.capture != definition->capture_id || parameter.number >= definition->variables.size())
      [[unlikely]]
    refuse(parameter);
  const internal::Variable& v = definition->variables[parameter.number];
  if (v.gate != 0 || v.size != size) [[unlikely]]
    refuse(parameter);
  return bytes_.data() + v.offset;
}

void StepValues::refuse(const ParameterRef& parameter) const {
  if (!definition_)
    throw Error(ErrorCode::kInvalidArgument, "empty step values were set; get them from ExecutableGraph::values()");
  const auto& variables = definition_->variables;
  if (parameter.capture != definition_->capture_id || parameter.number >= variables.size()) {
    throw Error(ErrorCode::kInvalidNode, "a parameter of another graph was set in the values of graph '" +
                                             definition_->name + "'; use its own parameters");
  }
  const internal::Variable& v = variables[parameter.number];
  throw Error(ErrorCode::kInvalidArgument, "'" + v.name + "' of graph '" + definition_->name + "' was set, but it is " +
                                               (v.gate != 0 ? "computed by an operation" : "of another type"));
}

ParameterRef GraphDefinition::find_parameter(const std::string& name, ArgKind kind, std::size_t size) const {
  const internal::DefinitionImpl& definition = deref(*this, "the graph definition");
  std::string names;
  for (std::size_t i = 0; i < definition.variables.size(); ++i) {
    const internal::Variable& v = definition.variables[i];
    if (v.gate != 0 || v.is_random) continue;
    if (v.name == name && v.kind == kind && v.size == size) {
      return {static_cast<std::uint32_t>(i), definition.capture_id, kind};
    }
    names += (names.empty() ? "" : ", ") + v.name + ": " + name_of(v.kind);
  }
  throw Error(ErrorCode::kInvalidArgument, "graph '" + definition.name + "' has no parameter '" + name + "' of type " +
                                               name_of(kind) + "; it has: " + (names.empty() ? "none" : names));
}

namespace {

// The options with what kAuto stands for; throws what is wrong with them or with the graph.
InstantiateOptions settle(const internal::DefinitionImpl& definition, const InstantiateOptions& options) {
  definition.device->check_usable("instantiating a graph", definition.generation);
  if (options.depth < 1 || options.depth > 8) {
    throw Error(ErrorCode::kInvalidArgument, "graph '" + definition.name + "' was to be instantiated with a depth of " +
                                                 std::to_string(options.depth) + "; give 1 to 8");
  }
  if (definition.entries.empty()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "graph '" + definition.name +
                    "' has no work, and replaying it would silently do nothing; submit the work to the stream that is "
                    "captured, or to one that has joined it");
  }
  if (options.watchdog.count() < 0) {
    throw Error(ErrorCode::kInvalidArgument, "graph '" + definition.name + "' was given a negative watchdog limit");
  }
  InstantiateOptions settled = options;
  const bool late = definition.device->driver().reads_values_late();
  if (options.tier == Tier::kAuto) settled.tier = late ? Tier::kReadLate : Tier::kCut;
  if (options.tier == Tier::kReadLate && !late) {
    throw Error(ErrorCode::kUnsupported,
                "graph '" + definition.name +
                    "' was to be instantiated with values that are read when work runs, and '" +
                    definition.device->info().uri + "' takes them when work is submitted; use Tier::kAuto or kCut");
  }
  if (definition.device->driver().gates().resettable) {
    if (options.tier == Tier::kCut || options.updater) {
      throw Error(ErrorCode::kUnsupported,
                  "graph '" + definition.name + "' was to be instantiated with " +
                      (options.updater ? "a thread that publishes" : "Tier::kCut") + " on '" +
                      definition.device->info().uri +
                      "', where an update is work of the device and submitted with its replay; leave the option out");
    }
    settled.depth = 1;  // one step's values are on the device at a time; the others wait in the update stream
  }
  return settled;
}

}  // namespace

GraphBudget GraphDefinition::budget(const InstantiateOptions& options) const {
  const internal::DefinitionImpl& definition = deref(*this, "the graph definition");
  const GraphBudget budget = internal::budget_of(definition, settle(definition, options));
  internal::check_budget(definition, budget);
  return budget;
}

ExecutableGraph GraphDefinition::instantiate(const InstantiateOptions& options) const {
  const internal::DefinitionImpl& definition = deref(*this, "the graph definition");
  const InstantiateOptions settled = settle(definition, options);
  internal::check_budget(definition, internal::budget_of(definition, settled));
  auto core = std::make_shared<internal::ExecutableCore>(impl_, settled);
  return ExecutableGraph(std::make_shared<internal::ExecutableImpl>(std::move(core)));
}

StepValues ExecutableGraph::values() const { return deref(*this, "the graph").values(); }

Step ExecutableGraph::launch(const Stream& stream, const StepValues& values) const {
  internal::ExecutableImpl& graph = deref(*this, "the graph");
  (void)deref(stream, "the stream");
  return graph.core->launch(stream.impl(), graph.bytes_of(values));
}

Step ExecutableGraph::launch(const Stream& stream) const {
  internal::ExecutableImpl& graph = deref(*this, "the graph");
  (void)deref(stream, "the stream");
  if (graph.core->definition().needs_values()) {
    throw Error(ErrorCode::kInvalidArgument,
                "graph '" + graph.core->definition().name +
                    "' has parameters and was launched without values; pass values, or use "
                    "launch_open() and publish()");
  }
  return graph.core->launch(stream.impl(), graph.core->definition().initial_block);
}

Step ExecutableGraph::launch_open(const Stream& stream, Publisher publisher) const {
  internal::ExecutableImpl& graph = deref(*this, "the graph");
  (void)deref(stream, "the stream");
  return graph.core->launch_open(stream.impl(), publisher);
}

void ExecutableGraph::publish(Step step, const StepValues& values) const {
  internal::ExecutableImpl& graph = deref(*this, "the graph");
  graph.core->definition().device->check_usable("publishing values", graph.core->definition().generation);
  graph.core->publish(step.number, graph.bytes_of(values));
}

void ExecutableGraph::cancel(Step step, const std::string& why) const {
  internal::ExecutableCore& core = *deref(*this, "the graph").core;
  core.definition().device->check_usable("cancelling a step", core.definition().generation);
  if (const std::uint64_t begun = core.program().begun(); step.number == 0 || step.number > begun) {
    throw Error(ErrorCode::kInvalidArgument, "step " + std::to_string(step.number) + " of graph '" +
                                                 core.definition().name + "' was to be cancelled, and only " +
                                                 std::to_string(begun) + " were launched; give one of these");
  }
  core.cancel(step.number, core.cancelled_error(step.number, ErrorCode::kCancelled, why));
}

void ExecutableGraph::recover() const { deref(*this, "the graph").core->recover(); }
void ExecutableGraph::wait(Step step, WaitLimit limit) const {
  internal::ExecutableCore& core = *deref(*this, "the graph").core;
  core.wait(step.number, core.definition().device->deadline(limit.count()));
}
void ExecutableGraph::rebind(DevicePtr from, std::uint64_t bytes, DevicePtr to, WaitLimit limit) const {
  internal::ExecutableCore& core = *deref(*this, "the graph").core;
  core.rebind({static_cast<std::uint64_t>(from), bytes, static_cast<std::uint64_t>(to)},
              core.definition().device->deadline(limit.count()));
}
Tier ExecutableGraph::tier() const { return deref(*this, "the graph").core->tier(); }
unsigned ExecutableGraph::depth() const { return deref(*this, "the graph").core->depth(); }
bool ExecutableGraph::passed(Step step) const {
  const internal::ExecutableCore& core = *deref(*this, "the graph").core;
  core.definition().device->check_process("a look at a step");
  return core.passed(step.number);
}
GraphCounters ExecutableGraph::counters() const { return deref(*this, "the graph").core->counters(); }

}  // namespace slipway
