// Modules of the CPU device beside tables: C functions of a shared library.
#pragma once

#include <memory>
#include <string>

#include "device/driver.h"

namespace slipway::internal {

Result<std::unique_ptr<DriverModule>> load_cpu_library(const std::string& path);

// How a C function of this signature is called with packed arguments.
struct CFunctionCall {
  KernelEntry entry = nullptr;
  std::shared_ptr<const void> context;  // what entry needs; the function itself for generated trampolines
};

// A trampoline made when Slipway was compiled, when one fits; else one through libffi, when Slipway was built
// with it. Unsupported, naming the parameter, when neither does.
Result<CFunctionCall> call_of_c_function(void* function, const std::string& name, const Signature& signature,
                                         const ArgumentLayout& layout);

}  // namespace slipway::internal
