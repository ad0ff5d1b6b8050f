#include "graph/definition.h"

#include <cstring>
#include <utility>

#include "base/thread_id.h"
#include "device/handles.h"

namespace slipway {

struct OperationCall::Impl {
  const internal::DefinitionImpl& definition;
  const internal::OperationDefinition& operation;
  std::byte* block;
};

namespace {

[[noreturn]] void throw_bad_access(const internal::OperationDefinition& operation, const char* what, std::size_t index,
                                   std::size_t count, ArgKind kind) {
  throw Error(ErrorCode::kInvalidArgument, "operation '" + operation.name + "' took " + what + " " +
                                               std::to_string(index) + " as " + name_of(kind) + ", but it has " +
                                               std::to_string(count) +
                                               " of them and that one, if any, is of another "
                                               "type; use the type it was declared with");
}

}  // namespace

const std::byte* OperationCall::input_bytes(std::size_t index, ArgKind kind, std::size_t size) const {
  const auto& inputs = impl_.operation.inputs;
  if (index < inputs.size()) {
    const internal::Variable& v = impl_.definition.variables[inputs[index]];
    if (!v.is_grid && v.kind == kind && v.size == size) return impl_.block + v.offset;
  }
  throw_bad_access(impl_.operation, "input", index, inputs.size(), kind);
}

std::byte* OperationCall::output_bytes(std::size_t index, ArgKind kind, std::size_t size) {
  const auto& outputs = impl_.operation.outputs;
  if (index < outputs.size()) {
    const internal::Variable& v = impl_.definition.variables[outputs[index]];
    if (!v.is_grid && v.kind == kind && v.size == size) return impl_.block + v.offset;
  }
  throw_bad_access(impl_.operation, "output", index, outputs.size(), kind);
}

void OperationCall::set_grid(std::size_t index, const Extent& grid) {
  const auto& outputs = impl_.operation.outputs;
  if (index >= outputs.size() || !impl_.definition.variables[outputs[index]].is_grid) {
    throw_bad_access(impl_.operation, "grid output", index, outputs.size(), ArgKind::kBytes);
  }
  internal::CheckedShape shape;
  internal::check_grid(impl_.definition.device->info(), impl_.operation.name, grid, shape);
  std::memcpy(impl_.block + impl_.definition.variables[outputs[index]].offset, &shape.extent.grid, sizeof(Dim3));
}

namespace internal {

DefinitionImpl::~DefinitionImpl() {
  // Replays, and launches of the same kernels outside the graph, may still be under way.
  if (device) device->retired().retire([r = std::move(resources)]() mutable { r.reset(); });
}

void evaluate(const DefinitionImpl& definition, const OperationDefinition& operation, std::byte* block) {
  OperationCall::Impl impl{definition, operation, block};
  OperationCall call(impl);
  const CallbackScope scope;  // what it could wait for may wait for this very call
  operation.function(call);
}

}  // namespace internal

std::size_t GraphDefinition::node_count() const { return internal::deref(*this, "the graph definition").nodes.size(); }
std::uint64_t GraphDefinition::tape_bytes() const {
  return internal::deref(*this, "the graph definition").tape.size_bytes();
}

}  // namespace slipway
