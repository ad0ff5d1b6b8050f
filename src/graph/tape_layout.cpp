#include "graph/tape_layout.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rules.h"

namespace slipway::internal {
namespace {

class Writer {
 public:
  explicit Writer(const DefinitionImpl& definition)
      : definition_(definition), resettable_(definition.device->driver().gates().resettable) {}

  void record(const TapeEntry& entry) {
    for (std::uint32_t i = 0; i < entry.use_count; ++i) {
      wait_for(definition_.uses[entry.first_use + i].gate, definition_.nodes[entry.node].name);
    }
    const std::uint64_t at = layout_.records.size();
    for (std::uint32_t i = 0; i < entry.use_count; ++i) {
      const ValueUse& use = definition_.uses[entry.first_use + i];
      if (use.bytes == 0) continue;  // read in the block, not in the record
      places_[use.gate].push_back({use.from, static_cast<std::uint32_t>(at + use.to), use.bytes});
    }
    append(definition_.records.data() + entry.at, entry.bytes);
  }
  // Once for each gate: behind it, its values are there.
  void wait_for(std::uint32_t gate, const std::string& before) {
    if (!places_.try_emplace(gate).second) return;
    GroupRecord record{};
    record.header = {sizeof record, RecordKind::kGroup, 0, 0};
    record.group = static_cast<std::uint32_t>(layout_.groups.size());
    layout_.groups.push_back({name_of_gate(definition_, gate), before, gate, 0, 0});
    if (resettable_) {
      gate_record(RecordKind::kWaitGate, gate);
      return gate_record(RecordKind::kResetGate, gate);
    }
    append(reinterpret_cast<const std::byte*>(&record), sizeof record);
  }
  void open(std::uint32_t gate) { gate_record(RecordKind::kOpenGate, gate); }
  TapeLayout take() {
    for (UpdateGroup& group : layout_.groups) {
      const std::vector<PatchPlace>& places = places_[group.gate];
      group.first_patch = static_cast<std::uint32_t>(layout_.patches.size());
      group.patch_count = static_cast<std::uint32_t>(places.size());
      layout_.patches.insert(layout_.patches.end(), places.begin(), places.end());
    }
    return std::move(layout_);
  }

 private:
  void gate_record(RecordKind kind, std::uint32_t gate) {
    GateRecord record{};
    record.header = {sizeof record, kind, 0, 0};
    record.gate = gate;
    append(reinterpret_cast<const std::byte*>(&record), sizeof record);
  }
  void append(const std::byte* record, std::uint32_t bytes) {
    layout_.records.insert(layout_.records.end(), record, record + bytes);
  }

  const DefinitionImpl& definition_;
  const bool resettable_;
  TapeLayout layout_;
  std::map<std::uint32_t, std::vector<PatchPlace>> places_;  // by gate
};

}  // namespace

const std::string& name_of_gate(const DefinitionImpl& definition, std::uint32_t gate) {
  static const std::string kValues = "values", kBranch = "branch";
  if (gate == 0) return kValues;
  return gate <= definition.operations.size() ? definition.operations[gate - 1].name : kBranch;
}

TapeLayout lay_out(const DefinitionImpl& definition, std::optional<std::uint32_t> branch) {
  Writer writer(definition);
  for (const TapeEntry& entry : definition.entries) {
    if (branch && entry.branch != *branch) continue;
    switch (entry.what) {
      case TapeEntry::What::kRecord: writer.record(entry); break;
      case TapeEntry::What::kMark:
        if (branch) writer.open(definition.gate_of_mark(entry.mark));
        break;
      case TapeEntry::What::kJoin:
        if (branch && SLIPWAY_RULE(kBranchesJoin))
          writer.wait_for(definition.gate_of_mark(entry.mark), definition.nodes[entry.node].name);
        break;
    }
  }
  return writer.take();
}

}  // namespace slipway::internal
