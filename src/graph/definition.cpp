#include "graph/definition.h"

#include <cstring>
#include <utility>

#include "base/hex.h"
#include "base/thread_id.h"
#include "device/handles.h"
#include "record/layout.h"

namespace slipway {

struct OperationCall::Impl {
  const internal::DefinitionImpl& definition;
  const internal::OperationDefinition& operation;
  std::byte* block;
  std::span<const std::uint64_t> scratch;
};

struct ExternalCall::Impl {
  const std::string& name;
  const std::vector<internal::Variable>& inputs;
  void* native_stream;
  const std::byte* block;
};

namespace {

[[noreturn]] void throw_bad_access(const std::string& operation, const char* what, std::size_t index, std::size_t count,
                                   ArgKind kind) {
  throw Error(ErrorCode::kInvalidArgument, "operation '" + operation + "' took " + what + " " + std::to_string(index) +
                                               " as " + name_of(kind) + ", but it has " + std::to_string(count) +
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
  throw_bad_access(impl_.operation.name, "input", index, inputs.size(), kind);
}

std::byte* OperationCall::output_bytes(std::size_t index, ArgKind kind, std::size_t size) {
  const auto& outputs = impl_.operation.outputs;
  if (index < outputs.size()) {
    const internal::Variable& v = impl_.definition.variables[outputs[index]];
    if (!v.is_grid && v.scratch_bytes == 0 && v.kind == kind && v.size == size) return impl_.block + v.offset;
  }
  throw_bad_access(impl_.operation.name, "output", index, outputs.size(), kind);
}

void OperationCall::set_grid(std::size_t index, const Extent& grid) {
  const auto& outputs = impl_.operation.outputs;
  if (index >= outputs.size() || !impl_.definition.variables[outputs[index]].is_grid) {
    throw_bad_access(impl_.operation.name, "grid output", index, outputs.size(), ArgKind::kBytes);
  }
  internal::CheckedShape shape;
  internal::check_grid(impl_.definition.device->info(), impl_.operation.name, grid, shape);
  std::memcpy(impl_.block + impl_.definition.variables[outputs[index]].offset, &shape.extent.grid, sizeof(Dim3));
}

void OperationCall::set_scratch(std::size_t index, std::uint64_t bytes) {
  const auto& outputs = impl_.operation.outputs;
  if (index >= outputs.size() || impl_.definition.variables[outputs[index]].scratch_bytes == 0) {
    throw_bad_access(impl_.operation.name, "scratch output", index, outputs.size(), ArgKind::kTensor);
  }
  const internal::Variable& v = impl_.definition.variables[outputs[index]];
  if (bytes > v.scratch_bytes) {
    throw Error(ErrorCode::kOutOfRange, "operation '" + impl_.operation.name + "' needs " + std::to_string(bytes) +
                                            " bytes of scratch and has declared at most " +
                                            std::to_string(v.scratch_bytes) + "; declare more, or use smaller values");
  }
  const std::uint64_t address = bytes == 0 || impl_.scratch.empty() ? 0 : impl_.scratch[outputs[index]];
  std::memcpy(impl_.block + v.offset, &address, sizeof address);
}

void* ExternalCall::native_stream() const noexcept { return impl_.native_stream; }

const std::byte* ExternalCall::input_bytes(std::size_t index, ArgKind kind, std::size_t size) const {
  if (index < impl_.inputs.size()) {
    const internal::Variable& v = impl_.inputs[index];
    if (!v.is_grid && v.kind == kind && v.size == size) return impl_.block + v.offset;
  }
  throw_bad_access(impl_.name, "input", index, impl_.inputs.size(), kind);
}

namespace internal {

std::function<void(void*, const std::byte*)> bind_external(std::string name, std::vector<Variable> inputs,
                                                           ExternalFunction function) {
  return [name = std::move(name), inputs = std::move(inputs), function = std::move(function)](void* native_stream,
                                                                                              const std::byte* block) {
    const ExternalCall::Impl impl{name, inputs, native_stream, block};
    ExternalCall call(impl);
    function(call);
  };
}

DefinitionImpl::~DefinitionImpl() {
  // Replays, and launches of the same kernels outside the graph, may still be under way.
  if (device) device->retired().retire([r = std::move(resources)]() mutable { r.reset(); });
}

namespace {

bool equal_inputs(const DefinitionImpl& d, const OperationDefinition& a, const OperationDefinition& b,
                  const std::byte* block) {
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const Variable &x = d.variables[a.inputs[i]], &y = d.variables[b.inputs[i]];
    if (std::memcmp(block + x.offset, block + y.offset, x.size) != 0) return false;
  }
  return true;
}

}  // namespace

bool evaluate(const DefinitionImpl& definition, std::size_t index, std::byte* block,
              std::span<const std::uint64_t> scratch) {
  const OperationDefinition& operation = definition.operations[index];
  for (std::size_t i = operation.same_as; i < index; ++i) {
    const OperationDefinition& earlier = definition.operations[i];
    if (earlier.same_as != operation.same_as || !equal_inputs(definition, earlier, operation, block)) continue;
    for (std::size_t o = 0; o < operation.outputs.size(); ++o) {
      const Variable &from = definition.variables[earlier.outputs[o]], &to = definition.variables[operation.outputs[o]];
      std::uint64_t address = 0;
      if (to.scratch_bytes != 0) std::memcpy(&address, block + from.offset, sizeof address);
      if (address != 0) std::memcpy(block + to.offset, &scratch[operation.outputs[o]], sizeof address);  // its own
      else std::memcpy(block + to.offset, block + from.offset, to.size);
    }
    return false;
  }
  OperationCall::Impl impl{definition, operation, block, scratch};
  OperationCall call(impl);
  const CallbackScope scope;  // what it could wait for may wait for this very call
  definition.operations[operation.same_as].function(call);
  return true;
}

Parameter parameter_of(const Variable& v) {
  Parameter p;
  p.kind = v.kind;
  p.size_bytes = v.kind == ArgKind::kBytes ? v.size : 0;
  p.align_bytes = 1;
  return p;
}

std::string inputs_text(const DefinitionImpl& definition, std::size_t operation, const std::byte* block) {
  std::string text;
  for (const std::uint32_t input : definition.operations[operation].inputs) {
    const Variable& v = definition.variables[input];
    text += (text.empty() ? " (" : ", ") + v.name + " = ";
    const Argument value = unpack_argument(parameter_of(v), block + v.offset);
    switch (v.kind) {
      case ArgKind::kTensor: text += hex(value.as_unsigned()); break;
      case ArgKind::kI8:
      case ArgKind::kI16:
      case ArgKind::kI32:
      case ArgKind::kI64: text += std::to_string(value.as_signed()); break;
      case ArgKind::kF16:
      case ArgKind::kBF16:
      case ArgKind::kF32:
      case ArgKind::kF64: text += std::to_string(value.as_double()); break;
      case ArgKind::kBytes: text += std::to_string(v.size) + " bytes"; break;
      default: text += std::to_string(value.as_unsigned()); break;
    }
  }
  return text.empty() ? text : text + ")";
}

void check_specialised(const DefinitionImpl& definition, std::uint32_t gate, const std::byte* block) {
  for (const SpecialisedUse& use : definition.specialised) {
    const Variable& v = definition.variables[use.variable];
    if (v.gate != gate) continue;
    const Argument value = unpack_argument(use.parameter, block + v.offset);
    const GuardMiss miss = check_specialisation(use.parameter, value);
    if (miss == GuardMiss::kNone) continue;
    const Status why = specialisation_error(use.kernel, use.argument, use.parameter, value, miss);
    throw Error(ErrorCode::kInvalidArgument, "'" + v.name + "' of graph '" + definition.name +
                                                 "' has a value that it must not have: " + why.details().sentence);
  }
}

}  // namespace internal

std::size_t GraphDefinition::node_count() const { return internal::deref(*this, "the graph definition").nodes.size(); }
std::uint64_t GraphDefinition::tape_bytes() const {
  return internal::deref(*this, "the graph definition").serial.records.size();
}

}  // namespace slipway
