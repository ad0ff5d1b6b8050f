#include "slipway/operations.h"

#include <utility>

#include "graph/graph_access.h"
#include "slipway/error.h"

namespace slipway {
namespace {

template <class Map>
auto find_by_name(const Map& map, std::string_view name) -> decltype(&map.begin()->second) {
  auto it = map.find(name);
  const std::size_t slash = name.rfind('/');
  if (it == map.end() && slash != std::string_view::npos) it = map.find(name.substr(slash + 1));
  return it == map.end() ? nullptr : &it->second;
}

void check_name(const std::string& name, bool complete, const char* what) {
  if (name.empty()) throw Error(ErrorCode::kInvalidArgument, "an operation was registered without a name; give it one");
  if (!complete)
    throw Error(ErrorCode::kInvalidArgument, "the operation '" + name + "' was registered without " + what);
}

}  // namespace

bool OperationRegistry::add(const std::string& name, OperationHandler handler) {
  check_name(name, handler.prepare && handler.update, "a function for its outputs or for their values; give both");
  return !handlers_.insert_or_assign(name, std::move(handler)).second;
}

bool OperationRegistry::add_external(const std::string& name, ExternalFunction function) {
  check_name(name, function != nullptr, "something to call");
  return !externals_.insert_or_assign(name, std::move(function)).second;
}

std::optional<Operation> OperationRegistry::declare(Capture& capture, const std::string& name,
                                                    std::span<const ParameterRef> inputs) const {
  const OperationHandler* handler = find(name);
  if (!handler || (handler->should_handle && !handler->should_handle(inputs))) return std::nullopt;
  const std::vector<OutputSpec> outputs = handler->prepare(inputs);
  return internal::GraphAccess::operation(capture, name, inputs, outputs, handler->update);
}

const OperationHandler* OperationRegistry::find(std::string_view name) const { return find_by_name(handlers_, name); }
const ExternalFunction* OperationRegistry::find_external(std::string_view name) const {
  return find_by_name(externals_, name);
}

}  // namespace slipway
