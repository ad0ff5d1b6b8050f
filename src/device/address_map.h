// Which addresses belong to memory that Slipway knows, so that a copy cannot run past a block's end.
#pragma once

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
  };

  void add(std::uint64_t address, std::uint64_t bytes);
  void remove(std::uint64_t address);
  // The block that holds this address, if any is known.
  std::optional<Block> find(std::uint64_t address) const;
  // OutOfRange when the range begins inside a known block and ends outside it, or wraps around; when
  // `known_only`, also InvalidArgument when it begins in no known block.
  Status check_range(const char* what, std::uint64_t address, std::uint64_t bytes, bool known_only) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> blocks_;
};

}  // namespace slipway::internal
