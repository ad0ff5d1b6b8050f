// The kernels that a saved graph names.
#pragma once

#include <string>
#include <vector>

#include "graph/json_reader.h"
#include "slipway/device.h"

namespace slipway::internal {

// For a device that runs none: one of each name.
Module any_kernels(const Device& device, const std::vector<JsonValue>& kernels,
                   const std::vector<Signature>& signatures);
// In the first module that has it. Throws InvalidArgument when none has.
Kernel find_kernel(const std::vector<Module>& modules, const std::string& name, const Signature& signature);

}  // namespace slipway::internal
