#include <string>
#include <utility>

#include "graph/capture_impl.h"
#include "slipway/graph.h"

namespace slipway {

Capture::Capture(const Stream& stream, std::string name, CaptureMode mode) {
  internal::StreamImpl& s = internal::deref(stream, "the stream");
  s.check_open();
  if (s.capture()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "the stream '" + s.name() + "' is being captured already; end that capture first");
  }
  impl_ = std::make_shared<internal::CaptureImpl>(stream.impl(), std::move(name), mode);
  s.device().captures().begin(impl_, impl_->name(),
                              mode);  // may run out of memory, and the stream is then not captured
  s.set_capture(impl_);
}

Capture::~Capture() {
  if (impl_ && !impl_->device().forked()) impl_->release();
}

GraphDefinition Capture::end() {
  if (!impl_) throw Error(ErrorCode::kFailedPrecondition, "the capture has ended already");
  impl_->device().check_process("ending a capture");
  impl_->check_thread();
  impl_->refuse_end_in_body();
  const auto impl = std::exchange(impl_, nullptr);
  impl->release();
  return GraphDefinition(impl->finish().take());
}

ParameterRef Capture::make_parameter(const std::string& name, ArgKind kind, const Argument& initial) {
  if (!impl_) throw Error(ErrorCode::kFailedPrecondition, "the capture has ended; declare '" + name + "' before");
  impl_->device().check_process("declaring a parameter");
  return impl_->add_parameter(name, kind, initial);
}

Operation Capture::make_operation(const std::string& name, std::span<const ParameterRef> inputs,
                                  std::span<const OutputSpec> outputs, OperationFunction function) {
  if (!impl_) throw Error(ErrorCode::kFailedPrecondition, "the capture has ended; declare '" + name + "' before");
  impl_->device().check_process("declaring an operation");
  Operation operation;
  operation.name_ = name;
  operation.outputs_ = impl_->add_operation(name, inputs, outputs, std::move(function));
  for (const OutputSpec& spec : outputs) operation.is_grid_.push_back(spec.what == OutputSpec::What::kGrid);
  return operation;
}

Operation Capture::apply_again(const Operation& operation, std::span<const ParameterRef> inputs) {
  if (!impl_)
    throw Error(ErrorCode::kFailedPrecondition, "the capture has ended; apply '" + operation.name_ + "' before");
  if (operation.outputs_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "an operation without outputs was to be applied again; it does nothing");
  }
  impl_->device().check_process("applying an operation");
  Operation again = operation;
  again.outputs_ = impl_->apply_again(operation.outputs_.front(), inputs);
  return again;
}

internal::StreamImpl& Capture::captured(const Stream& stream, const char* what, const std::string& name) const {
  if (!impl_) throw Error(ErrorCode::kFailedPrecondition, "the capture has ended; add '" + name + "' before");
  internal::StreamImpl& s = internal::deref(stream, "the stream");
  impl_->device().check_process("adding to a capture");
  if (s.capture() == impl_) return s;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " '" + name + "' was given the stream '" + s.name() +
                                               "', which is not part of the capture; use one that is");
}

void Capture::add_external(const Stream& stream, const std::string& name, std::span<const ParameterRef> inputs,
                           ExternalFunction function, bool is_registered) {
  internal::StreamImpl& s = captured(stream, "the external operation", name);
  impl_->add_external(s, name, inputs, std::move(function), is_registered);
}

void Capture::opaque(const Stream& stream, const std::string& name, std::span<const std::byte> payload) {
  internal::StreamImpl& s = captured(stream, "the opaque command", name);
  impl_->add_opaque(s, name, payload);
}

CaptureState capture_state(const Stream& stream) {
  internal::StreamImpl& s = internal::deref(stream, "the stream");
  s.device().check_process("a stream query");
  const auto capture = std::dynamic_pointer_cast<internal::CaptureImpl>(s.capture());
  if (!capture) return CaptureState::kNone;
  return capture->valid() ? CaptureState::kActive : CaptureState::kInvalid;
}

ParameterRef Operation::checked(std::size_t index, bool wants_grid) const {
  if (index < outputs_.size() && is_grid_[index] == wants_grid) return outputs_[index];
  throw Error(ErrorCode::kInvalidArgument, "output " + std::to_string(index) + " of the operation '" + name_ +
                                               (wants_grid ? "' is no grid" : "' is no argument") + "; it has " +
                                               std::to_string(outputs_.size()) + " outputs");
}

}  // namespace slipway
