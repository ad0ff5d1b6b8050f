#include "graph/capture_impl.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "base/thread_id.h"
#include "graph/record_forms.h"
#include "graph/tape_layout.h"

namespace slipway::internal {
namespace {

std::uint32_t next_capture_id() noexcept {
  static std::atomic<std::uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string extent_text(const LaunchRecord& launch) {
  const LaunchExtent* e = extent_of(launch);
  if (!e) return "grid 1";
  const auto text = [](const Dim3& d) {
    return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
  };
  return "grid " + text(e->grid) + " block " + text(e->block);
}

}  // namespace

CaptureImpl::CaptureImpl(const std::shared_ptr<StreamImpl>& origin, std::string name, CaptureMode mode)
    : name_(std::move(name)),
      mode_(mode),
      thread_(thread_id()),
      device_(origin->shared_device()),
      definition_(std::make_shared<DefinitionImpl>()),
      origin_(origin.get()) {
  definition_->device = origin->shared_device();
  definition_->generation = origin->generation();
  definition_->capture_id = next_capture_id();
  definition_->name = name_;
  definition_->addresses = std::make_unique<WatchedAddresses>(definition_->device);
  streams_.push_back({origin, {}, {}});
}

void CaptureImpl::keep(std::shared_ptr<MemoryImpl> memory) {
  const std::lock_guard lock(mutex_);
  if (!released_) definition_->memory.push_back(std::move(memory));
}

void CaptureImpl::watch(const RecordHeader& record, const std::string& name) {
  for_each_address(record,
                   [&](const AddressSite& site) { definition_->addresses->add(site.address, place_of(site, name)); });
}

void CaptureImpl::require_valid() {
  if (released_) throw Error(ErrorCode::kFailedPrecondition, "the capture '" + name_ + "' has ended already");
  if (lost_ && invalid_.ok())
    invalidate(ErrorCode::kOutOfMemory, "has lost a submission, as there was no host memory; capture again");
  invalid_.throw_if_error();
}

void CaptureImpl::invalidate(ErrorCode code, std::string sentence) {
  const Status cause(code, "the capture '" + name_ + "' " + std::move(sentence));
  if (invalid_.ok()) invalid_ = cause;
  cause.throw_if_error();
  throw Error(ErrorCode::kInternal, "unreachable");
}

CaptureImpl::CapturedStream& CaptureImpl::state_of(StreamImpl& stream) {
  if (!open_.empty() && open_.back().stream != &stream) refuse_in_body(stream, "got work of another stream");
  for (CapturedStream& s : streams_) {
    if (s.stream.get() == &stream) return s;
  }
  invalidate(ErrorCode::kInternal, "got work of the stream '" + stream.name() + "', which is not part of it");
}

std::uint32_t CaptureImpl::add_node(CapturedStream& state, NodeDefinition node) {
  const auto index = static_cast<std::uint32_t>(definition_->nodes.size());
  node.stream = state.stream->name();
  node.after = state.last;
  if (!open_.empty()) node.inside = open_.back().node, node.body = open_.back().body;
  definition_->nodes.push_back(std::move(node));
  state.last = {index};
  state.nodes.push_back(index);
  ++state.seen[state.stream.get()];
  return index;
}

std::uint32_t CaptureImpl::branch_of(const CapturedStream& state) const noexcept {
  return static_cast<std::uint32_t>(&state - streams_.data());
}

void CaptureImpl::append(StreamImpl& stream, const std::byte* record, std::uint32_t bytes, const std::string& name,
                         std::span<const ParameterUse> uses) {
  const std::lock_guard lock(mutex_);
  require_valid();
  const IncompleteGuard guard(*this);
  append_locked(stream, record, bytes, name, uses, {});
}

void CaptureImpl::append_locked(StreamImpl& stream, const std::byte* record, std::uint32_t bytes,
                                const std::string& name, std::span<const ParameterUse> uses,
                                std::span<const std::uint32_t> reads) {
  CapturedStream& state = state_of(stream);
  const auto& header = *reinterpret_cast<const RecordHeader*>(record);
  NodeDefinition node{"launch", name, {}, {}, {}, {}};
  switch (header.kind) {
    case RecordKind::kLaunch: {
      const auto& launch = record_cast<LaunchRecord>(header);
      node.detail = extent_text(launch);
      definition_->resources->kernels.push_back(launch.code->shared_from_this());
      for (const ParameterUse& use : uses) node.reads.push_back(use.parameter);
      break;
    }
    case RecordKind::kCopy:
    case RecordKind::kCopyInline:
      node.kind = "copy";
      node.detail = std::to_string(record_cast<CopyRecord>(header).bytes) + " bytes";
      break;
    case RecordKind::kFill:
      node.kind = "fill";
      node.detail = std::to_string(record_cast<FillRecord>(header).count * header.flags) + " bytes";
      break;
    case RecordKind::kHostFunction: {
      const HostFunction& function = *record_cast<HostFunctionRecord>(header).payload;
      static constexpr const char* kKinds[] = {"host", "external", "opaque", "foreign"};
      node.kind = kKinds[static_cast<std::size_t>(function.kind)];
      if (!function.payload.empty()) node.detail = std::to_string(function.payload.size()) + " bytes";
      definition_->resources->host_functions.emplace_back();  // a place for it: it is taken over when all is done
      break;
    }
    case RecordKind::kReplay:
      invalidate(ErrorCode::kUnsupported,
                 "was given a step of graph '" + name +
                     "' without values; launch it with values, and it becomes a part of this one");
    default: invalidate(ErrorCode::kUnsupported, "cannot keep '" + name + "'");
  }
  watch(header, name);
  TapeEntry entry;
  entry.branch = branch_of(state);
  entry.at = definition_->records.size_bytes();
  entry.bytes = bytes;
  entry.first_use = static_cast<std::uint32_t>(definition_->uses.size());
  if (!uses.empty()) add_uses(record_cast<LaunchRecord>(header), name, uses);
  for (const std::uint32_t variable : reads) {
    node.reads.push_back(variable);
    definition_->uses.push_back({definition_->variables[variable].gate, 0, 0, 0});
  }
  entry.use_count = static_cast<std::uint32_t>(definition_->uses.size()) - entry.first_use;
  Status why;
  std::byte* place = definition_->records.reserve(bytes, why);
  why.throw_if_error();
  std::memcpy(place, record, bytes);
  void* const staging = header.kind == RecordKind::kCopy ? record_cast<CopyRecord>(header).staging : nullptr;
  if (staging) {
    definition_->resources->staging.push_back(nullptr);  // likewise a place
    reinterpret_cast<CopyRecord*>(place)->staging = nullptr;
  }
  (void)definition_->records.commit(bytes);
  entry.node = add_node(state, std::move(node));
  definition_->entries.push_back(entry);
  // Nothing throws from here on, so that what the record owns is its submitter's or the graph's.
  if (header.kind == RecordKind::kHostFunction) {
    definition_->resources->host_functions.back().reset(record_cast<HostFunctionRecord>(header).payload);
  } else if (staging) {
    // The graph copies from it on every replay, and so it stays the graph's.
    definition_->resources->staging.back() = staging;
    stream.device().counters().staged_bytes.fetch_sub(record_cast<CopyRecord>(header).bytes, std::memory_order_relaxed);
  }
}

void CaptureImpl::check_use(const LaunchRecord& launch, const std::string& name, const ParameterUse& use) {
  const Variable& v = definition_->variables[use.parameter];
  if (use.slot == ParameterUse::kGrid) {
    if (!v.is_grid) invalidate(ErrorCode::kInvalidArgument, "was given '" + v.name + "' as a grid, and it is none");
    return;
  }
  const ArgumentSlot& slot = launch.code->layout.slots[use.slot];
  // Only bytes come in different sizes; a slot may be wider than the value, and is zero behind it.
  if (!v.is_grid && slot.kind == v.kind && (slot.kind != ArgKind::kBytes || slot.size == v.size)) return;
  invalidate(ErrorCode::kInvalidArgument, "was given the parameter '" + v.name + "' (" +
                                              (v.is_grid ? "grid" : name_of(v.kind)) + ") for argument " +
                                              std::to_string(use.slot) + " of kernel '" + name + "', which is " +
                                              name_of(slot.kind) + "; declare it with that type");
}

void CaptureImpl::add_uses(const LaunchRecord& launch, const std::string& name, std::span<const ParameterUse> uses) {
  for (const ParameterUse& use : uses) check_use(launch, name, use);
  for (const ParameterUse& use : uses) {
    const Variable& v = definition_->variables[use.parameter];
    const ArgumentLayout& layout = launch.code->layout;
    const auto takes = [&](std::uint32_t to) { definition_->uses.push_back({v.gate, v.offset, to, v.size}); };
    if (use.slot == ParameterUse::kGrid) {
      takes(sizeof(LaunchRecord));  // the extent begins with the grid
      if (layout.has_grid_words) takes(launch.header.payload_offset + layout.grid_offset);
      continue;
    }
    takes(launch.header.payload_offset + layout.slots[use.slot].offset);
    const Parameter& p = launch.code->signature[use.slot];
    if (p.min_value == Parameter{}.min_value && p.max_value == Parameter{}.max_value) continue;
    definition_->specialised.push_back({use.parameter, p, name, use.slot});
  }
}

Argument CaptureImpl::initial_value(const Argument& parameter) {
  const std::lock_guard lock(mutex_);
  require_valid();
  const std::uint64_t number = parameter.as_unsigned();
  if (parameter.size_bytes() != definition_->capture_id || number >= definition_->variables.size()) {
    invalidate(ErrorCode::kInvalidNode, "was given a parameter of another capture; use those that it declared itself");
  }
  const Variable& v = definition_->variables[number];
  if (v.is_grid) return Argument(std::int32_t{0});
  return unpack_argument(parameter_of(v), block_.data() + v.offset);
}

std::uint32_t CaptureImpl::add_variable(Variable variable) {
  const std::uint32_t align = std::min<std::uint32_t>(16, std::max<std::uint32_t>(1, variable.size));
  std::uint32_t power = 1;
  while (power < align) power *= 2;
  variable.offset = (static_cast<std::uint32_t>(block_.size()) + power - 1) / power * power;
  block_.resize(variable.offset + variable.size);
  definition_->variables.push_back(std::move(variable));
  return static_cast<std::uint32_t>(definition_->variables.size() - 1);
}

ParameterRef CaptureImpl::add_parameter(const std::string& name, ArgKind kind, const Argument& initial) {
  const std::lock_guard lock(mutex_);
  require_valid();
  for (const Variable& v : definition_->variables) {
    if (v.name == name) {
      throw Error(ErrorCode::kInvalidArgument, "the capture '" + definition_->name + "' has a parameter '" + name +
                                                   "' already; give each its own name");
    }
  }
  Variable v;
  v.name = name;
  v.kind = kind;
  Parameter p;
  p.kind = kind;
  if (kind == ArgKind::kBytes) p.size_bytes = initial.size_bytes(), p.align_bytes = initial.align_bytes();
  v.size = size_of(p, kNaturalAbi);
  const std::uint32_t number = add_variable(v);
  pack_argument(name, 0, p, v.size, initial, block_.data() + definition_->variables[number].offset).throw_if_error();
  return {number, definition_->capture_id, kind};
}

std::vector<std::uint32_t> CaptureImpl::inputs_of(const std::string& name, std::span<const ParameterRef> inputs) const {
  std::vector<std::uint32_t> numbers;
  for (const ParameterRef& input : inputs) {
    if (input.capture != definition_->capture_id || input.number >= definition_->variables.size()) {
      throw Error(ErrorCode::kInvalidNode, "the operation '" + name + "' has an input of another capture");
    }
    numbers.push_back(input.number);
  }
  return numbers;
}

std::vector<ParameterRef> CaptureImpl::add_application(OperationDefinition operation, std::vector<Variable> outputs) {
  const std::size_t index = definition_->operations.size();
  std::vector<ParameterRef> refs;
  for (Variable& v : outputs) {
    v.gate = static_cast<std::uint32_t>(index + 1);
    operation.outputs.push_back(add_variable(v));
    refs.push_back({operation.outputs.back(), definition_->capture_id, v.kind});
  }
  definition_->operations.push_back(std::move(operation));
  try {
    (void)evaluate(*definition_, index, block_.data(), {});
  } catch (...) {
    definition_->operations.pop_back();
    throw;
  }
  return refs;
}

std::vector<ParameterRef> CaptureImpl::add_operation(const std::string& name, std::span<const ParameterRef> inputs,
                                                     std::span<const OutputSpec> outputs, OperationFunction function) {
  const std::lock_guard lock(mutex_);
  require_valid();
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument,
                "the operation '" + name + "' has an empty function; pass something to call");
  }
  std::vector<Variable> variables;
  for (const OutputSpec& spec : outputs) {
    Variable v;
    v.name = name + "." + std::to_string(variables.size());
    v.kind = spec.kind;
    v.is_grid = spec.what == OutputSpec::What::kGrid;
    if (spec.what == OutputSpec::What::kScratch) v.scratch_bytes = spec.size_bytes;
    Parameter p;
    p.kind = spec.kind;
    p.size_bytes = spec.size_bytes;
    v.size = v.is_grid ? static_cast<std::uint32_t>(sizeof(Dim3)) : size_of(p, kNaturalAbi);
    if (spec.what == OutputSpec::What::kScratch && spec.size_bytes == 0) {
      throw Error(ErrorCode::kInvalidArgument, "output " + std::to_string(variables.size()) + " of the operation '" +
                                                   name + "' is scratch of 0 bytes; declare the most it can need");
    }
    if (v.size == 0 || v.size > kMaxBytesParameter) {
      throw Error(ErrorCode::kInvalidArgument, "output " + std::to_string(variables.size()) + " of the operation '" +
                                                   name + "' has " + std::to_string(v.size) + " bytes; give it 1 to " +
                                                   std::to_string(kMaxBytesParameter));
    }
    variables.push_back(std::move(v));
  }
  const auto own = static_cast<std::uint32_t>(definition_->operations.size());
  return add_application({name, own, inputs_of(name, inputs), {}, std::move(function)}, std::move(variables));
}

std::vector<ParameterRef> CaptureImpl::apply_again(const ParameterRef& first_output,
                                                   std::span<const ParameterRef> inputs) {
  const std::lock_guard lock(mutex_);
  require_valid();
  if (first_output.capture != definition_->capture_id || first_output.number >= definition_->variables.size()) {
    throw Error(ErrorCode::kInvalidNode,
                "an operation of another capture was to be applied again; declare it here too");
  }
  const OperationDefinition& earlier = definition_->operations[definition_->variables[first_output.number].gate - 1];
  const OperationDefinition& first = definition_->operations[earlier.same_as];
  OperationDefinition operation{first.name, earlier.same_as, inputs_of(first.name, inputs), {}, {}};
  bool fits = operation.inputs.size() == first.inputs.size();
  for (std::size_t i = 0; fits && i < operation.inputs.size(); ++i) {
    const Variable &a = definition_->variables[operation.inputs[i]], &b = definition_->variables[first.inputs[i]];
    fits = a.kind == b.kind && a.size == b.size && a.is_grid == b.is_grid;
  }
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                "the operation '" + first.name +
                    "' was applied to inputs of other types or number than it was declared "
                    "with; it has " +
                    std::to_string(first.inputs.size()) + " inputs");
  }
  std::vector<Variable> variables;
  for (const std::uint32_t output : first.outputs) {
    Variable v = definition_->variables[output];
    v.name = first.name + "#" + std::to_string(definition_->operations.size()) + "." + std::to_string(variables.size());
    variables.push_back(std::move(v));
  }
  return add_application(std::move(operation), std::move(variables));
}

void CaptureImpl::release() {
  const std::lock_guard lock(mutex_);
  if (released_) return;
  released_ = true;
  for (CapturedStream& s : streams_) s.stream->set_capture(nullptr);
  device_->captures().end(this);
}

Result<std::shared_ptr<DefinitionImpl>> CaptureImpl::finish() {
  const std::lock_guard lock(mutex_);
  if (lost_ && invalid_.ok()) {
    return Status(ErrorCode::kOutOfMemory,
                  "the capture '" + name_ + "' has lost a submission, as there was no host memory; capture again");
  }
  if (!invalid_.ok()) return invalid_;
  join_side_stream();
  Seen& joined = streams_.front().seen;
  for (const CapturedStream& s : streams_) {
    const auto own = s.seen.find(s.stream.get());
    const std::size_t nodes = own == s.seen.end() ? 0 : own->second;
    const std::size_t seen = joined[s.stream.get()];
    if (s.stream.get() != origin_ && seen < nodes) return unjoined(s, seen);
  }
  std::erase_if(definition_->entries,
                [](const TapeEntry& e) { return e.what == TapeEntry::What::kMark && e.mark == kNotWaitedFor; });
  definition_->serial = lay_out(*definition_, std::nullopt);
  if (streams_.size() > 1) {
    for (std::uint32_t b = 0; b < streams_.size(); ++b) definition_->branches.push_back(lay_out(*definition_, b));
  }
  definition_->only_random = !definition_->random.empty() && uses_only_random(*definition_);
  definition_->block_bytes = static_cast<std::uint32_t>((block_.size() + 15) / 16 * 16);
  definition_->initial_block = block_;
  definition_->initial_block.resize(definition_->block_bytes);
  return std::move(definition_);
}

}  // namespace slipway::internal
