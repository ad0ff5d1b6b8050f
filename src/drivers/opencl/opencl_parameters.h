// What an OpenCL kernel says about its parameters, and how that compares with a signature.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "drivers/opencl/opencl_symbols.h"
#include "slipway/signature.h"

namespace slipway::internal {

struct ClParameter {
  std::string type;  // as OpenCL C spells it, "float*"; empty: the implementation does not tell
  bool is_local = false;
  std::optional<Parameter> parameter;  // none: a type that has no kind of its own (structs, images, ...)
};

// All parameters in order. Where the implementation tells nothing about them, their types are empty.
Result<std::vector<ClParameter>> read_parameters(const ClSymbols& cl, cl_kernel kernel, const std::string& name);

// The signature of these parameters (the __local one left out already); InvalidArgument where one must be given.
Result<Signature> derive_signature(const std::string& name, const std::vector<ClParameter>& parameters);

// Do the kinds that were given fit the code? Passes what the code does not tell.
Status check_signature(const std::string& name, const Signature& given, const std::vector<ClParameter>& parameters);

}  // namespace slipway::internal
