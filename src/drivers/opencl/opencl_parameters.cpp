#include "drivers/opencl/opencl_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "drivers/opencl/opencl_context.h"
#include "record/layout.h"

namespace slipway::internal {
namespace {

struct ScalarRow {
  std::string_view type;
  ArgKind kind;
  DType dtype;
  std::uint32_t bytes;
};

constexpr std::array<ScalarRow, 15> kScalars{{
    {"char", ArgKind::kI8, DType::kI8, 1},
    {"short", ArgKind::kI16, DType::kI16, 2},
    {"int", ArgKind::kI32, DType::kI32, 4},
    {"long", ArgKind::kI64, DType::kI64, 8},
    {"uchar", ArgKind::kU8, DType::kU8, 1},
    {"ushort", ArgKind::kU16, DType::kU16, 2},
    {"uint", ArgKind::kU32, DType::kU32, 4},
    {"ulong", ArgKind::kU64, DType::kU64, 8},
    {"unsigned char", ArgKind::kU8, DType::kU8, 1},
    {"unsigned short", ArgKind::kU16, DType::kU16, 2},
    {"unsigned int", ArgKind::kU32, DType::kU32, 4},
    {"unsigned long", ArgKind::kU64, DType::kU64, 8},
    {"half", ArgKind::kF16, DType::kF16, 2},
    {"float", ArgKind::kF32, DType::kF32, 4},
    {"double", ArgKind::kF64, DType::kF64, 8},
}};

// The row of a scalar or vector type; `lanes` is 1 for scalars.
const ScalarRow* find_scalar(std::string_view type, std::uint32_t& lanes) noexcept {
  lanes = 1;
  std::size_t digits = type.size();
  while (digits > 0 && type[digits - 1] >= '0' && type[digits - 1] <= '9') --digits;
  if (digits < type.size()) {
    std::from_chars(type.data() + digits, type.data() + type.size(), lanes);
    if (lanes != 2 && lanes != 3 && lanes != 4 && lanes != 8 && lanes != 16) return nullptr;
  }
  const auto row = std::find_if(kScalars.begin(), kScalars.end(),
                                [&](const ScalarRow& s) { return s.type == type.substr(0, digits); });
  return row == kScalars.end() ? nullptr : &*row;
}

std::optional<Parameter> parameter_of(std::string_view type, cl_uint address, cl_bitfield qualifiers) noexcept {
  Parameter p;
  std::uint32_t lanes = 1;
  if (!type.empty() && type.back() == '*') {
    if (address != kClKernelArgAddressGlobal && address != kClKernelArgAddressConstant) return std::nullopt;
    type.remove_suffix(1);
    while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
    const ScalarRow* element = find_scalar(type, lanes);
    p.dtype = element ? element->dtype : DType::kUnknown;
    const bool reads_only = address == kClKernelArgAddressConstant || (qualifiers & kClKernelArgTypeConst) != 0;
    p.access = reads_only ? Access::kIn : Access::kInOut;
    return p;
  }
  const ScalarRow* scalar = find_scalar(type, lanes);
  if (!scalar) return std::nullopt;
  if (lanes == 1) {
    p.kind = scalar->kind;
    return p;
  }
  p.kind = ArgKind::kBytes;  // a vector of three takes the room of four
  p.size_bytes = scalar->bytes * (lanes == 3 ? 4 : lanes);
  p.align_bytes = std::min(p.size_bytes, std::uint32_t{64});
  return p;
}

std::string place_of(const std::string& name, std::size_t index) {
  return "parameter " + std::to_string(index) + " of kernel '" + name + "'";
}

std::string describe(const Parameter& p) { return to_string(Signature{p}); }

// Kinds without a type of their own in OpenCL C are passed as the bits of another.
bool fits(ArgKind given, ArgKind code) noexcept {
  if (given == code) return true;
  switch (given) {
    case ArgKind::kBool: return code == ArgKind::kU8 || code == ArgKind::kI8;
    case ArgKind::kF16:
    case ArgKind::kBF16: return code == ArgKind::kU16;
    default: return false;
  }
}

bool fits(DType given, DType code) noexcept {
  if (given == code || given == DType::kUnknown || code == DType::kUnknown) return true;
  switch (given) {
    case DType::kBool: return code == DType::kU8 || code == DType::kI8;
    case DType::kF16:
    case DType::kBF16: return code == DType::kU16;
    default: return false;
  }
}

}  // namespace

Result<std::vector<ClParameter>> read_parameters(const ClSymbols& cl, cl_kernel kernel, const std::string& name) {
  cl_uint count = 0;
  const cl_int code = cl.clGetKernelInfo(kernel, kClKernelNumArgs, sizeof count, &count, nullptr);
  if (code != kClSuccess) return cl_error(code, "clGetKernelInfo", "kernel '" + name + "' could not be asked");
  std::vector<ClParameter> parameters(count);
  for (cl_uint i = 0; i < count; ++i) {
    ClParameter& p = parameters[i];
    cl_uint address = 0;
    if (cl.clGetKernelArgInfo(kernel, i, kClKernelArgAddressQualifier, sizeof address, &address, nullptr) !=
        kClSuccess) {
      continue;
    }
    cl_bitfield qualifiers = 0;
    (void)cl.clGetKernelArgInfo(kernel, i, kClKernelArgTypeQualifier, sizeof qualifiers, &qualifiers, nullptr);
    p.type = cl_text([&](std::size_t size, void* value, std::size_t* needed) {
      return cl.clGetKernelArgInfo(kernel, i, kClKernelArgTypeName, size, value, needed);
    });
    p.is_local = address == kClKernelArgAddressLocal;
    p.parameter = parameter_of(p.type, address, qualifiers);
  }
  return parameters;
}

Result<Signature> derive_signature(const std::string& name, const std::vector<ClParameter>& parameters) {
  Signature signature;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ClParameter& p = parameters[i];
    if (!p.parameter) {
      return Status(ErrorCode::kInvalidArgument,
                    place_of(name, i) +
                        (p.type.empty() ? " is not described by this OpenCL implementation"
                                        : " has the type '" + p.type + "', which has no kind of its own") +
                        "; give the signature when you ask for the kernel");
    }
    signature.push_back(*p.parameter);
  }
  return signature;
}

Status check_signature(const std::string& name, const Signature& given, const std::vector<ClParameter>& parameters) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const ClParameter& p = parameters[i];
    if (p.type.empty()) continue;
    const bool is_pointer = p.type.back() == '*';
    bool good = true;
    if (p.parameter) {
      const bool both_bytes = given[i].kind == ArgKind::kBytes && p.parameter->kind == ArgKind::kBytes;
      good = fits(given[i].kind, p.parameter->kind) && fits(given[i].dtype, p.parameter->dtype) &&
             (!both_bytes || given[i].size_bytes == p.parameter->size_bytes);
    } else {
      good = !is_pointer && given[i].kind == ArgKind::kBytes;
    }
    if (good) continue;
    return {ErrorCode::kInvalidArgument,
            place_of(name, i) + " is '" + p.type + "' in the source, which does not go with '" + describe(given[i]) +
                "' in the signature; " +
                (p.parameter  ? "write '" + describe(*p.parameter) + "'"
                 : is_pointer ? "only __global and __constant pointers, and one __local at the end, can be passed"
                              : "a type without a kind of its own is passed as bytes(N,ALIGN)")};
  }
  return {};
}

}  // namespace slipway::internal
