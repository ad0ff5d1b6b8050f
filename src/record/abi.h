// What the devices' ABIs say about the packed arguments that a kernel reads.
#pragma once

#include <cstdint>
#include <limits>

#include "slipway/types.h"

namespace slipway::internal {

// The default is natural: each argument at its own alignment and nothing else. Values are packed that way until a
// device's layout takes them over: by callers of plans, and in a graph's blocks.
struct AbiDescriptor {
  const char* name = "natural";
  bool control_address = false;         // an 8-byte slot in front of everything, whose value the device gives
  std::uint32_t reserved_pointers = 0;  // 8-byte slots behind it that stay null
  std::uint32_t bool_bytes = 1;
  bool grid_words = false;           // three 32-bit grid dimensions behind the arguments
  std::uint32_t tail_alignment = 0;  // not 0: the size is a multiple of the largest alignment met, and at least of this
  bool zero_filled = false;          // bytes that are nobody's are zero, whichever way a launch took
  std::uint32_t limit_bytes = std::numeric_limits<std::uint32_t>::max();  // that the device takes; a record has its own

  constexpr std::uint32_t hidden_bytes() const noexcept { return (control_address ? 8 : 0) + 8 * reserved_pointers; }
};

inline constexpr AbiDescriptor kNaturalAbi{};

// Kernels of the cpu device read each argument by itself, so nothing is needed behind the last one.
inline constexpr AbiDescriptor kCpuAbi{.name = "cpu"};
// The driver hands the arguments over one by one.
inline constexpr AbiDescriptor kOpenClAbi{.name = "opencl"};
// A C struct with the arguments as its members: also its size.
inline constexpr AbiDescriptor kPlainAbi{.name = "plain", .tail_alignment = 1};

// The parameter buffer of a CUDA kernel: 4 KiB everywhere, 32,764 bytes from compute capability 7.0 and CUDA 12.1 on.
inline constexpr AbiDescriptor kCudaAbi{.name = "cuda", .limit_bytes = 4096};
inline constexpr AbiDescriptor kCudaLargeAbi{.name = "cuda-large", .limit_bytes = 32764};

// Ascend: a control address where the device has one, two reserved slots (lock and workspace) unless the kernel was
// built for the SIMT units alone, and the grid behind the arguments.
constexpr AbiDescriptor ascend_abi(const char* name, bool control_address, bool simt_only) noexcept {
  return {.name = name,
          .control_address = control_address,
          .reserved_pointers = simt_only ? 0U : 2U,
          .bool_bytes = 4,
          .grid_words = true,
          .tail_alignment = 4,
          .zero_filled = true};
}
inline constexpr AbiDescriptor kAscendAbi = ascend_abi("ascend", true, false);
inline constexpr AbiDescriptor kAscendSimtAbi = ascend_abi("ascend-simt", false, true);

// What a device is told that takes one number of blocks instead of a grid: their product, at most `most` (0: no limit)
// where a kernel goes through the rest by itself. Drivers ask when they execute a record, so every way to launch gets
// the same answer.
constexpr std::uint64_t block_count(const Dim3& grid, std::uint64_t most) noexcept {
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  return most != 0 && blocks > most ? most : blocks;
}

}  // namespace slipway::internal
