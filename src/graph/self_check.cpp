#include "slipway/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "graph/executable.h"
#include "graph/record_forms.h"
#include "graph/tape_layout.h"

namespace slipway {
namespace internal {
namespace {

using Snapshot = std::vector<std::vector<std::byte>>;  // of each block

struct Difference {
  std::size_t block;
  std::uint64_t offset;
};

class SelfCheck {
 public:
  SelfCheck(ExecutableCore& core, const Stream& stream, std::vector<std::byte> values, const SelfCheckOptions& options)
      : core_(core), definition_(core.definition()), stream_(stream), values_(std::move(values)), options_(options) {}

  SelfCheckResult run() {
    check_nodes();
    find_blocks();
    stream_.synchronize(options_.limit);
    start_ = take();
    draw();
    try {
      compare();
    } catch (...) {
      recover();
      put_draws_back();
      restore();
      throw;
    }
    put_draws_back();
    restore();
    return std::move(result_);
  }

 private:
  void check_nodes() {
    for (const TapeEntry& entry : definition_.entries) {
      if (entry.what != TapeEntry::What::kRecord) continue;
      const RecordHeader& record = record_of(entry);
      switch (record.kind) {
        case RecordKind::kLaunch:
        case RecordKind::kCopyInline:
        case RecordKind::kFill: break;
        case RecordKind::kCopy:
          if (static_cast<CopyDirection>(record.flags) == CopyDirection::kDeviceToHost)
            note(entry, "copies to the host, which is not compared");
          break;
        default:
          throw Error(ErrorCode::kUnsupported,
                      "node " + std::to_string(entry.node) + " ('" + definition_.nodes[entry.node].name +
                          "') of graph '" + definition_.name +
                          "' cannot be run again to compare; check a graph without host functions and external "
                          "operations");
      }
    }
  }
  void note(const TapeEntry& entry, const std::string& what) {
    result_.notes.push_back("node " + std::to_string(entry.node) + " ('" + definition_.nodes[entry.node].name + "') " +
                            what);
  }

  void find_blocks() {
    for (const TapeEntry& entry : definition_.entries) {
      const auto add = [&](const AddressSite& site) { add_block(entry, site); };
      if (entry.what == TapeEntry::What::kRecord) for_each_address(record_of(entry), add);
      if (entry.what == TapeEntry::What::kCondition) for_each_address(condition_of(entry).header, add);
    }
  }
  void add_block(const TapeEntry& entry, const AddressSite& site) {
    if (site.address == 0) return;
    const std::optional<AddressMap::Block> block = definition_.device->addresses().find(site.address);
    if (!block && entry.what == TapeEntry::What::kCondition) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "graph '" + definition_.name + "' was to be checked, and " + site.what + " (node " +
                      std::to_string(entry.node) +
                      ") lies in memory that Slipway does not know and cannot put back, so that the second run would "
                      "take another way; allocate it on the device");
    }
    if (!block) {
      note(entry, "has " + place_of(site, definition_.nodes[entry.node].name) +
                      " in memory that Slipway does not know, which is neither compared nor put back");
      return;
    }
    if (std::none_of(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.id == block->id; }))
      blocks_.push_back(*block);
  }

  ConditionRecord condition_of(const TapeEntry& entry) const {
    ConditionRecord condition = definition_.conditionals[entry.conditional].record();
    condition.address = core_.condition_address(entry.conditional);
    return condition;
  }
  const RecordHeader& record_of(const TapeEntry& entry) const {
    return *reinterpret_cast<const RecordHeader*>(core_.records() + entry.at);
  }

  // Every run draws the same: from where the generators are now, to which they are put back.
  void draw() {
    for (const RandomSource& source : definition_.random) {
      generators_.push_back(source.generator->state());
      source.write(generators_.back(), values_.data());
    }
  }
  void put_draws_back() const {
    for (std::size_t i = 0; i < generators_.size(); ++i) definition_.random[i].generator->set_state(generators_[i]);
  }

  // Where the wait ends with an error the stream may still write there: then it is better lost than freed.
  template <class T>
  T await(std::unique_ptr<T> read) const {
    try {
      stream_.synchronize(options_.limit);
    } catch (...) {
      (void)read.release();
      throw;
    }
    return std::move(*read);
  }
  Snapshot take() const {
    auto taken = std::make_unique<Snapshot>();
    for (const AddressMap::Block& block : blocks_) taken->emplace_back(block.bytes);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      stream_.copy_to_host((*taken)[i].data(), DevicePtr{blocks_[i].address}, blocks_[i].bytes);
    return await(std::move(taken));
  }
  void restore() const {
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      stream_.copy_to_device(DevicePtr{blocks_[i].address}, start_[i].data(), blocks_[i].bytes);
    stream_.synchronize(options_.limit);
  }

  void recover() const {
    try {
      core_.recover();
    } catch (const Error&) {
      // What failed is told, not this.
    }
    stream_.recover();
  }

  void compare() {
    replay(core_);
    const Snapshot replayed = take();
    const std::vector<std::size_t> ends = ends_of_beginnings();
    const Snapshot eager = run_nodes(ends.back());
    result_.nodes_run = nodes_run_;
    const std::optional<Difference> last = differ(eager, replayed);
    if (!last) return;
    result_.equal = false;
    // Beginnings of the graph: the first `same` come out equal, the first `other` do not.
    std::size_t same = 0, other = ends.size() - 1;
    Difference difference = *last;
    bool reproduced = false;
    while (other - same > 1) {
      const std::size_t middle = same + (other - same) / 2;
      const std::optional<Difference> here = replay_beginning(ends[middle]);
      if (here) other = middle, difference = *here, reproduced = true;
      else same = middle;
    }
    if (!reproduced && ends.size() > 2 && !replay_beginning(ends.back()))
      result_.notes.push_back("replays of the graph's beginnings did not differ: it may be a matter of chance");
    report(definition_.entries[ends[other] - 1], difference);
  }
  // How many entries the beginnings have that can be run: a conditional node belongs to one as a whole.
  std::vector<std::size_t> ends_of_beginnings() const {
    std::vector<std::size_t> ends{0};
    int depth = 0;
    for (std::size_t i = 0; i < definition_.entries.size(); ++i) {
      const TapeEntry::What what = definition_.entries[i].what;
      if (what == TapeEntry::What::kCondition) ++depth;
      if (what == TapeEntry::What::kConditionEnd) --depth;
      if (depth == 0) ends.push_back(i + 1);
    }
    return ends;
  }

  void report(const TapeEntry& entry, const Difference& difference) {
    result_.node = entry.node;
    result_.node_name = definition_.nodes[entry.node].name;
    result_.block_bytes = blocks_[difference.block].bytes;
    result_.offset_bytes = difference.offset;
    result_.difference = "behind node " + std::to_string(entry.node) + " ('" + result_.node_name + "') of graph '" +
                         definition_.name + "' a replay and its nodes one at a time differ at byte " +
                         std::to_string(difference.offset) + " of a memory block of " +
                         std::to_string(result_.block_bytes) + " bytes";
  }

  void replay(ExecutableCore& core) const {
    const Step step = core.launch(stream_.impl(), values_);
    core.wait(step.number, definition_.device->deadline(options_.limit.count()));
    stream_.synchronize(options_.limit);
  }

  std::optional<Difference> replay_beginning(std::size_t entries) {
    restore();
    {
      auto core = std::make_shared<ExecutableCore>(beginning(entries), core_.options());
      const ExecutableImpl owner(core);  // ends its helper thread
      replay(*core);
    }
    const Snapshot replayed = take();
    return differ(run_nodes(entries), replayed);
  }

  std::shared_ptr<const DefinitionImpl> beginning(std::size_t entries) const {
    auto part = std::make_shared<DefinitionImpl>();
    const DefinitionImpl& d = definition_;
    part->device = d.device;
    part->generation = d.generation;
    part->capture_id = d.capture_id;
    part->name = d.name;
    part->uses = d.uses;
    part->mark_count = d.mark_count;
    part->nodes = d.nodes;
    part->variables = d.variables;
    part->operations = d.operations;
    part->specialised = d.specialised;
    part->addresses = std::make_unique<WatchedAddresses>(d.device);
    part->children = d.children;
    part->block_bytes = d.block_bytes;
    part->initial_block = d.initial_block;
    part->conditionals = d.conditionals;
    for (std::uint32_t i = 0; i < part->conditionals.size(); ++i)
      part->conditionals[i].address = core_.condition_address(i);
    part->resources = d.resources;
    part->entries.assign(d.entries.begin(), d.entries.begin() + static_cast<std::ptrdiff_t>(entries));
    for (TapeEntry& entry : part->entries) {
      if (entry.what != TapeEntry::What::kRecord) continue;
      Status why;
      std::byte* place = part->records.reserve(entry.bytes, why);
      why.throw_if_error();
      std::memcpy(place, core_.records() + entry.at, entry.bytes);
      entry.at = part->records.size_bytes();
      (void)part->records.commit(entry.bytes);
    }
    part->serial = lay_out(*part, std::nullopt);
    for (std::uint32_t b = 0; b < d.branches.size(); ++b) part->branches.push_back(lay_out(*part, b));
    return part;
  }

  // The first entries' nodes, one at a time.
  Snapshot run_nodes(std::size_t entries) {
    restore();
    std::vector<std::byte> block = values_;
    for (std::size_t i = 0; i < definition_.operations.size(); ++i)
      (void)evaluate(definition_, i, block.data(), core_.scratch());
    nodes_run_ = 0;
    run_entries(0, entries, block);
    return take();
  }
  void run_entries(std::size_t first, std::size_t end, const std::vector<std::byte>& block) {
    for (std::size_t i = first; i < end; ++i) {
      const TapeEntry& entry = definition_.entries[i];
      if (entry.what == TapeEntry::What::kRecord) run_node(entry, block);
      if (entry.what == TapeEntry::What::kCondition) i = run_conditional(i, block);
    }
  }
  // Returns where it ends.
  std::size_t run_conditional(std::size_t at, const std::vector<std::byte>& block) {
    std::vector<std::size_t> bodies;  // where they begin, and the last ends
    std::size_t end = at + 1;
    for (int depth = 0;; ++end) {
      const TapeEntry::What what = definition_.entries[end].what;
      if (what == TapeEntry::What::kBody && depth == 0) bodies.push_back(end);
      if (what == TapeEntry::What::kCondition) ++depth;
      if (what == TapeEntry::What::kConditionEnd && depth-- == 0) break;
    }
    bodies.push_back(end);
    const ConditionRecord condition = condition_of(definition_.entries[at]);
    const bool repeated = (condition.header.flags & kConditionRepeated) != 0;
    for (std::uint64_t turns = 0; turns < (repeated ? turns_of(at) : 1); ++turns) {
      const std::uint32_t body = body_of(condition, value_of(condition));
      if (body == condition.body_count) break;
      run_entries(bodies[body], bodies[body + 1], block);
    }
    return end;
  }
  std::uint64_t turns_of(std::size_t at) const {
    return definition_.conditionals[definition_.entries[at].conditional].most_turns;
  }
  std::uint64_t value_of(const ConditionRecord& condition) const {
    auto value = std::make_unique<std::uint64_t>(0);
    stream_.copy_to_host(value.get(), DevicePtr{condition.address}, value_bytes_of(condition));
    return await(std::move(value));
  }

  void run_node(const TapeEntry& entry, const std::vector<std::byte>& block) {
    const RecordHeader& header = record_of(entry);
    if (header.kind == RecordKind::kCopy && static_cast<CopyDirection>(header.flags) == CopyDirection::kDeviceToHost)
      return;
    record_.resize((entry.bytes + sizeof(Aligned) - 1) / sizeof(Aligned));
    auto* record = reinterpret_cast<std::byte*>(record_.data());
    std::memcpy(record, &header, entry.bytes);
    for (std::uint32_t i = entry.first_use; i < entry.first_use + entry.use_count; ++i) {
      const ValueUse& use = definition_.uses[i];
      std::memcpy(record + use.to, block.data() + use.from, use.bytes);
    }
    stream_.impl()->submit(record, entry.bytes, definition_.nodes[entry.node].name, [](StreamCounters&) {});
    stream_.synchronize(options_.limit);
    ++nodes_run_;
  }

  std::optional<Difference> differ(const Snapshot& a, const Snapshot& b) const {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto at = options_.tolerance > 0 ? (options_.elements == DType::kF64 ? differ_as<double>(a[i], b[i])
                                                                                 : differ_as<float>(a[i], b[i]))
                                             : differ_bits(a[i], b[i]);
      if (at) return Difference{i, *at};
    }
    return std::nullopt;
  }
  static std::optional<std::uint64_t> differ_bits(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first;
    if (at == a.end()) return std::nullopt;
    return static_cast<std::uint64_t>(at - a.begin());
  }
  template <class T>
  std::optional<std::uint64_t> differ_as(const std::vector<std::byte>& a, const std::vector<std::byte>& b) const {
    std::size_t at = 0;
    for (; at + sizeof(T) <= a.size(); at += sizeof(T)) {
      T x, y;
      std::memcpy(&x, a.data() + at, sizeof x);
      std::memcpy(&y, b.data() + at, sizeof y);
      const bool close = x == y || (std::isnan(x) && std::isnan(y)) ||
                         std::abs(static_cast<double>(x) - static_cast<double>(y)) <= options_.tolerance;
      if (!close) return at;
    }
    const std::vector<std::byte> rest_a(a.begin() + static_cast<std::ptrdiff_t>(at), a.end()),
        rest_b(b.begin() + static_cast<std::ptrdiff_t>(at), b.end());
    const auto rest = differ_bits(rest_a, rest_b);
    if (rest) return at + *rest;
    return std::nullopt;
  }

  struct alignas(kRecordAlignment) Aligned {
    std::byte bytes[kRecordAlignment];
  };
  ExecutableCore& core_;
  const DefinitionImpl& definition_;
  const Stream& stream_;
  std::vector<std::byte> values_;
  const SelfCheckOptions options_;
  std::vector<AddressMap::Block> blocks_;
  Snapshot start_;
  std::vector<Generator::State> generators_;
  std::vector<Aligned> record_;
  std::size_t nodes_run_ = 0;
  SelfCheckResult result_;
};

}  // namespace
}  // namespace internal

SelfCheckResult self_check(const ExecutableGraph& graph, const Stream& stream, const StepValues& values,
                           const SelfCheckOptions& options) {
  internal::ExecutableImpl& impl = internal::deref(graph, "the graph");
  (void)internal::deref(stream, "the stream");
  const internal::DefinitionImpl& definition = impl.core->definition();
  internal::check_same_device(*definition.device, stream.impl()->device(), "the stream");
  internal::refuse_captured_stream(*stream.impl(), "graph '" + definition.name + "' was to be checked");
  if (options.tolerance < 0 || (options.elements != DType::kF32 && options.elements != DType::kF64)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a self-check compares with a tolerance of at least 0, as f32 or f64, and got " +
                    std::to_string(options.tolerance) + " and " + name_of(options.elements));
  }
  return internal::SelfCheck(*impl.core, stream, impl.bytes_of(values), options).run();
}

}  // namespace slipway
