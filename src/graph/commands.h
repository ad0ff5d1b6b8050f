// The commands of the process, by name.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "slipway/command.h"

namespace slipway::internal {

// The function of this name, or null.
std::shared_ptr<const OpaqueFunction> find_opaque(const std::string& name);
std::shared_ptr<const ExternalFunction> find_external(const std::string& name);

// What a tape calls for an opaque command. The payload is the tape's.
std::function<void(void*, const std::byte*)> bind_opaque(std::shared_ptr<const OpaqueFunction> function,
                                                         std::span<const std::byte> payload);
// InvalidArgument: what is registered instead of `name`.
[[noreturn]] void throw_unregistered(const char* what, const std::string& name);

}  // namespace slipway::internal
