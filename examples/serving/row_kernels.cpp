#include "row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels.h"
#include "sampler.h"

namespace slipway::serving::kernels {
namespace {

// Row `row` of a tensor with `width` elements in each.
template <class T>
T* row_of(T* tensor, const Block& block, std::int32_t width) {
  return tensor + std::size_t{block.index.y} * static_cast<std::size_t>(width);
}

// Where a slot's keys (or values) of one head begin.
std::size_t cache_offset(std::int32_t slot, std::size_t kv_head, std::size_t kv_heads, std::int32_t seq_len,
                         std::size_t head_size) {
  return (static_cast<std::size_t>(slot) * kv_heads + kv_head) * static_cast<std::size_t>(seq_len) * head_size;
}

}  // namespace

void put_rows(const Block&, RowTable* to, RowTable table) { *to = table; }

void put_split(const Block&, SplitTable* to, SplitTable table) { *to = table; }

void embed(const Block& block, float* x, const float* table, const RowTable* rows, std::int32_t dim) {
  llama::kernels::embed(block, row_of(x, block, dim), table, rows->rows[block.index.y].token, dim);
}

void rmsnorm(const Block& block, float* out, const float* x, const float* weight, std::int32_t dim, float epsilon) {
  llama::kernels::rmsnorm(block, row_of(out, block, dim), row_of(x, block, dim), weight, dim, epsilon);
}

void matmul(const Block& block, float* out, const float* w, const float* x, std::int32_t rows, std::int32_t cols) {
  llama::kernels::matmul(block, row_of(out, block, rows), w, row_of(x, block, cols), rows, cols);
}

void rope(const Block& block, float* q, float* k, const float* cosines, const float* sines, const RowTable* rows,
          std::int32_t dim, std::int32_t kv_dim, std::int32_t head_size) {
  llama::kernels::rope(block, row_of(q, block, dim), row_of(k, block, kv_dim), cosines, sines,
                       rows->rows[block.index.y].position, dim, kv_dim, head_size);
}

void add(const Block& block, float* x, const float* y, std::int32_t n) {
  llama::kernels::add(block, row_of(x, block, n), row_of(y, block, n), n);
}

void silu_mul(const Block& block, float* gate, const float* up, std::int32_t n) {
  llama::kernels::silu_mul(block, row_of(gate, block, n), row_of(up, block, n), n);
}

void store_kv(const Block& block, float* key_cache, float* value_cache, const float* k, const float* v,
              const RowTable* rows, std::int32_t seq_len, std::int32_t kv_dim, std::int32_t head_size) {
  const Row& row = rows->rows[block.index.y];
  const auto size = static_cast<std::size_t>(head_size);
  const std::size_t kv_heads = static_cast<std::size_t>(kv_dim) / size;
  for (std::size_t head = 0; head < kv_heads; ++head) {
    const std::size_t to =
        cache_offset(row.slot, head, kv_heads, seq_len, size) + static_cast<std::size_t>(row.position) * size;
    std::copy_n(row_of(k, block, kv_dim) + head * size, size, key_cache + to);
    std::copy_n(row_of(v, block, kv_dim) + head * size, size, value_cache + to);
  }
}

void attend_part(const Block& block, float* partial, const float* q, const float* key_cache, const float* value_cache,
                 const SplitTable* split, const RowTable* rows, std::int32_t seq_len, std::int32_t kv_dim,
                 std::int32_t head_size, float scale) {
  const std::size_t heads = block.grid.x;
  const std::size_t head = block.index.x;
  const Part& part = split->parts[block.index.y];
  const auto size = static_cast<std::size_t>(head_size);
  const std::size_t kv_heads = static_cast<std::size_t>(kv_dim) / size;
  const std::size_t kv_head = head / (heads / kv_heads);
  const std::size_t first =
      cache_offset(rows->rows[part.row].slot, kv_head, kv_heads, seq_len, size) + part.begin * size;
  const std::size_t keys = std::size_t{part.end} - part.begin;

  // The scores are a matrix product: the part's keys are its rows.
  auto* const weights = static_cast<float*>(block.shared);
  Block all;
  all.size.x = static_cast<std::uint32_t>(keys);
  llama::kernels::matmul(all, weights, key_cache + first, q + (part.row * heads + head) * size,
                         static_cast<std::int32_t>(keys), head_size);
  const float largest = *std::max_element(weights, weights + keys);

  float* const sums = partial + (block.index.y * heads + head) * (size + 2);
  std::fill_n(sums, size, 0.0f);
  float total = 0.0f;
  const float* values = value_cache + first;
  for (std::size_t key = 0; key < keys; ++key, values += size) {
    const float weight = std::exp((weights[key] - largest) * scale);
    total += weight;
    for (std::size_t i = 0; i < size; ++i) sums[i] += weight * values[i];
  }
  sums[size] = total;
  sums[size + 1] = largest * scale;
}

void combine_parts(const Block& block, float* out, const float* partial, const SplitTable* split,
                   std::int32_t head_size) {
  const std::size_t heads = block.grid.x;
  const auto size = static_cast<std::size_t>(head_size);
  const std::size_t begin = split->first[block.index.y];
  const std::size_t end = split->first[block.index.y + 1];
  const auto at = [&](std::size_t part) { return partial + (part * heads + block.index.x) * (size + 2); };

  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t part = begin; part < end; ++part) largest = std::max(largest, at(part)[size + 1]);
  float* const result = out + (block.index.y * heads + block.index.x) * size;
  std::fill_n(result, size, 0.0f);
  float total = 0.0f;
  for (std::size_t part = begin; part < end; ++part) {
    const float* const sums = at(part);
    const float factor = std::exp(sums[size + 1] - largest);
    total += factor * sums[size];
    for (std::size_t i = 0; i < size; ++i) result[i] += factor * sums[i];
  }
  if (begin == end) return;
  for (std::size_t i = 0; i < size; ++i) result[i] /= total;
}

void choose(const Block& block, std::int32_t* tokens, const float* logits, std::int32_t vocab_size) {
  tokens[block.index.y] = llama::argmax({row_of(logits, block, vocab_size), static_cast<std::size_t>(vocab_size)});
}

}  // namespace slipway::serving::kernels
