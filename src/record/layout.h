// Argument layouts: where each argument lies in the packed bytes that a kernel reads, by the ABI of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "slipway/argument.h"
#include "slipway/signature.h"

namespace slipway::internal {

constexpr std::uint32_t kMaxBytesParameter = 4096;

// What a device's ABI says about packed arguments. The default is a C struct, which is what the CPU device and
// the OpenCL driver read.
struct AbiDescriptor {
  std::uint32_t hidden_pointers = 0;  // 8-byte slots ahead of the arguments
  std::uint32_t bool_bytes = 1;
  bool grid_words = false;     // three 32-bit grid dimensions behind the arguments
  bool round_up_tail = false;  // the size is a multiple of the largest alignment met, at least 4
};

struct ArgumentSlot {
  ArgKind kind;
  std::uint32_t offset;
  std::uint32_t size;
};

struct ArgumentLayout {
  std::vector<ArgumentSlot> slots;  // in the order of the signature
  std::uint32_t grid_offset = 0;    // where the grid words are, when the ABI has them
  std::uint32_t size_bytes = 0;
};

// Bytes and alignment of one argument of this kind under the ABI.
std::uint32_t size_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept;
std::uint32_t alignment_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept;

// InvalidArgument when a parameter is malformed (alignment not a power of two, empty range, ...) or the
// packed size exceeds `limit_bytes`.
Result<ArgumentLayout> compute_layout(const Signature& signature, const AbiDescriptor& abi, std::uint32_t limit_bytes);

// Checks one argument against its parameter and writes it. `place` is where its slot begins. The sentence of
// an error names the kernel and the argument's position.
Status pack_argument(const std::string& kernel, std::size_t index, const Parameter& parameter, std::uint32_t slot_bytes,
                     const Argument& argument, std::byte* place);

// The value at `at`, packed at its natural size, as an argument again. Bytes are not copied: it refers to them.
Argument unpack_argument(const Parameter& parameter, const std::byte* at);

// Why an argument does not pass, as guards see it. The dtype is only checked when the argument tells one.
enum class GuardMiss : std::uint8_t { kNone, kAlignment, kRange, kDtype };

// What the kernel was specialised for, checked for one argument.
GuardMiss check_specialisation(const Parameter& parameter, const Argument& argument) noexcept;
Status specialisation_error(const std::string& kernel, std::size_t index, const Parameter& parameter,
                            const Argument& argument, GuardMiss miss);

}  // namespace slipway::internal
