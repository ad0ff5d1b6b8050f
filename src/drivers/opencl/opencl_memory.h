// The memory of one OpenCL context, by address.
//
// In svm mode an address is that of a clSVMAlloc block (coarse-grained: the host must not touch it). In buffer mode
// addresses are numbers that this driver hands out, unique in the process and never used twice, each standing for a
// place in a cl_mem; between blocks lie gaps, so that an address past an end is nobody's.
#pragma once

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "base/status.h"
#include "drivers/opencl/opencl_symbols.h"
#include "slipway/types.h"

namespace slipway::internal {

enum class ClMemoryMode { kSvm, kBuffer };

class OpenClMemory {
 public:
  // `base_alignment`: what a sub-buffer's offset has to be a multiple of, in bytes.
  OpenClMemory(const ClSymbols& cl, cl_context context, ClMemoryMode mode, std::uint64_t max_block_bytes,
               std::uint32_t base_alignment) noexcept;
  ~OpenClMemory();
  OpenClMemory(const OpenClMemory&) = delete;
  OpenClMemory& operator=(const OpenClMemory&) = delete;

  ClMemoryMode mode() const noexcept { return mode_; }

  Result<DevicePtr> allocate(std::uint64_t bytes);
  Status adopt(DevicePtr address, std::uint64_t bytes);
  // Frees a block, or forgets an adopted one. False: no block of this context begins there.
  bool release(DevicePtr address);

  // svm mode: the range as a pointer.
  Result<void*> pointer(std::uint64_t address, std::uint64_t bytes) const;
  // buffer mode: the range as a buffer and an offset in it.
  struct Place {
    ClMem buffer;
    std::size_t offset;
  };
  Result<Place> place(std::uint64_t address, std::uint64_t bytes) const;
  // buffer mode: everything from `address` to the end of its block as one buffer; none for an address at the very
  // end. Unsupported when the address is not a multiple of the base alignment in its block.
  Result<ClMem> argument(std::uint64_t address);

 private:
  struct Block {
    std::uint64_t bytes;
    bool owned;
    ClMem buffer;                                // buffer mode
    std::map<std::uint64_t, ClMem> sub_buffers;  // by offset
  };
  // The block in which the range lies; null: none. The caller holds mutex_.
  const std::pair<const std::uint64_t, Block>* find(std::uint64_t address, std::uint64_t bytes) const;
  Status unknown(std::uint64_t address, std::uint64_t bytes) const;

  const ClSymbols& cl_;
  cl_context context_;
  ClMemoryMode mode_;
  std::uint64_t max_block_bytes_;
  std::uint32_t base_alignment_;
  // Guards blocks_; held for look-ups and for the creation of a sub-buffer, nothing else is locked inside.
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
};

}  // namespace slipway::internal
