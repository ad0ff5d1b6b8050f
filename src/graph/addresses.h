// The memory that a graph's work refers to. It is watched, not kept: a replay whose memory was freed is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_impl.h"

namespace slipway::internal {

class WatchedAddresses {
 public:
  explicit WatchedAddresses(std::shared_ptr<DeviceImpl> device) : device_(std::move(device)) {}
  ~WatchedAddresses();
  WatchedAddresses(const WatchedAddresses&) = delete;
  WatchedAddresses& operator=(const WatchedAddresses&) = delete;

  // While it is captured: `where` refers to this address ("argument 2 of kernel 'add'").
  void add(std::uint64_t address, const std::string& where);
  // Work that is in this block (id 0: in none that is known), also when it was freed: then it stays stale, whatever
  // lies there now.
  void inherit(std::uint64_t address, const AddressMap::Block& block, const std::string& where);
  // StaleAddress when a block was freed since. One comparison while nothing was freed on the device that any graph
  // refers to.
  Status check(std::uint64_t& seen, const std::string& graph) const {
    if (device_->addresses().freed_watched() == seen) [[likely]]
      return {};
    return look(seen, graph);
  }

  // Addresses in no memory that Slipway knows, where they are used: nobody notices when they are freed.
  const std::vector<std::string>& unwatched() const noexcept { return unwatched_; }
  struct Block {
    AddressMap::Block block;
    std::string where;  // the first place that refers to it
  };
  const std::vector<Block>& blocks() const noexcept { return blocks_; }
  // The one that holds the address, the last where memory was freed and its place given out again; null where none is
  // known.
  const Block* holder_of(std::uint64_t address) const noexcept;

 private:
  Status look(std::uint64_t& seen, const std::string& graph) const;

  std::shared_ptr<DeviceImpl> device_;
  std::vector<Block> blocks_;
  std::vector<std::string> unwatched_;
};

}  // namespace slipway::internal
