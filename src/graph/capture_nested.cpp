// A graph that is launched inside a capture: its definition is cloned into the one being captured.
#include <cstring>
#include <string>
#include <utility>

#include "graph/capture_impl.h"

namespace slipway::internal {

std::string CaptureImpl::free_prefix(const std::string& name) const {
  const auto taken = [&](const std::string& prefix) {
    for (const Variable& v : definition_->variables) {
      if (v.name.compare(0, prefix.size(), prefix) == 0) return true;
    }
    return false;
  };
  std::string prefix = name + "/";
  for (int i = 2; taken(prefix); ++i) prefix = name + "#" + std::to_string(i) + "/";
  return prefix;
}

// Its block becomes a part of ours, its operations come behind ours, and its records on our stream, one after the
// other.
void CaptureImpl::embed(StreamImpl& stream, const std::shared_ptr<const DefinitionImpl>& child,
                        const std::vector<std::byte>& values) {
  const std::lock_guard lock(mutex_);
  require_valid();
  CapturedStream& state = state_of(stream);
  check_depth(*child);
  const IncompleteGuard guard(*this);
  DefinitionImpl& d = *definition_;
  const std::string prefix = free_prefix(child->name);
  const auto block_base = static_cast<std::uint32_t>((block_.size() + 15) / 16 * 16);
  const auto variable_base = static_cast<std::uint32_t>(d.variables.size());
  const auto operation_base = static_cast<std::uint32_t>(d.operations.size());
  const auto node_base = static_cast<std::uint32_t>(d.nodes.size());
  const auto conditional_base = static_cast<std::uint32_t>(d.conditionals.size());
  const auto gate_of = [&](std::uint32_t gate) { return gate == 0 ? 0 : gate + operation_base; };

  block_.resize(block_base);
  block_.insert(block_.end(), values.begin(), values.end());
  for (Variable v : child->variables) {
    v.name = prefix + v.name;
    v.offset += block_base;
    v.gate = gate_of(v.gate);
    d.variables.push_back(std::move(v));
  }
  for (OperationDefinition o : child->operations) {
    o.name = prefix + o.name;
    o.same_as += operation_base;
    for (std::uint32_t& input : o.inputs) input += variable_base;
    for (std::uint32_t& output : o.outputs) output += variable_base;
    d.operations.push_back(std::move(o));
  }
  embed_random(*child, block_base);
  for (SpecialisedUse use : child->specialised) {
    use.variable += variable_base;
    d.specialised.push_back(std::move(use));
  }
  for (NodeDefinition node : child->nodes) {
    for (std::uint32_t& before : node.after) before += node_base;
    if (node.after.empty()) node.after = state.last;
    for (std::uint32_t& read : node.reads) read += variable_base;
    node.stream = stream.name();
    if (node.inside != NodeDefinition::kNone) node.inside += node_base;
    else if (!open_.empty()) node.inside = open_.back().node, node.body = open_.back().body;
    d.nodes.push_back(std::move(node));
  }
  if (d.nodes.size() > node_base) {
    auto last = static_cast<std::uint32_t>(d.nodes.size() - 1);
    while (d.nodes[last].inside != NodeDefinition::kNone && d.nodes[last].inside >= node_base)
      last = d.nodes[last].inside;
    state.last = {last};
  }
  state.seen[&stream] += child->nodes.size();
  for (std::size_t i = node_base; i < d.nodes.size(); ++i) state.nodes.push_back(static_cast<std::uint32_t>(i));
  for (const TapeEntry& entry : child->entries) {
    switch (entry.what) {
      case TapeEntry::What::kRecord: embed_record(state, *child, entry, block_base, node_base, operation_base); break;
      case TapeEntry::What::kMark:
      case TapeEntry::What::kJoin: break;  // one after the other here
      case TapeEntry::What::kCondition:
      case TapeEntry::What::kBody:
      case TapeEntry::What::kConditionEnd: embed_conditional(state, *child, entry, node_base, conditional_base);
    }
  }
  d.children.push_back(child);  // its records point to what it holds
}

void CaptureImpl::embed_record(const CapturedStream& state, const DefinitionImpl& child, const TapeEntry& from,
                               std::uint32_t block_base, std::uint32_t node_base, std::uint32_t operation_base) {
  DefinitionImpl& d = *definition_;
  TapeEntry entry = from;
  entry.branch = branch_of(state);
  entry.node += node_base;
  entry.at = d.records.size_bytes();
  entry.first_use = static_cast<std::uint32_t>(d.uses.size());
  for (std::uint32_t i = 0; i < from.use_count; ++i) {
    ValueUse use = child.uses[from.first_use + i];
    if (use.gate != 0) use.gate += operation_base;
    use.from += block_base;
    d.uses.push_back(use);
  }
  Status why;
  std::byte* place = d.records.reserve(entry.bytes, why);
  why.throw_if_error();
  std::memcpy(place, child.records.data() + from.at, entry.bytes);
  auto& header = *reinterpret_cast<RecordHeader*>(place);
  watch(header, d.nodes[entry.node].name);
  if (header.kind == RecordKind::kHostFunction) {
    auto& record = reinterpret_cast<HostFunctionRecord&>(header);
    if (const HostFunction* inner = record.payload; inner->external) {
      auto moved = std::make_unique<HostFunction>();
      moved->name = inner->name;
      moved->kind = inner->kind;
      moved->registered = inner->registered;
      moved->payload = inner->payload;
      moved->external = [inner, block_base](void* native_stream, const std::byte* block) {
        inner->external(native_stream, block + block_base);
      };
      record.payload = moved.get();
      d.resources->host_functions.push_back(std::move(moved));
    }
  }
  (void)d.records.commit(entry.bytes);
  d.entries.push_back(entry);
}

}  // namespace slipway::internal
