// Writes a graph as JSON. Kinds of nodes: one row of a table each, as where they are read (load_graph.cpp).
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/hex.h"
#include "device/handles.h"
#include "graph/definition.h"
#include "graph/graph_access.h"
#include "graph/json_reader.h"
#include "record/layout.h"
#include "slipway/saved_graph.h"
#include "slipway/version.h"
#include "trace/json_text.h"

namespace slipway {
namespace internal {
namespace {

class GraphWriter {
 public:
  // `block`: the values, to be completed here.
  GraphWriter(const DefinitionImpl& definition, std::vector<std::byte> block, const Stream& contents_by)
      : d_(definition), block_(std::move(block)), contents_by_(contents_by) {
    for (const RandomSource& source : d_.random) source.write(source.generator->state(), block_.data());
  }

  void evaluate_all() {
    for (std::size_t i = 0; i < d_.operations.size(); ++i) {
      const std::vector<std::byte> before = block_;
      try {
        (void)evaluate(d_, i, block_.data(), {});
      } catch (const std::bad_alloc&) {
        throw;
      } catch (...) {
        block_ = before;  // whoever loads the file gets the same refusal, when he has the operation
      }
    }
  }

  std::string write() {
    number_variables();
    std::string nodes;
    (void)body(nodes, 0);
    std::string out = "{\"slipway_graph\": " + std::to_string(kSavedGraphFormat) + ",\n \"made_by\": ";
    text(out, std::string("slipway ") + runtime_version_string());
    out += ",\n \"device\": ";
    text(out, d_.device->info().uri);
    out += ",\n \"name\": ";
    text(out, d_.name);
    out += ",\n \"kernels\": [" + kernels_ + "],\n \"memory\": [";
    memory(out);
    out += "],\n \"parameters\": [";
    parameters(out);
    out += "],\n \"operations\": [";
    operations(out);
    out += "],\n \"streams\": [";
    streams(out);
    return out + "],\n \"nodes\": [\n  " + nodes + "]}\n";
  }

 private:
  static void text(std::string& out, std::string_view text) { append_json_string(out, text); }
  static void member(std::string& out, const char* name, std::uint64_t value) {
    out += std::string(", \"") + name + "\": " + std::to_string(value);
  }

  // In the file parameters come first, then the outputs of each operation.
  void number_variables() {
    number_.resize(d_.variables.size());
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < d_.variables.size(); ++i) {
      if (d_.variables[i].gate == 0) number_[i] = next++;
    }
    for (const OperationDefinition& o : d_.operations) {
      for (const std::uint32_t output : o.outputs) number_[output] = next++;
    }
    for (std::size_t i = 0; i < d_.variables.size(); ++i) by_place_[d_.variables[i].offset] = number_[i];
  }

  // {"block": 0, "offset": 8}, or {"address": "0x.."} for memory that is not known. Null is block -1.
  void address(std::string& out, std::uint64_t address) {
    if (address == 0) {
      out += "null";
      return;
    }
    const WatchedAddresses::Block* const holder = d_.addresses->holder_of(address);
    if (!holder) {
      out += "{\"address\": \"" + hex(address) + "\"}";
      return;
    }
    const auto index = static_cast<std::size_t>(holder - d_.addresses->blocks().data());
    out += "{\"block\": " + std::to_string(index);
    member(out, "offset", address - holder->block.address);
    out += "}";
  }

  void memory(std::string& out) {
    const char* separator = "";
    for (const WatchedAddresses::Block& b : d_.addresses->blocks()) {
      out += std::string(separator) + "{\"bytes\": " + std::to_string(b.block.bytes);
      separator = ", ";
      if (contents_by_) {
        if (!d_.device->addresses().lives(b.block)) {
          throw Error(ErrorCode::kStaleAddress, b.where + " in graph '" + d_.name +
                                                    "' is in memory that was freed, whose contents were to be saved; "
                                                    "save it without contents, or keep the memory");
        }
        std::vector<std::byte> bytes(b.block.bytes);
        contents_by_.copy_to_host(bytes.data(), DevicePtr{b.block.address}, bytes.size());
        contents_by_.synchronize();
        out += ", \"contents\": ";
        append_json_bytes(out, bytes.data(), bytes.size());
      }
      out += "}";
    }
  }

  // A value of this kind, as addresses or bytes.
  void value(std::string& out, ArgKind kind, const std::byte* at, std::uint32_t size) {
    if (kind != ArgKind::kTensor) return append_json_bytes(out, at, size);
    std::uint64_t tensor = 0;
    std::memcpy(&tensor, at, sizeof tensor);
    address(out, tensor);
  }

  void parameters(std::string& out) {
    const char* separator = "";
    for (const Variable& v : d_.variables) {
      if (v.gate != 0) continue;
      out += std::string(separator) + "{\"name\": ";
      separator = ", ";
      text(out, v.name);
      out += std::string(", \"kind\": \"") + name_of(v.kind) + "\", \"value\": ";
      value(out, v.kind, block_.data() + v.offset, v.size);
      out += v.is_random ? ", \"random\": true}" : "}";
    }
  }

  void numbers(std::string& out, const std::vector<std::uint32_t>& variables) {
    const char* separator = "[";
    for (const std::uint32_t v : variables) {
      out += separator + std::to_string(number_[v]);
      separator = ", ";
    }
    out += variables.empty() ? "[]" : "]";
  }

  void operations(std::string& out) {
    for (std::size_t i = 0; i < d_.operations.size(); ++i) {
      const OperationDefinition& o = d_.operations[i];
      out += i == 0 ? "\n  {\"name\": " : ",\n  {\"name\": ";
      text(out, o.name);
      if (o.same_as != i) member(out, "same_as", o.same_as);
      out += ", \"inputs\": ";
      numbers(out, o.inputs);
      out += ", \"outputs\": [";
      for (std::size_t k = 0; k < o.outputs.size(); ++k) output(out, d_.variables[o.outputs[k]], k == 0);
      out += "]}";
    }
  }
  void output(std::string& out, const Variable& v, bool first) {
    out += first ? "{\"what\": " : ", {\"what\": ";
    if (v.is_grid) out += "\"grid\"";
    else if (v.scratch_bytes != 0) out += "\"scratch\"", member(out, "bytes", v.scratch_bytes);
    else out += std::string("\"argument\", \"kind\": \"") + name_of(v.kind) + "\"";
    if (v.scratch_bytes == 0) {
      out += ", \"value\": ";
      value(out, v.is_grid ? ArgKind::kBytes : v.kind, block_.data() + v.offset, v.size);
    }
    out += "}";
  }

  void streams(std::string& out) {
    std::vector<std::string> names;
    for (const TapeEntry& entry : d_.entries) {
      if (entry.branch >= names.size()) names.resize(entry.branch + 1);
      names[entry.branch] = d_.nodes[entry.node].stream;
    }
    if (names.empty()) names.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) out += ", ";
      text(out, names[i]);
    }
  }

  // --- Nodes ---

  // Those from entry `i` on, to the end of a body or of all; where it is.
  std::size_t body(std::string& out, std::size_t i) {
    const char* separator = "";
    for (; i < d_.entries.size(); ++i) {
      const TapeEntry& entry = d_.entries[i];
      if (entry.what == TapeEntry::What::kBody || entry.what == TapeEntry::What::kConditionEnd) break;
      out += std::exchange(separator, ",\n  ");
      if (entry.what == TapeEntry::What::kCondition) i = conditional(out, i);
      else node(out, entry);
    }
    return i;
  }
  // With its bodies; the entry at which it ends.
  std::size_t conditional(std::string& out, std::size_t i) {
    const TapeEntry& entry = d_.entries[i];
    const ConditionalDefinition& c = d_.conditionals[entry.conditional];
    out += "{\"kind\": \"" + d_.nodes[entry.node].kind + "\", \"stream\": " + std::to_string(entry.branch);
    out += std::string(", \"type\": \"") + name_of(kConditionTypes[c.flags & kConditionKinds]) + "\", \"condition\": ";
    address(out, c.address);
    if ((c.flags & kConditionRepeated) != 0) member(out, "most_turns", c.most_turns);
    const char* separator = ", \"bodies\": [[";
    for (++i; d_.entries[i].what == TapeEntry::What::kBody;) {
      out += std::exchange(separator, "], [");
      i = body(out, i + 1);
    }
    out += "]]}";
    return i;
  }

  void node(std::string& out, const TapeEntry& entry) {
    const char* kind = entry.what == TapeEntry::What::kMark ? "mark" : "wait";
    if (entry.what != TapeEntry::What::kRecord) {
      out += std::string("{\"kind\": \"") + kind + "\", \"stream\": " + std::to_string(entry.branch);
      member(out, "mark", entry.mark);
      out += "}";
      return;
    }
    const auto& record = *reinterpret_cast<const RecordHeader*>(d_.records.data() + entry.at);
    for (const Row& row : kRows) {
      if (row.kind != record.kind) continue;
      out += std::string("{\"kind\": \"") + row.name + "\", \"stream\": " + std::to_string(entry.branch);
      (this->*row.write)(out, entry, record);
      out += "}";
      return;
    }
    throw Error(ErrorCode::kUnsupported, "node " + std::to_string(entry.node) + " ('" + d_.nodes[entry.node].name +
                                             "') of graph '" + d_.name + "' is of a kind that files do not hold yet");
  }

  void launch(std::string& out, const TapeEntry& entry, const RecordHeader& record) {
    const auto& launch = record_cast<LaunchRecord>(record);
    const KernelCode& code = *launch.code;
    member(out, "kernel", kernel(code));
    if (const LaunchExtent* e = extent_of(launch)) {
      for (const auto& [name, d] : {std::pair("grid", e->grid), std::pair("block", e->block)}) {
        out += std::string(", \"") + name + "\": [" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " +
               std::to_string(d.z) + "]";
      }
      if (e->shared_bytes != 0) member(out, "shared_bytes", e->shared_bytes);
    }
    if ((record.flags & kLaunchSpread) != 0) out += ", \"spread\": true";
    std::map<std::uint32_t, std::uint32_t> taken;  // by place in the record: which variable
    for (std::uint32_t i = entry.first_use; i < entry.first_use + entry.use_count; ++i)
      taken[d_.uses[i].to] = by_place_.at(d_.uses[i].from);
    if (const auto grid = taken.find(sizeof(LaunchRecord)); grid != taken.end() && extent_of(launch))
      member(out, "grid_from", grid->second);
    out += ", \"arguments\": [";
    for (std::size_t i = 0; i < code.signature.size(); ++i) {
      if (i > 0) out += ", ";
      const std::uint32_t offset = code.layout.slots[i].offset;
      const auto from = taken.find(record.payload_offset + offset);
      if (from != taken.end()) out += "{\"variable\": " + std::to_string(from->second) + "}";
      else value(out, code.signature[i].kind, arguments_of(launch) + offset, size_of(code.signature[i], kNaturalAbi));
    }
    out += "]";
  }

  std::size_t kernel(const KernelCode& code) {
    const std::string signature = to_string(code.signature);
    const auto [it, is_new] = kernel_numbers_.emplace(std::pair(code.name, signature), kernel_numbers_.size());
    if (is_new) {
      kernels_ += kernels_.empty() ? "{\"name\": " : ", {\"name\": ";
      text(kernels_, code.name);
      kernels_ += ", \"signature\": ";
      text(kernels_, signature);
      kernels_ += "}";
    }
    return it->second;
  }

  void copy(std::string& out, const TapeEntry&, const RecordHeader& record) {
    const auto& copy = record_cast<CopyRecord>(record);
    const auto direction = static_cast<CopyDirection>(record.flags);
    member(out, "bytes", copy.bytes);
    if (direction != CopyDirection::kDeviceToHost) out += ", \"to\": ", address(out, copy.to);
    if (direction != CopyDirection::kHostToDevice) {
      out += ", \"from\": ", address(out, copy.from);
      return;
    }
    const auto* source = record.kind == RecordKind::kCopyInline
                             ? reinterpret_cast<const std::byte*>(&record) + kCopyInlineOffset
                             : reinterpret_cast<const std::byte*>(copy.from);
    out += ", \"contents\": ";
    append_json_bytes(out, source, copy.bytes);
  }

  void fill(std::string& out, const TapeEntry&, const RecordHeader& record) {
    const auto& fill = record_cast<FillRecord>(record);
    out += ", \"to\": ";
    address(out, fill.to);
    out += ", \"pattern\": ";
    append_json_bytes(out, reinterpret_cast<const std::byte*>(&fill.pattern), record.flags);
    member(out, "count", fill.count);
  }

  void host_function(std::string& out, const TapeEntry& entry, const RecordHeader& record) {
    const HostFunction& function = *record_cast<HostFunctionRecord>(record).payload;
    if (function.kind == HostFunction::Kind::kForeign) {
      throw Error(ErrorCode::kUnsupported,
                  "node " + std::to_string(entry.node) + " ('" + function.name + "') of graph '" + d_.name +
                      "' was put on a native queue by others, which no file can hold; make it a "
                      "command with a name");
    }
    out += ", \"name\": ";
    text(out, function.registered.empty() ? function.name : function.registered);
    if (function.kind == HostFunction::Kind::kOpaque) {
      out += ", \"payload\": ";
      append_json_bytes(out, function.payload.data(), function.payload.size());
    } else if (function.kind == HostFunction::Kind::kExternal) {
      out += ", \"inputs\": ";
      numbers(out, d_.nodes[entry.node].reads);
    }
  }

  struct Row {
    RecordKind kind;
    const char* name;
    void (GraphWriter::*write)(std::string& out, const TapeEntry& entry, const RecordHeader& record);
  };
  static const Row kRows[5];

  const DefinitionImpl& d_;
  std::vector<std::byte> block_;
  const Stream& contents_by_;
  std::vector<std::uint32_t> number_;                // of each variable in the file
  std::map<std::uint32_t, std::uint32_t> by_place_;  // the same, by where the value lies in the block
  std::map<std::pair<std::string, std::string>, std::size_t> kernel_numbers_;
  std::string kernels_;
};

const GraphWriter::Row GraphWriter::kRows[] = {
    {RecordKind::kLaunch, "launch", &GraphWriter::launch},
    {RecordKind::kCopy, "copy", &GraphWriter::copy},
    {RecordKind::kCopyInline, "copy", &GraphWriter::copy},
    {RecordKind::kFill, "fill", &GraphWriter::fill},
    {RecordKind::kHostFunction, "host", &GraphWriter::host_function},
};

}  // namespace
}  // namespace internal

namespace {

const internal::DefinitionImpl& saved(const GraphDefinition& definition, const Stream& contents_by) {
  const internal::DefinitionImpl& d = internal::deref(definition, "the graph definition");
  d.device->check_usable("saving a graph", d.generation);
  if (contents_by) {
    internal::check_same_device(*d.device, contents_by.impl()->device(), "the stream");
    internal::refuse_captured_stream(*contents_by.impl(), "graph '" + d.name + "' was to be saved with its contents");
  }
  return d;
}

}  // namespace

std::string save_graph(const GraphDefinition& definition, const Stream& contents_by) {
  const internal::DefinitionImpl& d = saved(definition, contents_by);
  return internal::GraphWriter(d, d.initial_block, contents_by).write();
}

std::string save_graph(const GraphDefinition& definition, const StepValues& values, const Stream& contents_by) {
  const internal::DefinitionImpl& d = saved(definition, contents_by);
  internal::GraphWriter writer(d, internal::GraphAccess::bytes_of(values, d), contents_by);
  writer.evaluate_all();
  return writer.write();
}

}  // namespace slipway
