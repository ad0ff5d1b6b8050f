#include "device/address_map.h"

#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>

namespace slipway::internal {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

}  // namespace

void AddressMap::add(std::uint64_t address, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  blocks_[address] = bytes;
}

void AddressMap::remove(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  blocks_.erase(address);
}

std::optional<AddressMap::Block> AddressMap::find(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return std::nullopt;
  --it;
  if (address - it->first >= it->second) return std::nullopt;
  return Block{it->first, it->second};
}

Status AddressMap::check_range(const char* what, std::uint64_t address, std::uint64_t bytes, bool known_only) const {
  if (address == 0) {
    return {ErrorCode::kInvalidArgument, std::string(what) + " is the null address and " + std::to_string(bytes) +
                                             " bytes were asked for; pass memory of the device"};
  }
  if (address + bytes < address) {
    return {ErrorCode::kOutOfRange, std::string(what) + " at " + hex(address) + " with " + std::to_string(bytes) +
                                        " bytes runs past the end of the address space; check the size"};
  }
  const std::optional<Block> block = find(address);
  if (!block) {
    if (!known_only) return {};
    return {ErrorCode::kInvalidArgument, std::string(what) + " at " + hex(address) +
                                             " is in no memory of this device; allocate it there or adopt it"};
  }
  const std::uint64_t left = block->address + block->bytes - address;
  if (bytes <= left) return {};
  return {ErrorCode::kOutOfRange, std::string(what) + " at " + hex(address) + " takes " + std::to_string(bytes) +
                                      " bytes, but its memory block of " + std::to_string(block->bytes) + " bytes at " +
                                      hex(block->address) + " has only " + std::to_string(left) +
                                      " left; make the range shorter"};
}

}  // namespace slipway::internal
