// A graph as a file: everything that replaying it needs, so that a report of a bug is one file, and read back on any
// device.
//
// The file is JSON: kernels by name and signature, memory blocks by number and size (with their contents when asked),
// parameters and operations with their values, and the nodes in the order of the capture. It holds no addresses of the
// process that wrote it, except those in memory that Slipway did not know. Reading captures all of it again, through
// the checks that any capture passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipway/device.h"
#include "slipway/export.h"
#include "slipway/graph.h"
#include "slipway/operations.h"

namespace slipway {

// What this library writes. It reads files of this format and older ones, and refuses newer ones.
constexpr int kSavedGraphFormat = 1;

// With a stream, the contents of the memory are saved too: it is waited for, and memory that was freed is StaleAddress.
// Random numbers are those that the next step would draw, and stay the same in each step of what is loaded.
SLIPWAY_API std::string save_graph(const GraphDefinition& definition, const Stream& contents_by = {});
// The same with a step's values in place of the initial ones, as in a report of what went wrong with them. Runs the
// operations; what one that refuses the values gives is what it gave in the capture. InvalidNode for another graph's.
SLIPWAY_API std::string save_graph(const GraphDefinition& definition, const StepValues& values,
                                   const Stream& contents_by = {});

struct LoadOptions {
  std::vector<Module> modules{};  // where kernels are looked for by name, in this order. A device that runs no
                                  // kernels (null) needs none
  const OperationRegistry* operations = nullptr;  // what operations and external operations do, by name
  // Operations that are not registered give what they gave when the graph was saved; external operations and host
  // functions that are not (host functions never are) do nothing. Else they are refused by name.
  bool stand_ins = false;
  // Memory by the number of its block in the file, to be used instead of new memory; empty handles and blocks beyond
  // the end are allocated and belong to the graph. Each at least as large as the file says.
  std::vector<Memory> memory{};
  // Where addresses that Slipway did not know lie now. A device that runs no kernels takes any.
  std::vector<std::pair<std::uint64_t, DevicePtr>> addresses{};
  std::uint64_t max_memory_bytes = std::uint64_t{1} << 30;  // of all that is allocated; OutOfMemory above
};

struct LoadedGraph {
  GraphDefinition definition;
  std::vector<Memory> memory;      // by number of the block
  std::string made_by;             // "slipway 0.1.0"
  std::string device;              // the URI of the device that it was captured on
  std::vector<std::string> notes;  // what stands in for what
};

// Throws InvalidArgument with line and column for text that is no saved graph, Unsupported for a newer format, and what
// capturing its nodes throws, naming the node.
SLIPWAY_API LoadedGraph load_graph(const Device& device, std::string_view text, const LoadOptions& options = {});

}  // namespace slipway
