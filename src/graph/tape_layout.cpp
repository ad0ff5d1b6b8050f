#include "graph/tape_layout.h"

#include <cstring>
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
      : definition_(definition),
        resettable_(definition.device->driver().gates().resettable),
        passed_(definition.gate_count()) {}

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
  // Once for each gate on every way: behind it, its values are there.
  void wait_for(std::uint32_t gate, const std::string& before) {
    if (passed_[gate]) return;
    passed_[gate] = true;
    GroupRecord record{};
    record.header = {sizeof record, RecordKind::kGroup, 0, 0};
    record.group = static_cast<std::uint32_t>(layout_.groups.size());
    layout_.groups.push_back({name_of_gate(definition_, gate), before, gate, 0, 0});
    if (resettable_) {
      gate_record(RecordKind::kWaitGate, gate);
      return gate_record(RecordKind::kResetGate, gate);
    }
    append(record);
  }
  void open(std::uint32_t gate) { gate_record(RecordKind::kOpenGate, gate); }

  void begin_conditional(std::uint32_t index) {
    // A body may run many times or never, and an event is set once in a step: its gates are passed in front.
    const bool in_front = resettable_ && SLIPWAY_RULE(kBodyGatesInFront);
    for (std::size_t i = 0; in_front && i < definition_.uses.size(); ++i) {
      wait_for(definition_.uses[i].gate, "conditional");
    }
    const ConditionalDefinition& c = definition_.conditionals[index];
    const std::size_t distances = (std::size_t{c.body_count} + 1) * sizeof(std::uint32_t);
    ConditionRecord record = c.record();
    record.header.size_bytes = round_up_record(sizeof record + distances);
    record.number = static_cast<std::uint32_t>(layout_.most_turns.size());
    layout_.most_turns.push_back(c.most_turns);
    open_.push_back({layout_.records.size(), 0, {}, passed_});
    append(record);
    layout_.records.resize(open_.back().at + record.header.size_bytes);
  }
  void begin_body() {
    Open& open = open_.back();
    if (open.bodies > 0) end_body();
    set_distance(open, open.bodies++);
  }
  void end_conditional() {
    const Open open = std::move(open_.back());
    open_.pop_back();
    if ((at<ConditionRecord>(open.at).header.flags & kConditionRepeated) != 0) {
      const std::int64_t back = static_cast<std::int64_t>(open.at) - static_cast<std::int64_t>(layout_.records.size());
      append(jump(back));
    }
    for (const std::uint64_t jump_at : open.jumps) {
      at<JumpRecord>(jump_at).distance = static_cast<std::int32_t>(layout_.records.size() - jump_at);
    }
    set_distance(open, open.bodies);
    passed_ = open.passed;
  }

  TapeLayout take() {
    std::map<std::uint32_t, std::uint32_t> first;  // of each gate's places, which its groups share
    for (UpdateGroup& group : layout_.groups) {
      const std::vector<PatchPlace>& places = places_[group.gate];
      const auto [it, is_new] = first.try_emplace(group.gate, static_cast<std::uint32_t>(layout_.patches.size()));
      group.first_patch = it->second;
      group.patch_count = static_cast<std::uint32_t>(places.size());
      if (is_new) layout_.patches.insert(layout_.patches.end(), places.begin(), places.end());
    }
    return std::move(layout_);
  }

 private:
  void gate_record(RecordKind kind, std::uint32_t gate) {
    GateRecord record{};
    record.header = {sizeof record, kind, 0, 0};
    record.gate = gate;
    append(record);
  }
  struct Open {
    std::uint64_t at = 0;  // of the condition
    std::uint32_t bodies = 0;
    std::vector<std::uint64_t> jumps;  // from behind the bodies to the end
    std::vector<bool> passed;          // gates, before it: nothing else is certain behind a body
  };

  static JumpRecord jump(std::int64_t distance) {
    JumpRecord record{};
    record.header = {sizeof record, RecordKind::kJump, 0, 0};
    record.distance = static_cast<std::int32_t>(distance);
    return record;
  }
  void end_body() {
    Open& open = open_.back();
    open.jumps.push_back(layout_.records.size());
    append(jump(0));
    passed_ = open.passed;
  }
  void set_distance(const Open& open, std::uint32_t body) {
    const auto distance = static_cast<std::uint32_t>(layout_.records.size() - open.at);
    std::memcpy(layout_.records.data() + open.at + sizeof(ConditionRecord) + body * sizeof distance, &distance,
                sizeof distance);
  }
  template <class Record>
  Record& at(std::uint64_t place) {
    return reinterpret_cast<Record&>(layout_.records[place]);
  }
  template <class Record>
  void append(const Record& record) {
    append(reinterpret_cast<const std::byte*>(&record), sizeof record);
  }
  void append(const std::byte* record, std::uint32_t bytes) {
    layout_.records.insert(layout_.records.end(), record, record + bytes);
  }

  const DefinitionImpl& definition_;
  const bool resettable_;
  TapeLayout layout_;
  std::vector<bool> passed_;                                 // gates that are certain to have been passed here
  std::map<std::uint32_t, std::vector<PatchPlace>> places_;  // by gate
  std::vector<Open> open_;                                   // conditional nodes, the innermost last
};

// A step must not pass before it is published, or two publishers would write its block at once. Gates are opened in
// order, so the last one tells; there has to be a wait for it where no way through the step is certain to pass it.
bool passes_last_gate(const DefinitionImpl& definition) {
  const auto last = static_cast<std::uint32_t>(definition.operations.size());
  int depth = 0;
  for (const TapeEntry& entry : definition.entries) {
    if (entry.what == TapeEntry::What::kCondition) ++depth;
    if (entry.what == TapeEntry::What::kConditionEnd) --depth;
    for (std::uint32_t i = 0; depth == 0 && i < entry.use_count; ++i) {
      if (definition.uses[entry.first_use + i].gate == last) return true;
    }
  }
  return false;
}

}  // namespace

const std::string& name_of_gate(const DefinitionImpl& definition, std::uint32_t gate) {
  static const std::string kValues = "values", kBranch = "branch";
  if (gate == 0) return kValues;
  return gate <= definition.operations.size() ? definition.operations[gate - 1].name : kBranch;
}

TapeLayout lay_out(const DefinitionImpl& definition, std::optional<std::uint32_t> branch) {
  Writer writer(definition);
  if (definition.takes_values() && !branch && definition.device->environment().blocking) {
    // One thing after another: nothing of a step runs before all of its values are there.
    for (std::uint32_t gate = 0; gate <= definition.operations.size(); ++gate) {
      writer.wait_for(gate, definition.nodes.front().name);
    }
  }
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
      case TapeEntry::What::kCondition: writer.begin_conditional(entry.conditional); break;
      case TapeEntry::What::kBody: writer.begin_body(); break;
      case TapeEntry::What::kConditionEnd: writer.end_conditional(); break;
    }
  }
  if (definition.takes_values() && branch.value_or(0) == 0 && !passes_last_gate(definition)) {
    writer.wait_for(static_cast<std::uint32_t>(definition.operations.size()), "the end of the step");
  }
  return writer.take();
}

}  // namespace slipway::internal
