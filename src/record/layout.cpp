#include "record/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/hex.h"

namespace slipway::internal {
namespace {

std::string place_of(const std::string& kernel, std::size_t index) {
  return "argument " + std::to_string(index) + " of kernel '" + kernel + "'";
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

struct IntegerLimits {
  std::int64_t min;
  std::uint64_t max;
};

IntegerLimits limits_of(ArgKind kind) noexcept {
  switch (kind) {
    case ArgKind::kI8: return {INT8_MIN, INT8_MAX};
    case ArgKind::kI16: return {INT16_MIN, INT16_MAX};
    case ArgKind::kI32: return {INT32_MIN, INT32_MAX};
    case ArgKind::kI64: return {INT64_MIN, INT64_MAX};
    case ArgKind::kU8: return {0, UINT8_MAX};
    case ArgKind::kU16: return {0, UINT16_MAX};
    case ArgKind::kU32: return {0, UINT32_MAX};
    default: return {0, UINT64_MAX};
  }
}

bool is_integer(ArgKind kind) noexcept { return kind >= ArgKind::kI8 && kind <= ArgKind::kU64; }

const char* category_name(Argument::Category category) noexcept {
  switch (category) {
    case Argument::Category::kTensor: return "a tensor";
    case Argument::Category::kSigned:
    case Argument::Category::kUnsigned: return "an integer";
    case Argument::Category::kFloat: return "a float";
    case Argument::Category::kHalf: return "an f16";
    case Argument::Category::kBFloat16: return "a bf16";
    case Argument::Category::kBool: return "a bool";
    case Argument::Category::kBytes: return "bytes";
    case Argument::Category::kParameter: return "a graph's parameter";
  }
  return "something unknown";
}

Status wrong_category(const std::string& kernel, std::size_t index, const Parameter& p, const Argument& a) {
  return {ErrorCode::kInvalidArgument, place_of(kernel, index) + " is " + category_name(a.category()) +
                                           ", but the signature says " + name_of(p.kind) +
                                           "; pass a value of that kind"};
}

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void put(std::byte* place, T value) noexcept {
  std::memcpy(place, &value, sizeof value);
}

Status pack_integer(const std::string& kernel, std::size_t index, const Parameter& p, const Argument& a,
                    std::byte* place) {
  const bool is_signed = a.category() == Argument::Category::kSigned;
  if (!is_signed && a.category() != Argument::Category::kUnsigned) return wrong_category(kernel, index, p, a);
  const IntegerLimits limits = limits_of(p.kind);
  const bool negative = is_signed && a.as_signed() < 0;
  const bool fits = negative ? a.as_signed() >= limits.min : a.as_unsigned() <= limits.max;
  if (!fits) {
    const std::string value = is_signed ? std::to_string(a.as_signed()) : std::to_string(a.as_unsigned());
    return {ErrorCode::kInvalidArgument, place_of(kernel, index) + " is " + value + ", which does not fit " +
                                             name_of(p.kind) + " (" + std::to_string(limits.min) + " to " +
                                             std::to_string(limits.max) +
                                             "); use a kernel with a wider parameter or a smaller value"};
  }
  const std::uint64_t bits = a.as_unsigned();
  switch (p.kind) {
    case ArgKind::kI8:
    case ArgKind::kU8: put(place, static_cast<std::uint8_t>(bits)); break;
    case ArgKind::kI16:
    case ArgKind::kU16: put(place, static_cast<std::uint16_t>(bits)); break;
    case ArgKind::kI32:
    case ArgKind::kU32: put(place, static_cast<std::uint32_t>(bits)); break;
    default: put(place, bits); break;
  }
  return {};
}

Status pack_float(const std::string& kernel, std::size_t index, const Parameter& p, const Argument& a,
                  std::byte* place) {
  if (p.kind == ArgKind::kF16 && a.category() == Argument::Category::kHalf) {
    put(place, static_cast<std::uint16_t>(a.as_unsigned()));
    return {};
  }
  if (p.kind == ArgKind::kBF16 && a.category() == Argument::Category::kBFloat16) {
    put(place, static_cast<std::uint16_t>(a.as_unsigned()));
    return {};
  }
  double value = a.as_double();
  if (a.category() == Argument::Category::kHalf) value = Half{static_cast<std::uint16_t>(a.as_unsigned())}.value();
  else if (a.category() == Argument::Category::kBFloat16)
    value = BFloat16{static_cast<std::uint16_t>(a.as_unsigned())}.value();
  else if (a.category() != Argument::Category::kFloat) return wrong_category(kernel, index, p, a);

  double stored = value;
  switch (p.kind) {
    case ArgKind::kF16: {
      const Half h = Half::from(value);
      stored = h.value();
      put(place, h.bits);
      break;
    }
    case ArgKind::kBF16: {
      const BFloat16 b = BFloat16::from(value);
      stored = b.value();
      put(place, b.bits);
      break;
    }
    case ArgKind::kF32: {
      const float f = static_cast<float>(value);
      stored = static_cast<double>(f);
      put(place, f);
      break;
    }
    default: put(place, value); break;
  }
  if (std::isinf(stored) && !std::isinf(value)) {
    return {ErrorCode::kInvalidArgument, place_of(kernel, index) + " is " + number(value) +
                                             ", which is beyond the largest finite " + name_of(p.kind) +
                                             "; scale it or use a wider parameter"};
  }
  return {};
}

}  // namespace

std::uint32_t size_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept {
  switch (parameter.kind) {
    case ArgKind::kTensor:
    case ArgKind::kI64:
    case ArgKind::kU64:
    case ArgKind::kF64: return 8;
    case ArgKind::kI32:
    case ArgKind::kU32:
    case ArgKind::kF32: return 4;
    case ArgKind::kI16:
    case ArgKind::kU16:
    case ArgKind::kF16:
    case ArgKind::kBF16: return 2;
    case ArgKind::kI8:
    case ArgKind::kU8: return 1;
    case ArgKind::kBool: return abi.bool_bytes;
    case ArgKind::kBytes: return parameter.size_bytes;
  }
  return 0;
}

std::uint32_t alignment_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept {
  return parameter.kind == ArgKind::kBytes ? parameter.align_bytes : size_of(parameter, abi);
}

Result<ArgumentLayout> compute_layout(const Signature& signature, const AbiDescriptor& abi, std::uint32_t limit_bytes,
                                      std::uint64_t control_address) {
  if (abi.control_address && control_address == 0) {
    return Status(ErrorCode::kUnavailable, std::string("kernels of the ABI '") + abi.name +
                                               "' take a control address of the device, and it gave the null address; "
                                               "open the device again, or use one that has it");
  }
  limit_bytes = std::min(limit_bytes, abi.limit_bytes);
  ArgumentLayout layout;
  layout.control_address = abi.control_address ? control_address : 0;
  layout.has_grid_words = abi.grid_words;
  layout.zero_filled = abi.zero_filled;
  std::uint64_t at = abi.hidden_bytes();
  std::uint32_t largest = std::max(abi.tail_alignment, at > 0 ? 8U : 1U);
  const auto place = [&](std::uint32_t size, std::uint32_t alignment) {
    at = (at + alignment - 1) / alignment * alignment;
    largest = std::max(largest, alignment);
    const std::uint64_t offset = at;
    at += size;
    return static_cast<std::uint32_t>(offset);
  };
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const Parameter& p = signature[i];
    const std::string where = "parameter " + std::to_string(i);
    if (p.kind > ArgKind::kBytes) {
      return Status(ErrorCode::kInvalidArgument,
                    where + " has the unknown kind " + std::to_string(static_cast<int>(p.kind)) +
                        "; the known kinds are tensor, i8 to u64, f16, bf16, f32, f64, bool and bytes");
    }
    if (!std::has_single_bit(p.pointer_alignment) || !std::has_single_bit(p.align_bytes) || p.align_bytes > 64) {
      return Status(ErrorCode::kInvalidArgument,
                    where + " asks for an alignment of " +
                        std::to_string(std::has_single_bit(p.pointer_alignment) ? p.align_bytes : p.pointer_alignment) +
                        " bytes; alignments are powers of two, at most 64 for bytes");
    }
    if (p.kind == ArgKind::kBytes && (p.size_bytes == 0 || p.size_bytes > kMaxBytesParameter)) {
      return Status(ErrorCode::kInvalidArgument, where + " has " + std::to_string(p.size_bytes) +
                                                     " bytes; a bytes parameter has 1 to " +
                                                     std::to_string(kMaxBytesParameter));
    }
    if (p.min_value > p.max_value) {
      return Status(ErrorCode::kInvalidArgument, where + " has the empty range " + std::to_string(p.min_value) + ".." +
                                                     std::to_string(p.max_value) + "; give the smaller bound first");
    }
    const std::uint32_t size = size_of(p, abi);
    layout.slots.push_back({p.kind, place(size, alignment_of(p, abi)), size});
    if (at > limit_bytes) {
      return Status(ErrorCode::kInvalidArgument, "the packed arguments reach " + std::to_string(at) + " bytes at " +
                                                     where + ", and the limit is " + std::to_string(limit_bytes) +
                                                     "; pass large values through a tensor");
    }
  }
  if (abi.grid_words) {
    layout.grid_offset = place(4, 4);
    at += 8;
  }
  if (abi.tail_alignment > 0) at = (at + largest - 1) / largest * largest;
  if (at > limit_bytes) {
    return Status(ErrorCode::kInvalidArgument, "the packed arguments have " + std::to_string(at) +
                                                   " bytes with what the device adds to them, and the limit is " +
                                                   std::to_string(limit_bytes) +
                                                   "; pass large values through a tensor");
  }
  layout.size_bytes = static_cast<std::uint32_t>(at);
  return layout;
}

void write_frame(const ArgumentLayout& layout, const Dim3& grid, std::byte* arguments) noexcept {
  if (layout.control_address != 0) put(arguments, layout.control_address);
  if (layout.has_grid_words) std::memcpy(arguments + layout.grid_offset, &grid, sizeof grid);
}

GuardMiss check_specialisation(const Parameter& p, const Argument& a) noexcept {
  if (p.kind == ArgKind::kTensor) {
    if ((a.as_unsigned() & (p.pointer_alignment - 1)) != 0) return GuardMiss::kAlignment;
    const bool both_known = p.dtype != DType::kUnknown && a.dtype() != DType::kUnknown;
    return both_known && p.dtype != a.dtype() ? GuardMiss::kDtype : GuardMiss::kNone;
  }
  if (!is_integer(p.kind)) return GuardMiss::kNone;
  if (a.category() == Argument::Category::kUnsigned && a.as_unsigned() > INT64_MAX) {
    return p.max_value == INT64_MAX ? GuardMiss::kNone : GuardMiss::kRange;
  }
  return a.as_signed() < p.min_value || a.as_signed() > p.max_value ? GuardMiss::kRange : GuardMiss::kNone;
}

Status specialisation_error(const std::string& kernel, std::size_t index, const Parameter& p, const Argument& a,
                            GuardMiss miss) {
  const std::string where = place_of(kernel, index);
  switch (miss) {
    case GuardMiss::kAlignment:
      return {ErrorCode::kInvalidArgument, where + " is the address " + hex(a.as_unsigned()) +
                                               ", and the kernel was specialised for a multiple of " +
                                               std::to_string(p.pointer_alignment) +
                                               "; give the plan a fallback kernel or align the tensor"};
    case GuardMiss::kRange: {
      const bool is_signed = a.category() == Argument::Category::kSigned;
      return {ErrorCode::kInvalidArgument,
              where + " is " + (is_signed ? std::to_string(a.as_signed()) : std::to_string(a.as_unsigned())) +
                  ", and the kernel was specialised for " + std::to_string(p.min_value) + " to " +
                  std::to_string(p.max_value) + "; give the plan a fallback kernel for other values"};
    }
    case GuardMiss::kDtype:
      return {ErrorCode::kInvalidArgument, where + " is a tensor of " + name_of(a.dtype()) + ", and the kernel reads " +
                                               name_of(p.dtype) + "; convert it or use a kernel for that type"};
    case GuardMiss::kNone: break;
  }
  return {};
}

Status pack_argument(const std::string& kernel, std::size_t index, const Parameter& p, std::uint32_t slot_bytes,
                     const Argument& a, std::byte* place) {
  switch (p.kind) {
    case ArgKind::kTensor:
      if (a.category() != Argument::Category::kTensor) return wrong_category(kernel, index, p, a);
      put(place, a.as_unsigned());
      return {};
    case ArgKind::kBool:
      if (a.category() != Argument::Category::kBool) return wrong_category(kernel, index, p, a);
      std::memset(place, 0, slot_bytes);
      put(place, static_cast<std::uint8_t>(a.as_unsigned()));
      return {};
    case ArgKind::kBytes:
      if (a.category() != Argument::Category::kBytes) return wrong_category(kernel, index, p, a);
      if (a.size_bytes() != p.size_bytes || a.align_bytes() > p.align_bytes) {
        return {ErrorCode::kInvalidArgument, place_of(kernel, index) + " has " + std::to_string(a.size_bytes()) +
                                                 " bytes aligned to " + std::to_string(a.align_bytes()) +
                                                 ", but the signature says bytes(" + std::to_string(p.size_bytes) +
                                                 "," + std::to_string(p.align_bytes) + "); pass exactly those"};
      }
      if (a.data() == nullptr) {
        return {ErrorCode::kInvalidArgument,
                place_of(kernel, index) + " points to no bytes; pass the address of the struct"};
      }
      std::memcpy(place, a.data(), p.size_bytes);
      return {};
    case ArgKind::kF16:
    case ArgKind::kBF16:
    case ArgKind::kF32:
    case ArgKind::kF64: return pack_float(kernel, index, p, a, place);
    default: return pack_integer(kernel, index, p, a, place);
  }
}

Argument unpack_argument(const Parameter& p, const std::byte* at) {
  switch (p.kind) {
    case ArgKind::kTensor: return DevicePtr{load<std::uint64_t>(at)};
    case ArgKind::kI8: return load<std::int8_t>(at);
    case ArgKind::kI16: return load<std::int16_t>(at);
    case ArgKind::kI32: return load<std::int32_t>(at);
    case ArgKind::kI64: return load<std::int64_t>(at);
    case ArgKind::kU8: return load<std::uint8_t>(at);
    case ArgKind::kU16: return load<std::uint16_t>(at);
    case ArgKind::kU32: return load<std::uint32_t>(at);
    case ArgKind::kU64: return load<std::uint64_t>(at);
    case ArgKind::kF16: return load<Half>(at);
    case ArgKind::kBF16: return load<BFloat16>(at);
    case ArgKind::kF32: return load<float>(at);
    case ArgKind::kF64: return load<double>(at);
    case ArgKind::kBool: return load<bool>(at);
    case ArgKind::kBytes: break;
  }
  return Argument::bytes(at, p.size_bytes, p.align_bytes);
}

}  // namespace slipway::internal
