#include "device/address_map.h"

#include <mutex>
#include <string>

#include "base/hex.h"

namespace slipway::internal {

void AddressMap::add(std::uint64_t address, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  blocks_[address] = {bytes, ++last_id_};
}

void AddressMap::remove(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return;
  if (it->second.watchers > 0) freed_watched_.fetch_add(1, std::memory_order_release);
  blocks_.erase(it);
}

AddressMap::Blocks::const_iterator AddressMap::holder_of(std::uint64_t address) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return blocks_.end();
  --it;
  return address - it->first < it->second.bytes ? it : blocks_.end();
}

std::optional<AddressMap::Block> AddressMap::find(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  const auto it = holder_of(address);
  if (it == blocks_.end()) return std::nullopt;
  return Block{it->first, it->second.bytes, it->second.id};
}

std::optional<AddressMap::Block> AddressMap::watch(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto it = holder_of(address);
  if (it == blocks_.end()) return std::nullopt;
  ++blocks_[it->first].watchers;
  return Block{it->first, it->second.bytes, it->second.id};
}

void AddressMap::unwatch(const Block& block) {
  const std::unique_lock lock(mutex_);
  const auto it = blocks_.find(block.address);
  if (it != blocks_.end() && it->second.id == block.id) --it->second.watchers;
}

bool AddressMap::lives(const Block& block) const {
  const std::shared_lock lock(mutex_);
  const auto it = blocks_.find(block.address);
  return it != blocks_.end() && it->second.id == block.id;
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
