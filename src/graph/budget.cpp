// What an executable takes, told before it is made.
#include <string>

#include "device/handles.h"
#include "graph/definition.h"

namespace slipway::internal {

bool runs_beside(const DefinitionImpl& definition, const InstantiateOptions& options) {
  // A launch that blocks waits for the first branch, which waits for the others.
  return !options.serial && !definition.device->environment().blocking && !definition.branches.empty() &&
         definition.device->driver().reads_values_late() && definition.device->info().workers > 1;
}

GraphBudget budget_of(const DefinitionImpl& definition, const InstantiateOptions& settled) {
  GraphBudget budget;
  const std::uint64_t copies = settled.tier == Tier::kCut ? settled.depth : 1;
  if (runs_beside(definition, settled)) {
    for (const TapeLayout& branch : definition.branches) budget.tape_bytes += copies * branch.records.size();
    budget.streams = static_cast<unsigned>(definition.branches.size() - 1);
  } else {
    budget.tape_bytes = copies * definition.serial.records.size();
  }
  budget.block_bytes = std::uint64_t{settled.depth} * definition.block_bytes;
  for (const Variable& v : definition.variables) budget.scratch_bytes += v.scratch_bytes;
  for (const auto& memory : definition.memory) budget.memory_bytes += memory->bytes;
  budget.gates = definition.gate_count();
  return budget;
}

void check_budget(const DefinitionImpl& definition, const GraphBudget& budget) {
  const std::uint64_t total = definition.device->info().total_memory_bytes;
  if (total == 0 || budget.scratch_bytes == 0) return;  // the rest is there already, or is not the device's
  const std::uint64_t live = definition.device->counters().live_memory_bytes.load(std::memory_order_relaxed);
  const std::uint64_t left = live < total ? total - live : 0;
  if (budget.scratch_bytes <= left) return;
  throw Error(ErrorCode::kOutOfMemory, "an executable of graph '" + definition.name + "' takes " +
                                           std::to_string(budget.scratch_bytes) + " bytes of scratch, and of the " +
                                           std::to_string(total) + " bytes of '" + definition.device->info().uri +
                                           "' " + std::to_string(left) +
                                           " are not allocated; declare less scratch, or free memory");
}

}  // namespace slipway::internal
