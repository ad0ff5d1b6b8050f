// Kernels that were compiled into the program, for devices that run them in this process.
#pragma once

#include <memory>
#include <span>

#include "device/driver.h"

namespace slipway::internal {

Result<std::unique_ptr<DriverModule>> load_kernel_table(std::span<const KernelDef> kernels);

}  // namespace slipway::internal
