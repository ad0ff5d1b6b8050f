// Commands that a graph knows by name. The names are the process's: a graph that is written to a file and read in
// another program says by them what it calls, and is refused by them where nothing was registered.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "slipway/export.h"
#include "slipway/graph.h"

namespace slipway {

// What an opaque command is called with: in each replay, in its place on the stream.
struct OpaqueCall {
  void* native_stream = nullptr;         // the queue to launch on, where the device has one (OpenCL); else null
  std::span<const std::byte> payload{};  // as it was captured; aligned for any type
};
// Rules as for external operations (Capture::external): it may not call Slipway, and fails the stream by throwing.
using OpaqueFunction = std::function<void(const OpaqueCall& call)>;

// Under a name of its own, until the process ends; InvalidArgument for an empty name or function and for a name that is
// taken. Graphs keep the function that they were captured with. Any thread.
SLIPWAY_API void register_opaque(const std::string& name, OpaqueFunction function);
SLIPWAY_API void register_external(const std::string& name, ExternalFunction function);
// Sorted.
SLIPWAY_API std::vector<std::string> registered_commands();

}  // namespace slipway
