// The kernels of the decode step, as ordinary functions: one call runs one block of a launch.
//
// Blocks of one launch may run in any order and at the same time, and every output element is written by one
// block only. The results do not depend on how the grid is cut: each element's sum is taken in an order that
// only its own length decides. Bit equality across compilers also needs them not to fuse multiply and add
// (-ffp-contract=off where the target has such instructions). Tensors are dense float32, row-major. Outputs come
// first, then inputs, then scalars, in the same order and with the same names as in kernels_opencl.h. Extents are
// positive; positions and tokens are the caller's to check.
//
// Where a comment says "blocks of n", block b does the items from b * block.size.x up to (b + 1) * block.size.x,
// cut off at n.
#pragma once

#include <cstdint>

#include "slipway/types.h"

namespace slipway::llama::kernels {

// x[dim] = table[token, :]; blocks of dim.
void embed(const Block& block, float* x, const float* table, std::int32_t token, std::int32_t dim);

// out[dim] = x * weight / sqrt(mean(x^2) + epsilon); one block. `out` must not overlap `x`.
void rmsnorm(const Block& block, float* out, const float* x, const float* weight, std::int32_t dim, float epsilon);

// out[rows] = w[rows, cols] . x[cols]; blocks of rows. `out` must not overlap the inputs.
void matmul(const Block& block, float* out, const float* w, const float* x, std::int32_t rows, std::int32_t cols);

// Turns each pair (2i, 2i+1) of each head of q[dim] and k[kv_dim] by the position's angle; blocks of
// (dim + kv_dim) / 2 pairs, those of q first. cosines and sines are [seq_len, head_size / 2].
void rope(const Block& block, float* q, float* k, const float* cosines, const float* sines, std::int32_t position,
          std::int32_t dim, std::int32_t kv_dim, std::int32_t head_size);

// key_cache[position, :] = k, value_cache[position, :] = v, both [seq_len, kv_dim]; blocks of kv_dim.
void store_kv(const Block& block, float* key_cache, float* value_cache, const float* k, const float* v,
              std::int32_t position, std::int32_t kv_dim);

// Grouped-query attention of one query over the first sequence_length rows of the caches; one block per head.
// out[head, :] = softmax(q[head] . keys * scale) . values. scores[n_heads, seq_len] is scratch, rewritten by each
// call. heads_per_group query heads share a key and value head.
void attention(const Block& block, float* out, float* scores, const float* q, const float* key_cache,
               const float* value_cache, std::int32_t sequence_length, std::int32_t seq_len, std::int32_t kv_dim,
               std::int32_t head_size, std::int32_t heads_per_group, float scale);

// x[n] += y[n]; blocks of n.
void add(const Block& block, float* x, const float* y, std::int32_t n);

// gate[n] = gate / (1 + exp(-gate)) * up[n]; blocks of n.
void silu_mul(const Block& block, float* gate, const float* up, std::int32_t n);

}  // namespace slipway::llama::kernels
