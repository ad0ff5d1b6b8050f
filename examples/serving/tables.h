// What the host tells the device for each step. Both tables are plain structs: they travel by value as an argument
// of a small kernel, which puts them where all other kernels of the step read them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipway::serving {

// A launch has room for 4 KiB of arguments, and a table has to fit in there.
constexpr std::size_t kMaxRows = 128;
constexpr std::size_t kMaxParts = 608;

// One token that goes in: its place in its request's text, and which request's caches are its own.
struct Row {
  std::int32_t token = 0;
  std::int32_t position = 0;
  std::int32_t slot = 0;
};

// The tokens of a step. A request has as many rows as it has tokens to be computed, one after another: what it knows
// already, then what was drafted.
struct RowTable {
  std::int32_t count = 0;
  Row rows[kMaxRows];
};

// A piece of one row's attention: the keys from `begin` up to `end`.
struct Part {
  std::uint16_t row = 0;
  std::uint16_t begin = 0;
  std::uint16_t end = 0;
};

// How the attention of a step is cut into parts. Those of row r are parts[first[r]] up to parts[first[r + 1]].
struct SplitTable {
  std::int32_t count = 0;
  std::uint16_t first[kMaxRows + 1] = {};
  Part parts[kMaxParts];
};

static_assert(sizeof(RowTable) < 4000 && sizeof(SplitTable) < 4000);

}  // namespace slipway::serving
