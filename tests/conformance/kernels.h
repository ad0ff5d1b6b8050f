// The standard kernels, as C++ functions and as OpenCL C source that does the same.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "slipway/signature.h"

namespace slipway::conformance {

struct Point {
  float x;
  std::int32_t n;
  double w;
};

struct Wide {  // with one tensor, 4 KiB of arguments
  static constexpr std::uint32_t kWords = 1022;
  std::uint32_t words[kWords];
};

//   add(out, in, n, c)      out[i] = in[i] + c, with any grid and block in x
//   put_<kind>(out, v)      out[0] = v
//   six(a, b, c, d, out, e) i32, f16, f32, i64, u64*, bf16: their bits into out[0..4]
//   kinds(out, ...)         one parameter of each kind: their bits, see kernels.cpp
//   point(out, p)           a struct by value: the bits of its three members
//   wide(out, w)            the sum of i * words[i]
//   count(cnt)              one atomic +1 per block
//   log_id(buf, id)         buf[++buf[0]] = id
//   index(out)              nine words per block: index, grid, block size
//   scratch(out, n, seed)   per block: n words of scratch written and added up
std::span<const KernelDef> standard_kernels();
const KernelDef& standard_kernel(std::string_view name);  // must exist
Signature signature_of(const KernelDef& def);

}  // namespace slipway::conformance
