// Argument layouts: where each argument lies in the packed bytes that a kernel reads, by the ABI of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "record/abi.h"
#include "slipway/argument.h"
#include "slipway/signature.h"

namespace slipway::internal {

constexpr std::uint32_t kMaxBytesParameter = 4096;

struct ArgumentSlot {
  ArgKind kind;
  std::uint32_t offset;
  std::uint32_t size;
};

struct ArgumentLayout {
  std::vector<ArgumentSlot> slots;    // in the order of the signature
  std::uint64_t control_address = 0;  // at 0, when the ABI has it (and then it is not null)
  bool has_grid_words = false;
  bool zero_filled = false;
  std::uint32_t grid_offset = 0;  // of the grid words
  std::uint32_t size_bytes = 0;
};

// Bytes and alignment of one argument of this kind under the ABI.
std::uint32_t size_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept;
std::uint32_t alignment_of(const Parameter& parameter, const AbiDescriptor& abi) noexcept;

// InvalidArgument when a parameter is malformed (alignment not a power of two, empty range, ...) or the
// packed size exceeds `limit_bytes` or the ABI's own limit. Unavailable when the ABI has a control address and the
// device gave none: a kernel would follow a null pointer.
Result<ArgumentLayout> compute_layout(const Signature& signature, const AbiDescriptor& abi, std::uint32_t limit_bytes,
                                      std::uint64_t control_address = 0);

// Writes what the device finds around the arguments of a launch: the hidden values in front, and the grid. All else
// was zeroed before. Every way to make a record of a launch calls it, or copies what it wrote.
void write_frame(const ArgumentLayout& layout, const Dim3& grid, std::byte* arguments) noexcept;

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
