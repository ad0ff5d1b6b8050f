// The structure of a graph, as a capture leaves it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_impl.h"
#include "engine/replay_program.h"
#include "graph/addresses.h"
#include "graph/random.h"
#include "record/tape.h"
#include "slipway/graph.h"

namespace slipway::internal {

// A parameter or an operation's output. Its value has a place in a step's block; gate says when it is there.
struct Variable {
  std::string name;
  ArgKind kind = ArgKind::kI32;
  bool is_grid = false;
  bool is_random = false;           // a place in a generator's sequence, which launching sets
  std::uint32_t scratch_bytes = 0;  // not 0: the address of as much memory, the executable's own
  std::uint32_t size = 0;
  std::uint32_t offset = 0;  // in the block; parameters come first
  std::uint32_t gate = 0;    // 0: parameters; 1 + i: operation i
};

// As what its bytes are read.
Parameter parameter_of(const Variable& v);

struct OperationDefinition {
  std::string name;
  std::uint32_t same_as = 0;          // the first application of the same operation; itself, where it is that
  std::vector<std::uint32_t> inputs;  // variables
  std::vector<std::uint32_t> outputs;
  OperationFunction function;
};

// A value that goes to an argument for which its kernel was specialised.
struct SpecialisedUse {
  std::uint32_t variable;
  Parameter parameter;
  std::string kernel;
  std::uint32_t argument;
};

// A place in a record that takes a value.
struct ValueUse {
  std::uint32_t gate;
  std::uint32_t from;  // in the block
  std::uint32_t to;    // from the record's beginning
  std::uint32_t bytes;
};

// A conditional node. Its bodies are what was captured between its entries, in order.
struct ConditionalDefinition {
  std::uint64_t address = 0;
  std::uint8_t flags = 0;  // of its record
  std::uint32_t body_count = 0;
  std::uint64_t most_turns = 0;  // of loops

  // Its record, without the distances behind it.
  ConditionRecord record() const noexcept {
    return {{sizeof(ConditionRecord), RecordKind::kCondition, flags, 0}, address, 0, body_count, 0};
  }
};

// What a capture was given, in order: records, marks on which another branch waits, and these waits; conditional nodes,
// the beginnings of their bodies, and their ends. No mark and no wait is in a body.
struct TapeEntry {
  enum class What : std::uint8_t { kRecord, kMark, kJoin, kCondition, kBody, kConditionEnd };
  What what = What::kRecord;
  std::uint32_t branch = 0;  // which of the captured streams
  std::uint32_t node = 0;
  std::uint64_t at = 0;  // in the captured records
  std::uint32_t bytes = 0;
  std::uint32_t first_use = 0;
  std::uint32_t use_count = 0;
  std::uint32_t mark = 0;         // of kMark and kJoin
  std::uint32_t conditional = 0;  // of the last three
};

struct NodeDefinition {
  std::string kind;  // "launch", "copy", "mark", ...
  std::string name;
  std::string stream;
  std::string detail;                // grid, bytes
  std::vector<std::uint32_t> after;  // nodes that it depends on
  std::vector<std::uint32_t> reads;  // variables
  // Where it is in a body: the node of the conditional, and which body.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t inside = kNone;
  std::uint32_t body = 0;
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
  Tape records;  // as they were captured; replayed from the following
  std::vector<TapeEntry> entries;
  std::vector<ValueUse> uses;
  std::vector<ConditionalDefinition> conditionals;
  TapeLayout serial;                 // everything, in the order of the capture
  std::vector<TapeLayout> branches;  // one for each captured stream; empty where there is only one
  std::uint32_t mark_count = 0;
  std::vector<NodeDefinition> nodes;
  std::vector<Variable> variables;
  std::vector<OperationDefinition> operations;
  std::vector<SpecialisedUse> specialised;
  std::vector<RandomSource> random;
  bool only_random = false;  // launching makes up all values that are used
  std::unique_ptr<WatchedAddresses> addresses;
  std::vector<std::shared_ptr<const DefinitionImpl>> children;  // that were cloned into it
  std::vector<std::shared_ptr<MemoryImpl>> memory;              // allocated while it was captured
  std::uint32_t block_bytes = 0;
  std::vector<std::byte> initial_block;
  std::shared_ptr<TapeResources> resources = std::make_shared<TapeResources>();

  bool takes_values() const noexcept { return !uses.empty(); }
  // Values that the caller has to give, and launching cannot make up by itself.
  bool needs_values() const noexcept { return takes_values() && !only_random; }
  std::uint32_t gate_of_mark(std::uint32_t mark) const noexcept {
    return static_cast<std::uint32_t>(operations.size()) + 1 + mark;
  }
  std::uint32_t gate_count() const noexcept { return gate_of_mark(mark_count); }
};

// Whether its branches run on streams of their own, where it is instantiated with these options (none of them kAuto).
bool runs_beside(const DefinitionImpl& definition, const InstantiateOptions& options);
GraphBudget budget_of(const DefinitionImpl& definition, const InstantiateOptions& settled);
// OutOfMemory when the device does not have it.
void check_budget(const DefinitionImpl& definition, const GraphBudget& budget);

// Computes the outputs of one operation in a block of values; those before it are there. Takes them over from an
// earlier application with equal inputs, and returns false then. Throws what its function throws.
// `scratch` has the address for each variable; it is empty while capturing, where scratch is the null address.
bool evaluate(const DefinitionImpl& definition, std::size_t operation, std::byte* block,
              std::span<const std::uint64_t> scratch);
// What a tape calls for an external operation with these inputs.
std::function<void(void*, const std::byte*)> bind_external(std::string name, std::vector<Variable> inputs,
                                                           ExternalFunction function);
// Throws InvalidArgument when a value that this gate brings is none that its kernels were specialised for.
void check_specialised(const DefinitionImpl& definition, std::uint32_t gate, const std::byte* block);
// What an operation is given, for a sentence: " (n = 4, table = 0x...)"; nothing where it has no inputs.
std::string inputs_text(const DefinitionImpl& definition, std::size_t operation, const std::byte* block);

}  // namespace slipway::internal
