// Which addresses belong to memory that Slipway knows, so that a copy cannot run past a block's end, and a graph
// notices that memory which it refers to was freed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

#include "base/status.h"

namespace slipway::internal {

class AddressMap {
 public:
  struct Block {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t id;  // no other block, before or after, has it
  };

  void add(std::uint64_t address, std::uint64_t bytes);
  void remove(std::uint64_t address);
  // The block that holds this address, if any is known.
  std::optional<Block> find(std::uint64_t address) const;
  // OutOfRange when the range begins inside a known block and ends outside it, or wraps around; when
  // `known_only`, also InvalidArgument when it begins in no known block.
  Status check_range(const char* what, std::uint64_t address, std::uint64_t bytes, bool known_only) const;

  // The block that holds this address, if any is known, is now watched: freeing it counts in freed_watched().
  std::optional<Block> watch(std::uint64_t address);
  void unwatch(const Block& block);
  bool lives(const Block& block) const;
  // Raised (release) by remove() before the free returns; read here (acquire) by launches of graphs, which then look
  // under the mutex.
  std::uint64_t freed_watched() const noexcept { return freed_watched_.load(std::memory_order_acquire); }

 private:
  struct Known {
    std::uint64_t bytes;
    std::uint64_t id;
    unsigned watchers = 0;
  };
  using Blocks = std::map<std::uint64_t, Known>;
  Blocks::const_iterator holder_of(std::uint64_t address) const;

  mutable std::shared_mutex mutex_;
  Blocks blocks_;
  std::uint64_t last_id_ = 0;
  std::atomic<std::uint64_t> freed_watched_{0};
};

}  // namespace slipway::internal
