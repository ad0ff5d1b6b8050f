// The kernels of a step over many rows. Those with a row in their grid do for the row block.index.y what the kernel
// of the same name in examples/llama does for one token, by calling it; only attention is other work here.
//
// Tensors of activations are [row, ...]; caches are [slot, kv head, position, head element], so that a part's keys
// lie one after another. Extents are positive; rows, slots and positions are the caller's to check.
#pragma once

#include <cstdint>

#include "slipway/types.h"
#include "tables.h"

namespace slipway::serving::kernels {

// Puts a step's table where the others read it; one block.
void put_rows(const Block& block, RowTable* to, RowTable table);
void put_split(const Block& block, SplitTable* to, SplitTable table);

void embed(const Block& block, float* x, const float* table, const RowTable* rows, std::int32_t dim);
void rmsnorm(const Block& block, float* out, const float* x, const float* weight, std::int32_t dim, float epsilon);
void matmul(const Block& block, float* out, const float* w, const float* x, std::int32_t rows, std::int32_t cols);
void rope(const Block& block, float* q, float* k, const float* cosines, const float* sines, const RowTable* rows,
          std::int32_t dim, std::int32_t kv_dim, std::int32_t head_size);
void add(const Block& block, float* x, const float* y, std::int32_t n);
void silu_mul(const Block& block, float* gate, const float* up, std::int32_t n);

// Puts the row's key and value into its slot's caches; one block per row.
void store_kv(const Block& block, float* key_cache, float* value_cache, const float* k, const float* v,
              const RowTable* rows, std::int32_t seq_len, std::int32_t kv_dim, std::int32_t head_size);

// Attention of one head over one part; grid {heads, parts}. Writes what can be put together with other parts of the
// row, partial[part, head, :]: the sum of the weighted values, the sum of the weights, and the largest score, which the
// weights are relative to. Needs shared bytes for one float per key of a part.
void attend_part(const Block& block, float* partial, const float* q, const float* key_cache, const float* value_cache,
                 const SplitTable* split, const RowTable* rows, std::int32_t seq_len, std::int32_t kv_dim,
                 std::int32_t head_size, float scale);

// out[row, head, :] of all parts of the row, zeros where it has none; grid {heads, rows}.
void combine_parts(const Block& block, float* out, const float* partial, const SplitTable* split,
                   std::int32_t head_size);

// tokens[row]: the likeliest token; one block per row.
void choose(const Block& block, std::int32_t* tokens, const float* logits, std::int32_t vocab_size);

}  // namespace slipway::serving::kernels
