// Update plans from JSON, as generated code hands them over.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/json_reader.h"
#include "slipway/update_plan.h"

namespace slipway {
namespace {

using internal::JsonValue;
using Kind = JsonValue::Kind;

constexpr internal::JsonLimits kLimits{std::size_t{64} << 20, std::size_t{1} << 20, 32};

UpdateValue read_constant(const JsonValue& value) {
  switch (value.kind()) {
    case Kind::kNull: return {};
    case Kind::kBool: return value.boolean();
    case Kind::kInteger: return value.integer(INT64_MIN, INT64_MAX);
    case Kind::kFloat: return value.number();
    case Kind::kString: return value.text();
    case Kind::kObject:
      value.fail(
          "an object is no constant; constants are null, bools, numbers, strings and lists of these, and a tensor "
          "has to be an input");
    case Kind::kList: break;
  }
  std::vector<UpdateValue> items;
  for (const JsonValue& item : value.items()) items.push_back(read_constant(item));
  return UpdateValue::list(std::move(items));
}

UpdateSource read_source(const JsonValue& source) {
  if (source.kind() != Kind::kObject)
    source.fail("a source has to be an object with the member 'kind', as {\"kind\": \"input\", \"index\": 0}");
  const std::string& kind = source.member("kind").text();
  if (kind == "none") return UpdateSource::none();
  if (kind == "constant") return UpdateSource::constant(read_constant(source.member("value")));
  if (kind == "input") {
    const JsonValue& index = source.member("index");
    if (index.kind() != Kind::kInteger || index.integer(INT64_MIN, INT64_MAX) < 0)
      index.fail("the index of an input has to be an integer from 0");
    return UpdateSource::input(index.integer(0, INT64_MAX));
  }
  if (kind == "list") {
    const JsonValue& items = source.member("items");
    if (items.kind() != Kind::kList) items.fail("the items of a list source have to be a list of sources");
    std::vector<UpdateSource> read;
    for (const JsonValue& item : items.items()) read.push_back(read_source(item));
    return UpdateSource::list(std::move(read));
  }
  source.fail("'" + kind + "' is no kind of source; the kinds are input, constant, none and list");
}

UpdateEntry read_entry(const JsonValue& entry) {
  if (entry.kind() != Kind::kObject) entry.fail("an entry has to be an object with the members 'op' and 'updates'");
  const JsonValue &op = entry.member("op"), &updates = entry.member("updates");
  if (op.kind() != Kind::kString) op.fail("'op' has to be a string, the name of an operation");
  if (updates.kind() != Kind::kObject) updates.fail("'updates' has to be an object of keys and sources");
  UpdateEntry read{op.text(), {}};
  for (const auto& [key, source] : updates.members()) read.updates.emplace_back(key, read_source(source));
  return read;
}

}  // namespace

UpdatePlan UpdatePlan::from_json(std::string_view text) {
  const internal::JsonDocument document("the update plan", text, kLimits);
  if (document.root().kind() != Kind::kList) document.root().fail("an update plan has to be a list of entries");
  std::vector<UpdateEntry> entries;
  for (const JsonValue& entry : document.root().items()) entries.push_back(read_entry(entry));
  return UpdatePlan(std::move(entries));
}

}  // namespace slipway
