#include "direct.h"

#include <stdexcept>
#include <string>

#include "kernels.h"

namespace slipway::llama {
namespace {

template <class... Params, class... Args>
void run(void (*kernel)(const Block&, Params...), Dim3 grid, std::uint32_t block_size, Args... args) {
  Block block;
  block.grid = grid;
  block.size = Dim3{block_size, 1, 1};
  for (; block.index.x < grid.x; ++block.index.x) kernel(block, args...);
}

void require_within(const char* what, std::int32_t value, std::int32_t limit, const char* advice) {
  if (value >= 0 && value < limit) return;
  throw std::out_of_range(std::string("The ") + what + " is " + std::to_string(value) + ", but must be from 0 to " +
                          std::to_string(limit - 1) + "; " + advice + ".");
}

}  // namespace

Direct::Direct(const Model& model) : config_(model.config) {
  const StepLayout layout = lay_out_step(config_);
  weights_ = AlignedMemory(layout.bytes_of(BufferId::kWeights));
  cache_ = AlignedMemory(layout.bytes_of(BufferId::kCache));
  activations_ = AlignedMemory(layout.bytes_of(BufferId::kActivations));
  write_weights(model, layout, weights_.bytes());

  std::byte* const bases[kBufferCount] = {weights_.data(), cache_.data(), activations_.data()};
  const auto at = [&](const TensorPlace& place) {
    return reinterpret_cast<float*>(bases[static_cast<std::size_t>(place.buffer)] + place.offset_bytes);
  };
  embedding_ = at(layout.embedding);
  cosines_ = at(layout.cosines);
  sines_ = at(layout.sines);
  final_norm_ = at(layout.final_norm);
  classifier_ = at(layout.classifier);
  for (const LayerLayout& l : layout.layers) {
    layers_.push_back({at(l.attention_norm), at(l.wq), at(l.wk), at(l.wv), at(l.wo), at(l.ffn_norm), at(l.w1), at(l.w2),
                       at(l.w3), at(l.key_cache), at(l.value_cache)});
  }
  x_ = at(layout.x);
  normed_ = at(layout.normed);
  q_ = at(layout.q);
  k_ = at(layout.k);
  v_ = at(layout.v);
  scores_ = at(layout.scores);
  mixed_ = at(layout.mixed);
  delta_ = at(layout.delta);
  gate_ = at(layout.gate);
  up_ = at(layout.up);
  logits_ = at(layout.logits);
}

std::span<const float> Direct::forward(std::int32_t token, std::int32_t position) {
  require_within("token", token, config_.vocab_size, "use the tokenizer that belongs to the model");
  require_within("position", position, config_.seq_len, "stop at the end of the context");
  const std::int32_t dim = config_.dim;
  const std::int32_t kv_dim = config_.kv_dim();
  const std::int32_t hidden = config_.hidden_dim;
  const std::int32_t head_size = config_.head_size();
  const std::int32_t heads_per_group = config_.n_heads / config_.n_kv_heads;
  const float scale = attention_scale(config_);
  const Dim3 one;
  const Dim3 heads{static_cast<std::uint32_t>(config_.n_heads), 1, 1};
  const Dim3 dim_elements = blocks_for(dim, kElementwiseBlock);
  const Dim3 kv_elements = blocks_for(kv_dim, kElementwiseBlock);
  const Dim3 hidden_elements = blocks_for(hidden, kElementwiseBlock);
  const Dim3 pairs = blocks_for((dim + kv_dim) / 2, kElementwiseBlock);
  const Dim3 dim_rows = blocks_for(dim, kMatmulBlock);
  const Dim3 kv_rows = blocks_for(kv_dim, kMatmulBlock);
  const Dim3 hidden_rows = blocks_for(hidden, kMatmulBlock);

  run(kernels::embed, dim_elements, kElementwiseBlock, x_, embedding_, token, dim);
  for (const Layer& l : layers_) {
    run(kernels::rmsnorm, one, kReductionBlock, normed_, x_, l.attention_norm, dim, kNormEpsilon);
    run(kernels::matmul, dim_rows, kMatmulBlock, q_, l.wq, normed_, dim, dim);
    run(kernels::matmul, kv_rows, kMatmulBlock, k_, l.wk, normed_, kv_dim, dim);
    run(kernels::matmul, kv_rows, kMatmulBlock, v_, l.wv, normed_, kv_dim, dim);
    run(kernels::rope, pairs, kElementwiseBlock, q_, k_, cosines_, sines_, position, dim, kv_dim, head_size);
    run(kernels::store_kv, kv_elements, kElementwiseBlock, l.key_cache, l.value_cache, k_, v_, position, kv_dim);
    run(kernels::attention, heads, kReductionBlock, mixed_, scores_, q_, l.key_cache, l.value_cache, position + 1,
        config_.seq_len, kv_dim, head_size, heads_per_group, scale);
    run(kernels::matmul, dim_rows, kMatmulBlock, delta_, l.wo, mixed_, dim, dim);
    run(kernels::add, dim_elements, kElementwiseBlock, x_, delta_, dim);
    run(kernels::rmsnorm, one, kReductionBlock, normed_, x_, l.ffn_norm, dim, kNormEpsilon);
    run(kernels::matmul, hidden_rows, kMatmulBlock, gate_, l.w1, normed_, hidden, dim);
    run(kernels::matmul, hidden_rows, kMatmulBlock, up_, l.w3, normed_, hidden, dim);
    run(kernels::silu_mul, hidden_elements, kElementwiseBlock, gate_, up_, hidden);
    run(kernels::matmul, dim_rows, kMatmulBlock, delta_, l.w2, gate_, dim, hidden);
    run(kernels::add, dim_elements, kElementwiseBlock, x_, delta_, dim);
  }
  run(kernels::rmsnorm, one, kReductionBlock, normed_, x_, final_norm_, dim, kNormEpsilon);
  run(kernels::matmul, blocks_for(config_.vocab_size, kMatmulBlock), kMatmulBlock, logits_, classifier_, normed_,
      config_.vocab_size, dim);
  return {logits_, static_cast<std::size_t>(config_.vocab_size)};
}

}  // namespace slipway::llama
