// What other parts of the graph layer do with the classes of graph.h that users cannot.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slipway/graph.h"

namespace slipway::internal {

struct GraphAccess {
  static ParameterRef parameter(Capture& c, const std::string& name, ArgKind kind, const Argument& initial) {
    return c.make_parameter(name, kind, initial);
  }
  static Operation operation(Capture& c, const std::string& name, std::span<const ParameterRef> inputs,
                             std::span<const OutputSpec> outputs, OperationFunction function) {
    return c.make_operation(name, inputs, outputs, std::move(function));
  }
  static Operation apply(Capture& c, const Operation& operation, std::span<const ParameterRef> inputs) {
    return c.apply_again(operation, inputs);
  }
  static void external(Capture& c, const Stream& stream, const std::string& name, std::span<const ParameterRef> inputs,
                       ExternalFunction function) {
    const bool is_registered = function == nullptr;
    c.add_external(stream, name, inputs, std::move(function), is_registered);
  }
  static const ParameterRef& output(const Operation& operation, std::size_t index) { return operation.outputs_[index]; }
  static std::byte* output_bytes(OperationCall& call, std::size_t index, ArgKind kind, std::size_t size) {
    return call.output_bytes(index, kind, size);
  }
  static const DefinitionImpl* definition(const StepValues& values) { return values.definition_.get(); }
  static std::byte* bytes(StepValues& values) { return values.bytes_.data(); }
  // InvalidNode when they are not this graph's.
  static const std::vector<std::byte>& bytes_of(const StepValues& values, const DefinitionImpl& of);
};

}  // namespace slipway::internal
