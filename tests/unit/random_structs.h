// What random_structs.py asks the compiler.
#pragma once

#include <cstddef>
#include <span>

namespace slipway::internal {

struct RandomStruct {
  const char* signature;
  bool control_address;
  bool simt_only;
  std::span<const std::size_t> plain;  // offsets of the arguments alone
  std::size_t plain_size;
  std::span<const std::size_t> ascend;  // of the arguments as an Ascend kernel finds them
  std::size_t ascend_grid;
  std::size_t ascend_size;
};

std::span<const RandomStruct> random_structs();

}  // namespace slipway::internal
