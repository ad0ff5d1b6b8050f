// A graph definition as text, JSON or Graphviz.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "device/handles.h"
#include "graph/definition.h"

namespace slipway {
namespace {

using internal::DefinitionImpl;
using internal::NodeDefinition;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

template <class T, class Format>
std::string joined(const std::vector<T>& items, const char* separator, Format&& format) {
  std::string text;
  for (const T& item : items) text += (text.empty() ? "" : separator) + format(item);
  return text;
}

std::string numbers(const std::vector<std::uint32_t>& list) {
  return joined(list, ", ", [](std::uint32_t n) { return std::to_string(n); });
}

std::string type_of(const internal::Variable& v) { return v.is_grid ? "grid" : name_of(v.kind); }

bool is_conditional(const NodeDefinition& n) { return n.kind == "if" || n.kind == "while" || n.kind == "switch"; }
bool is_inside(const NodeDefinition& n) { return n.inside != NodeDefinition::kNone; }

std::string as_text(const DefinitionImpl& d) {
  const auto name = [&](std::uint32_t n) { return d.variables[n].name; };
  std::string text = "graph " + d.name + ": " + std::to_string(d.nodes.size()) + " nodes, " +
                     std::to_string(d.serial.groups.size()) + " update groups, " +
                     std::to_string(d.serial.records.size()) + " bytes\n";
  for (const auto& v : d.variables) {
    if (v.gate == 0) text += (v.is_random ? "" : "parameter ") + v.name + ": " + type_of(v) + "\n";
  }
  for (const auto& o : d.operations) {
    text += "operation " + o.name + "(" + joined(o.inputs, ", ", name) + ") -> " + joined(o.outputs, ", ", name) + "\n";
  }
  for (std::size_t i = 0; i < d.nodes.size(); ++i) {
    const NodeDefinition& n = d.nodes[i];
    text += std::to_string(i) + " " + n.kind + " " + n.name + " on " + n.stream;
    if (!n.detail.empty()) text += ", " + n.detail;
    if (!n.after.empty()) text += ", after " + numbers(n.after);
    if (!n.reads.empty()) text += ", reads " + joined(n.reads, ", ", name);
    if (is_inside(n)) text += ", in body " + std::to_string(n.body) + " of " + std::to_string(n.inside);
    text += "\n";
  }
  for (const std::string& where : d.addresses->unwatched()) text += "unwatched " + where + "\n";
  return text;
}

std::string as_json(const DefinitionImpl& d) {
  const auto name = [&](std::uint32_t n) { return quoted(d.variables[n].name); };
  std::string text = "{\"graph\": " + quoted(d.name) + ", \"tape_bytes\": " + std::to_string(d.serial.records.size()) +
                     ",\n \"parameters\": [";
  const char* separator = "";
  for (const auto& v : d.variables) {
    if (v.gate != 0 || v.is_random) continue;
    text += separator + ("{\"name\": " + quoted(v.name)) + ", \"type\": " + quoted(type_of(v)) + "}";
    separator = ", ";
  }
  text += "],\n \"operations\": [" + joined(d.operations, ", ", [&](const internal::OperationDefinition& o) {
            return "{\"name\": " + quoted(o.name) + ", \"inputs\": [" + joined(o.inputs, ", ", name) +
                   "], \"outputs\": [" + joined(o.outputs, ", ", name) + "]}";
          });
  text += "],\n \"nodes\": [\n  " + joined(d.nodes, ",\n  ", [&](const NodeDefinition& n) {
            return "{\"kind\": " + quoted(n.kind) + ", \"name\": " + quoted(n.name) +
                   ", \"stream\": " + quoted(n.stream) + ", \"detail\": " + quoted(n.detail) + ", \"after\": [" +
                   numbers(n.after) + "], \"reads\": [" + joined(n.reads, ", ", name) + "]" +
                   (is_inside(n) ? ", \"inside\": " + std::to_string(n.inside) + ", \"body\": " + std::to_string(n.body)
                                 : "") +
                   "}";
          });
  text +=
      "],\n \"unwatched\": [" + joined(d.addresses->unwatched(), ", ", [](const std::string& w) { return quoted(w); });
  return text + "]}\n";
}

// A box around what is in each body of a conditional node, and whatever its node is in around that.
std::string bodies_as_graphviz(const DefinitionImpl& d, std::uint32_t conditional) {
  std::string text;
  std::map<std::uint32_t, std::string> bodies;
  for (std::uint32_t i = 0; i < d.nodes.size(); ++i) {
    const NodeDefinition& n = d.nodes[i];
    if (n.inside != conditional) continue;
    bodies[n.body] += " n" + std::to_string(i) + ";";
    if (is_conditional(n)) bodies[n.body] += bodies_as_graphviz(d, i);
  }
  for (const auto& [body, inside] : bodies) {
    const std::string number = std::to_string(body);
    text += " subgraph cluster_" + std::to_string(conditional) + "_" + number + " { label=";
    text += quoted(d.nodes[conditional].name + ", body " + number) + ";";
    text += inside + " }";
  }
  return text;
}

std::string as_graphviz(const DefinitionImpl& d) {
  std::string text = "digraph " + quoted(d.name) + " {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (std::size_t i = 0; i < d.nodes.size(); ++i) {
    const NodeDefinition& n = d.nodes[i];
    const std::string label = n.name + (n.detail.empty() ? "" : "\n" + n.detail);
    text += "  n" + std::to_string(i) + " [label=" + quoted(label) + (n.reads.empty() ? "" : ", style=filled") + "];\n";
    for (const std::uint32_t before : n.after)
      text += "  n" + std::to_string(before) + " -> n" + std::to_string(i) + ";\n";
  }
  // Only those with a body: each looks through all nodes.
  for (const auto& entry : d.entries) {
    if (entry.what != internal::TapeEntry::What::kCondition || is_inside(d.nodes[entry.node])) continue;
    text += " " + bodies_as_graphviz(d, entry.node) + "\n";
  }
  return text + "}\n";
}

}  // namespace

std::string GraphDefinition::dump(Format format) const {
  const DefinitionImpl& definition = internal::deref(*this, "the graph definition");
  switch (format) {
    case Format::kText: return as_text(definition);
    case Format::kJson: return as_json(definition);
    case Format::kGraphviz: return as_graphviz(definition);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no dump format " + std::to_string(static_cast<int>(format)));
}

}  // namespace slipway
