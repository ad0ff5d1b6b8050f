#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace slipway::llama::kernels {
namespace {

struct Range {
  std::size_t begin;
  std::size_t end;
};

// The block's share of n items.
Range share(const Block& block, std::int32_t n) {
  const auto limit = static_cast<std::size_t>(n);
  const std::size_t begin = std::size_t{block.index.x} * block.size.x;
  return {std::min(begin, limit), std::min(begin + block.size.x, limit)};
}

// Four sums that a compiler keeps in one register, by the vector extension that GCC and Clang share. Plain arrays
// of sums were tried first: g++ 12 kept them in memory at -O3, at half the speed.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

// The first `count` lanes from memory, zeros behind them.
Lanes load(const float* from, std::size_t count) {
  Lanes lanes{};
  std::memcpy(&lanes, from, count * sizeof(float));
  return lanes;
}

// A dot product is kept as kLanes interleaved sums until here.
float fold(Lanes sums) { return (sums[0] + sums[2]) + (sums[1] + sums[3]); }

float dot(const float* a, const float* b, std::size_t n) {
  Lanes sums{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums += load(a + i) * load(b + i);
  if (i < n) sums += load(a + i, n - i) * load(b + i, n - i);
  return fold(sums);
}

// Four dot products at a time reuse each load of x and hide the latency of the additions. Each one's order of
// additions is that of dot().
constexpr std::size_t kTileRows = 4;

void dot_tile(float* out, const float* rows, std::size_t stride, const float* x, std::size_t n) {
  const float* const row0 = rows;
  const float* const row1 = row0 + stride;
  const float* const row2 = row1 + stride;
  const float* const row3 = row2 + stride;
  Lanes sums0{}, sums1{}, sums2{}, sums3{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes lanes = load(x + i);
    sums0 += load(row0 + i) * lanes;
    sums1 += load(row1 + i) * lanes;
    sums2 += load(row2 + i) * lanes;
    sums3 += load(row3 + i) * lanes;
  }
  if (i < n) {
    const std::size_t rest = n - i;
    const Lanes lanes = load(x + i, rest);
    sums0 += load(row0 + i, rest) * lanes;
    sums1 += load(row1 + i, rest) * lanes;
    sums2 += load(row2 + i, rest) * lanes;
    sums3 += load(row3 + i, rest) * lanes;
  }
  out[0] = fold(sums0);
  out[1] = fold(sums1);
  out[2] = fold(sums2);
  out[3] = fold(sums3);
}

// out[r] = rows[r * stride, 0 .. n) . x[n] for r < count.
void dot_rows(float* out, const float* rows, std::size_t stride, std::size_t count, const float* x, std::size_t n) {
  std::size_t r = 0;
  for (; r + kTileRows <= count; r += kTileRows) dot_tile(out + r, rows + r * stride, stride, x, n);
  for (; r < count; ++r) out[r] = dot(rows + r * stride, x, n);
}

}  // namespace

void embed(const Block& block, float* x, const float* table, std::int32_t token, std::int32_t dim) {
  const Range range = share(block, dim);
  const float* row = table + static_cast<std::size_t>(token) * static_cast<std::size_t>(dim);
  std::copy(row + range.begin, row + range.end, x + range.begin);
}

void rmsnorm(const Block&, float* out, const float* x, const float* weight, std::int32_t dim, float epsilon) {
  const auto n = static_cast<std::size_t>(dim);
  const float scale = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(dim) + epsilon);
  for (std::size_t i = 0; i < n; ++i) out[i] = weight[i] * (scale * x[i]);
}

void matmul(const Block& block, float* out, const float* w, const float* x, std::int32_t rows, std::int32_t cols) {
  const Range range = share(block, rows);
  const auto n = static_cast<std::size_t>(cols);
  dot_rows(out + range.begin, w + range.begin * n, n, range.end - range.begin, x, n);
}

void rope(const Block& block, float* q, float* k, const float* cosines, const float* sines, std::int32_t position,
          std::int32_t dim, std::int32_t kv_dim, std::int32_t head_size) {
  const Range range = share(block, (dim + kv_dim) / 2);
  const auto q_pairs = static_cast<std::size_t>(dim / 2);
  const auto head_pairs = static_cast<std::size_t>(head_size / 2);
  const float* const cosine_row = cosines + static_cast<std::size_t>(position) * head_pairs;
  const float* const sine_row = sines + static_cast<std::size_t>(position) * head_pairs;
  for (std::size_t pair = range.begin; pair < range.end; ++pair) {
    float* const at = pair < q_pairs ? q + 2 * pair : k + 2 * (pair - q_pairs);
    const float cosine = cosine_row[pair % head_pairs];  // heads are whole numbers of pairs, in q and in k
    const float sine = sine_row[pair % head_pairs];
    const float a = at[0];
    const float b = at[1];
    at[0] = a * cosine - b * sine;
    at[1] = a * sine + b * cosine;
  }
}

void store_kv(const Block& block, float* key_cache, float* value_cache, const float* k, const float* v,
              std::int32_t position, std::int32_t kv_dim) {
  const Range range = share(block, kv_dim);
  const std::size_t row = static_cast<std::size_t>(position) * static_cast<std::size_t>(kv_dim);
  std::copy(k + range.begin, k + range.end, key_cache + row + range.begin);
  std::copy(v + range.begin, v + range.end, value_cache + row + range.begin);
}

void attention(const Block& block, float* out, float* scores, const float* q, const float* key_cache,
               const float* value_cache, std::int32_t sequence_length, std::int32_t seq_len, std::int32_t kv_dim,
               std::int32_t head_size, std::int32_t heads_per_group, float scale) {
  const std::size_t head = block.index.x;
  const auto size = static_cast<std::size_t>(head_size);
  const auto stride = static_cast<std::size_t>(kv_dim);
  const auto length = static_cast<std::size_t>(sequence_length);
  const std::size_t kv_offset = head / static_cast<std::size_t>(heads_per_group) * size;
  const float* const query = q + head * size;
  float* const weights = scores + head * static_cast<std::size_t>(seq_len);

  dot_rows(weights, key_cache + kv_offset, stride, length, query, size);
  float largest = weights[0];
  for (std::size_t t = 1; t < length; ++t) largest = std::max(largest, weights[t]);
  float total = 0.0f;
  for (std::size_t t = 0; t < length; ++t) {
    weights[t] = std::exp((weights[t] - largest) * scale);
    total += weights[t];
  }

  // A few columns at a time, so that their sums stay in a register.
  for (std::size_t begin = 0; begin < size; begin += kLanes) {
    const std::size_t columns = std::min(kLanes, size - begin);
    const float* const values = value_cache + kv_offset + begin;
    Lanes sums{};
    if (columns == kLanes) {
      for (std::size_t t = 0; t < length; ++t) sums += weights[t] * load(values + t * stride);
    } else {
      for (std::size_t t = 0; t < length; ++t) sums += weights[t] * load(values + t * stride, columns);
    }
    for (std::size_t i = 0; i < columns; ++i) out[head * size + begin + i] = sums[i] / total;
  }
}

void add(const Block& block, float* x, const float* y, std::int32_t n) {
  const Range range = share(block, n);
  for (std::size_t i = range.begin; i < range.end; ++i) x[i] += y[i];
}

void silu_mul(const Block& block, float* gate, const float* up, std::int32_t n) {
  const Range range = share(block, n);
  for (std::size_t i = range.begin; i < range.end; ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

}  // namespace slipway::llama::kernels
