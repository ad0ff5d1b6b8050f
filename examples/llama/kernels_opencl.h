// The kernels of kernels.h as OpenCL C 1.2: the same names, arguments and order. One work group is one block, and
// its size along x is block.size.x. Sums are taken in the CPU's order and without fused multiply-add, so results
// differ from the CPU's by the built-in functions' rounding only.
#pragma once

namespace slipway::llama {

constexpr const char* kKernelsOpenCl = R"opencl(
#pragma OPENCL FP_CONTRACT OFF

float fold_lanes(float4 sums) { return (sums.x + sums.z) + (sums.y + sums.w); }

float4 load_part(global const float* from, int count) {
  return (float4)(from[0], count > 1 ? from[1] : 0.0f, count > 2 ? from[2] : 0.0f, 0.0f);
}

float dot_row(global const float* a, global const float* b, int n) {
  float4 sums = (float4)(0.0f);
  int i = 0;
  for (; i + 4 <= n; i += 4) sums += vload4(0, a + i) * vload4(0, b + i);
  if (i < n) sums += load_part(a + i, n - i) * load_part(b + i, n - i);
  return fold_lanes(sums);
}

kernel void embed(global float* x, global const float* table, int token, int dim) {
  const int i = (int)get_global_id(0);
  if (i < dim) x[i] = table[(size_t)token * dim + i];
}

// Each work item takes the whole sum: the order stays the CPU's, and no scratch is needed.
kernel void rmsnorm(global float* out, global const float* x, global const float* weight, int dim, float epsilon) {
  const float scale = 1.0f / sqrt(dot_row(x, x, dim) / (float)dim + epsilon);
  for (int i = (int)get_local_id(0); i < dim; i += (int)get_local_size(0)) out[i] = weight[i] * (scale * x[i]);
}

kernel void matmul(global float* out, global const float* w, global const float* x, int rows, int cols) {
  const int row = (int)get_global_id(0);
  if (row < rows) out[row] = dot_row(w + (size_t)row * cols, x, cols);
}

kernel void rope(global float* q, global float* k, global const float* cosines, global const float* sines,
                 int position, int dim, int kv_dim, int head_size) {
  const int pair = (int)get_global_id(0);
  if (pair >= (dim + kv_dim) / 2) return;
  const int q_pairs = dim / 2;
  const int head_pairs = head_size / 2;
  global float* at = pair < q_pairs ? q + 2 * pair : k + 2 * (pair - q_pairs);
  const size_t angle = (size_t)position * head_pairs + pair % head_pairs;
  const float cosine = cosines[angle];
  const float sine = sines[angle];
  const float a = at[0];
  const float b = at[1];
  at[0] = a * cosine - b * sine;
  at[1] = a * sine + b * cosine;
}

kernel void store_kv(global float* key_cache, global float* value_cache, global const float* k,
                     global const float* v, int position, int kv_dim) {
  const int i = (int)get_global_id(0);
  if (i >= kv_dim) return;
  key_cache[(size_t)position * kv_dim + i] = k[i];
  value_cache[(size_t)position * kv_dim + i] = v[i];
}

// The work items of a group share the rows, then the columns. The maximum and the total are taken by each of them.
kernel void attention(global float* out, global float* scores, global const float* q,
                      global const float* key_cache, global const float* value_cache, int sequence_length,
                      int seq_len, int kv_dim, int head_size, int heads_per_group, float scale) {
  const int head = (int)get_group_id(0);
  const int item = (int)get_local_id(0);
  const int items = (int)get_local_size(0);
  const int kv_offset = head / heads_per_group * head_size;
  global const float* query = q + head * head_size;
  global float* weights = scores + (size_t)head * seq_len;

  for (int t = item; t < sequence_length; t += items) {
    weights[t] = dot_row(key_cache + (size_t)t * kv_dim + kv_offset, query, head_size);
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  float largest = weights[0];
  for (int t = 1; t < sequence_length; ++t) largest = fmax(largest, weights[t]);
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (int t = item; t < sequence_length; t += items) weights[t] = exp((weights[t] - largest) * scale);
  barrier(CLK_GLOBAL_MEM_FENCE);
  float total = 0.0f;
  for (int t = 0; t < sequence_length; ++t) total += weights[t];
  for (int i = item; i < head_size; i += items) {
    float sum = 0.0f;
    for (int t = 0; t < sequence_length; ++t) sum += weights[t] * value_cache[(size_t)t * kv_dim + kv_offset + i];
    out[head * head_size + i] = sum / total;
  }
}

kernel void add(global float* x, global const float* y, int n) {
  const int i = (int)get_global_id(0);
  if (i < n) x[i] += y[i];
}

kernel void silu_mul(global float* gate, global const float* up, int n) {
  const int i = (int)get_global_id(0);
  if (i < n) gate[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}
)opencl";

}  // namespace slipway::llama
