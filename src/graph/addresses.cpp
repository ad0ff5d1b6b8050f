#include "graph/addresses.h"

#include <algorithm>
#include <utility>

#include "base/hex.h"

namespace slipway::internal {

WatchedAddresses::~WatchedAddresses() {
  if (device_->forked()) return;
  for (const Block& b : blocks_) device_->addresses().unwatch(b.block);
}

void WatchedAddresses::add(std::uint64_t address, const std::string& where) {
  if (address == 0) return;
  const Block* const holder = holder_of(address);
  if (holder && device_->addresses().lives(holder->block)) return;
  if (const auto block = device_->addresses().watch(address)) blocks_.push_back({*block, where});
  else unwatched_.push_back(where);
}

const WatchedAddresses::Block* WatchedAddresses::holder_of(std::uint64_t address) const noexcept {
  const auto holds = [&](const Block& b) { return address - b.block.address < b.block.bytes; };
  const auto found = std::find_if(blocks_.rbegin(), blocks_.rend(), holds);
  return found == blocks_.rend() ? nullptr : &*found;
}

void WatchedAddresses::inherit(std::uint64_t address, const AddressMap::Block& block, const std::string& where) {
  if (address == 0) return;
  if (block.id == 0) {
    unwatched_.push_back(where);
    return;
  }
  const auto same = [&](const Block& b) { return b.block.id == block.id; };
  if (std::any_of(blocks_.begin(), blocks_.end(), same)) return;
  const auto now = device_->addresses().watch(block.address);
  if (now && now->id != block.id) device_->addresses().unwatch(*now);  // another block in its place
  blocks_.push_back({block, where});
}

Status WatchedAddresses::look(std::uint64_t& seen, const std::string& graph) const {
  const std::uint64_t freed = device_->addresses().freed_watched();
  for (const Block& b : blocks_) {
    if (device_->addresses().lives(b.block)) continue;
    ErrorDetails details;
    details.code = ErrorCode::kStaleAddress;
    details.name = graph;
    details.stable = true;
    details.sentence = b.where + " in graph '" + graph + "' is in a memory block of " + std::to_string(b.block.bytes) +
                       " bytes at " + hex(b.block.address) +
                       " that was freed; keep the memory as long as the graph is launched, allocate it during the "
                       "capture, or capture again";
    return Status(std::move(details));
  }
  seen = freed;
  return {};
}

}  // namespace slipway::internal
