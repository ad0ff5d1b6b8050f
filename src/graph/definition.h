// The structure of a graph, as a capture leaves it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "device/device_impl.h"
#include "engine/replay_program.h"
#include "record/tape.h"
#include "slipway/graph.h"

namespace slipway::internal {

// A parameter or an operation's output. Its value has a place in a step's block; gate says when it is there.
struct Variable {
  std::string name;
  ArgKind kind = ArgKind::kI32;
  bool is_grid = false;
  std::uint32_t size = 0;
  std::uint32_t offset = 0;  // in the block; parameters come first
  std::uint32_t gate = 0;    // 0: parameters; 1 + i: operation i
};

struct OperationDefinition {
  std::string name;
  std::vector<std::uint32_t> inputs;  // variables
  std::vector<std::uint32_t> outputs;
  OperationFunction function;
};

struct NodeDefinition {
  std::string kind;  // "launch", "copy", "mark", ...
  std::string name;
  std::string stream;
  std::string detail;                // grid, bytes
  std::vector<std::uint32_t> after;  // nodes that it depends on
  std::vector<std::uint32_t> reads;  // variables
};

// What the records of a tape point to. Refers to no device, so that the device's retire list may hold it.
struct TapeResources {
  TapeResources() = default;
  ~TapeResources() {
    for (void* block : staging) std::free(block);
  }
  TapeResources(const TapeResources&) = delete;
  TapeResources& operator=(const TapeResources&) = delete;

  std::vector<std::shared_ptr<const KernelCode>> kernels;
  std::vector<std::unique_ptr<HostFunction>> host_functions;
  std::vector<void*> staging;  // sources of copies, freed with free()
};

struct DefinitionImpl {
  DefinitionImpl() = default;
  ~DefinitionImpl();
  DefinitionImpl(const DefinitionImpl&) = delete;
  DefinitionImpl& operator=(const DefinitionImpl&) = delete;

  std::shared_ptr<DeviceImpl> device;
  std::uint32_t generation = 0;
  std::uint32_t capture_id = 0;
  std::string name;
  Tape tape;
  std::vector<NodeDefinition> nodes;
  std::vector<UpdateGroup> groups;
  std::vector<PatchPlace> patches;
  std::vector<Variable> variables;
  std::vector<OperationDefinition> operations;
  std::uint32_t block_bytes = 0;
  std::vector<std::byte> initial_block;
  std::shared_ptr<TapeResources> resources = std::make_shared<TapeResources>();
};

// Runs one operation on a block of values. Throws what its function throws.
void evaluate(const DefinitionImpl& definition, const OperationDefinition& operation, std::byte* block);

}  // namespace slipway::internal
