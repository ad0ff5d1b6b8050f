#include "drivers/opencl/opencl_memory.h"

#include <atomic>
#include <mutex>

#include "base/hex.h"

namespace slipway::internal {
namespace {

constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 40;
constexpr std::uint64_t kPage = 4096;
// Sub-buffers kept per block; one more and they are made anew.
constexpr std::size_t kKeptSubBuffers = 256;

std::uint64_t next_address(std::uint64_t bytes) noexcept {
  static std::atomic<std::uint64_t> next{kFirstAddress};
  const std::uint64_t room = (bytes + kPage - 1) / kPage * kPage + kPage;
  return next.fetch_add(room, std::memory_order_relaxed);
}

void* to_pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }

}  // namespace

OpenClMemory::OpenClMemory(const ClSymbols& cl, cl_context context, ClMemoryMode mode, std::uint64_t max_block_bytes,
                           std::uint32_t base_alignment) noexcept
    : cl_(cl), context_(context), mode_(mode), max_block_bytes_(max_block_bytes), base_alignment_(base_alignment) {}

OpenClMemory::~OpenClMemory() {
  while (!blocks_.empty()) release(DevicePtr{blocks_.begin()->first});
}

Result<DevicePtr> OpenClMemory::allocate(std::uint64_t bytes) {
  const std::string what = "memory of " + std::to_string(bytes) + " bytes could not be allocated";
  if (bytes > max_block_bytes_) {
    return Status(ErrorCode::kOutOfMemory, what + ": the device allows at most " + std::to_string(max_block_bytes_) +
                                               " bytes in one block; split it");
  }
  Block block{bytes, true, {}, {}};
  std::uint64_t address = 0;
  if (mode_ == ClMemoryMode::kSvm) {
    void* memory = cl_.clSVMAlloc(context_, kClMemReadWrite, bytes, 0);
    if (!memory) {
      return Status(ErrorCode::kOutOfMemory, what + ": clSVMAlloc gave none; free memory or ask for less of it");
    }
    address = reinterpret_cast<std::uint64_t>(memory);
  } else {
    cl_int code = kClSuccess;
    const cl_mem buffer = cl_.clCreateBuffer(context_, kClMemReadWrite, bytes, nullptr, &code);
    if (code != kClSuccess) return cl_error(code, "clCreateBuffer", what);
    block.buffer = ClMem(cl_, buffer);
    address = next_address(bytes);
  }
  const std::lock_guard lock(mutex_);
  blocks_.emplace(address, std::move(block));
  return DevicePtr{address};
}

Status OpenClMemory::adopt(DevicePtr address, std::uint64_t bytes) {
  if (mode_ == ClMemoryMode::kBuffer) {
    return {ErrorCode::kUnsupported,
            "memory of another owner cannot be adopted with memory=buffer, where addresses are the driver's own "
            "numbers; open the device with memory=svm"};
  }
  const std::lock_guard lock(mutex_);
  blocks_.emplace(static_cast<std::uint64_t>(address), Block{bytes, false, {}, {}});
  return {};
}

bool OpenClMemory::release(DevicePtr address) {
  std::map<std::uint64_t, Block>::node_type node;
  {
    const std::lock_guard lock(mutex_);
    node = blocks_.extract(static_cast<std::uint64_t>(address));
  }
  if (node.empty()) return false;
  node.mapped().sub_buffers.clear();
  if (node.mapped().owned && mode_ == ClMemoryMode::kSvm) cl_.clSVMFree(context_, to_pointer(node.key()));
  return true;
}

const std::pair<const std::uint64_t, OpenClMemory::Block>* OpenClMemory::find(std::uint64_t address,
                                                                              std::uint64_t bytes) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  const std::uint64_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset ? &*it : nullptr;
}

Status OpenClMemory::unknown(std::uint64_t address, std::uint64_t bytes) const {
  const std::string range = bytes == 0 ? "" : "the range of " + std::to_string(bytes) + " bytes from ";
  return {ErrorCode::kInvalidArgument,
          range + "the address " + hex(address) +
              " is in no memory of this device; pass memory that it allocated or adopted and "
              "that was not freed"};
}

Result<void*> OpenClMemory::pointer(std::uint64_t address, std::uint64_t bytes) const {
  const std::shared_lock lock(mutex_);
  if (!find(address, bytes)) return unknown(address, bytes);
  return to_pointer(address);
}

Result<OpenClMemory::Place> OpenClMemory::place(std::uint64_t address, std::uint64_t bytes) const {
  const std::shared_lock lock(mutex_);
  const auto* found = find(address, bytes);
  if (!found) return unknown(address, bytes);
  return Place{found->second.buffer.share(), address - found->first};
}

Result<ClMem> OpenClMemory::argument(std::uint64_t address) {
  std::uint64_t offset = 0;
  {
    const std::shared_lock lock(mutex_);
    const auto* found = find(address, 0);
    if (!found) return unknown(address, 0);
    offset = address - found->first;
    if (offset == 0) return found->second.buffer.share();
    if (offset == found->second.bytes) return ClMem();
    if (offset % base_alignment_ != 0) {
      return Status(ErrorCode::kUnsupported,
                    "the address " + hex(address) + " lies " + std::to_string(offset) +
                        " bytes into its memory, and with memory=buffer a tensor can only begin at multiples of " +
                        std::to_string(base_alignment_) + " there; align it or open the device with memory=svm");
    }
    const auto kept = found->second.sub_buffers.find(offset);
    if (kept != found->second.sub_buffers.end()) return kept->second.share();
  }
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(address - offset);
  if (it == blocks_.end()) return unknown(address, 0);
  Block& block = it->second;
  const auto kept = block.sub_buffers.find(offset);
  if (kept != block.sub_buffers.end()) return kept->second.share();
  const ClBufferRegion region{offset, block.bytes - offset};
  cl_int code = kClSuccess;
  const cl_mem made =
      cl_.clCreateSubBuffer(block.buffer.get(), kClMemReadWrite, kClBufferCreateTypeRegion, &region, &code);
  if (code != kClSuccess) {
    return cl_error(code, "clCreateSubBuffer", "the part of a buffer from " + hex(address) + " could not be named");
  }
  // Commands in flight keep the ones they use.
  if (block.sub_buffers.size() >= kKeptSubBuffers) block.sub_buffers.clear();
  return block.sub_buffers.emplace(offset, ClMem(cl_, made)).first->second.share();
}

}  // namespace slipway::internal
