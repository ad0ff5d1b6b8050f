// The tapes that captured work is replayed from: one with everything in the order of the capture, and for forks one for
// each stream, which wait for each other.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/replay_program.h"
#include "graph/definition.h"

namespace slipway::internal {

// The whole of it, or the work of one branch.
TapeLayout lay_out(const DefinitionImpl& definition, std::optional<std::uint32_t> branch);

// "values", or the operation's name.
const std::string& name_of_gate(const DefinitionImpl& definition, std::uint32_t gate);

}  // namespace slipway::internal
