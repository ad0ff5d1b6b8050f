#include "graph/commands.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "graph/capture_impl.h"

namespace slipway {
namespace internal {
namespace {

// Looked up while capturing or reading a graph, never in a replay.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const OpaqueFunction>> opaque;
  std::map<std::string, std::shared_ptr<const ExternalFunction>> external;

  bool has(const std::string& name) const { return opaque.contains(name) || external.contains(name); }
};

// Never destroyed: a static object of the program may still hold a graph when static objects go.
Registry& registry() {
  static Registry* const the_one = new Registry;
  return *the_one;
}

template <class Function>
void add(std::map<std::string, std::shared_ptr<const Function>> Registry::*list, const std::string& name,
         Function function) {
  if (name.empty() || !function) {
    throw Error(ErrorCode::kInvalidArgument, "the command '" + name + "' was to be registered without a " +
                                                 (name.empty() ? "name" : "function") + "; give both");
  }
  auto shared = std::make_shared<const Function>(std::move(function));
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.has(name)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a command '" + name + "' is registered already, and graphs may refer to it; give each its own name");
  }
  (r.*list).emplace(name, std::move(shared));
}

template <class Function>
std::shared_ptr<const Function> find(std::map<std::string, std::shared_ptr<const Function>> Registry::*list,
                                     const std::string& name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto it = (r.*list).find(name);
  return it == (r.*list).end() ? nullptr : it->second;
}

}  // namespace

std::shared_ptr<const OpaqueFunction> find_opaque(const std::string& name) { return find(&Registry::opaque, name); }
std::shared_ptr<const ExternalFunction> find_external(const std::string& name) {
  return find(&Registry::external, name);
}

std::function<void(void*, const std::byte*)> bind_opaque(std::shared_ptr<const OpaqueFunction> function,
                                                         std::span<const std::byte> payload) {
  return [function = std::move(function), payload](void* native_stream, const std::byte*) {
    (*function)(OpaqueCall{native_stream, payload});
  };
}

void throw_unregistered(const char* what, const std::string& name) {
  std::string names;
  for (const std::string& n : registered_commands()) names += (names.empty() ? "" : ", ") + n;
  throw Error(ErrorCode::kInvalidArgument,
              std::string("no ") + what + " '" + name +
                  "' is registered in this process; there are: " + (names.empty() ? "none" : names));
}

void CaptureImpl::add_opaque(StreamImpl& stream, const std::string& name, std::span<const std::byte> payload) {
  const auto function = find_opaque(name);
  if (!function) throw_unregistered("opaque command", name);
  auto command = std::make_unique<HostFunction>();
  command->name = command->registered = name;
  command->kind = HostFunction::Kind::kOpaque;
  command->payload.assign(payload.begin(), payload.end());
  command->external = bind_opaque(function, command->payload);
  add_command(stream, std::move(command), {});
}

void CaptureImpl::add_external(StreamImpl& stream, const std::string& name, std::span<const ParameterRef> inputs,
                               ExternalFunction function, bool is_registered) {
  if (is_registered) {
    const auto found = find_external(name);
    if (!found) throw_unregistered("external operation", name);
    function = *found;
  }
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument, "the external operation '" + name + "' is empty; pass something to call");
  }
  std::vector<std::uint32_t> reads;
  std::vector<Variable> places;
  {
    const std::lock_guard lock(mutex_);
    require_valid();
    reads = inputs_of(name, inputs);
    for (const std::uint32_t read : reads) places.push_back(definition_->variables[read]);
  }
  auto command = std::make_unique<HostFunction>();
  command->name = name;
  command->kind = HostFunction::Kind::kExternal;
  if (is_registered) command->registered = name;
  command->external = bind_external(name, std::move(places), std::move(function));
  add_command(stream, std::move(command), reads);
}

void CaptureImpl::add_command(StreamImpl& stream, std::unique_ptr<HostFunction> command,
                              std::span<const std::uint32_t> reads) {
  const std::lock_guard lock(mutex_);
  require_valid();
  HostFunctionRecord record{};
  static_assert(sizeof record % kRecordAlignment == 0);
  record.header = {sizeof record, RecordKind::kHostFunction, 0, 0};
  record.payload = command.get();
  const IncompleteGuard guard(*this);
  append_locked(stream, reinterpret_cast<const std::byte*>(&record), sizeof record, command->name, {}, reads);
  (void)command.release();  // the definition's
}

}  // namespace internal

void register_opaque(const std::string& name, OpaqueFunction function) {
  internal::add(&internal::Registry::opaque, name, std::move(function));
}
void register_external(const std::string& name, ExternalFunction function) {
  internal::add(&internal::Registry::external, name, std::move(function));
}

std::vector<std::string> registered_commands() {
  internal::Registry& r = internal::registry();
  const std::lock_guard lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : r.opaque) names.push_back(name);
  for (const auto& [name, function] : r.external) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace slipway
