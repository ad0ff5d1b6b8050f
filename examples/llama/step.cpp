#include "step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace slipway::llama {
namespace {

constexpr std::size_t kMaxBufferBytes = std::numeric_limits<std::ptrdiff_t>::max();

// Hands out aligned places, buffer by buffer.
class Placer {
 public:
  // A float32 tensor of rows x cols. Two extents of a checked config cannot overflow in 64 bits.
  TensorPlace place(BufferId buffer, std::int32_t rows, std::int32_t cols = 1) {
    const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * sizeof(float);
    const std::size_t padded = (size + kTensorAlignmentBytes - 1) / kTensorAlignmentBytes * kTensorAlignmentBytes;
    std::size_t& used = used_[static_cast<std::size_t>(buffer)];
    if (size > kMaxBufferBytes - kTensorAlignmentBytes || padded > kMaxBufferBytes - used) {
      throw std::length_error(std::string("The buffer '") + name_of(buffer) + "' needs more than " +
                              std::to_string(kMaxBufferBytes) + " bytes; use a smaller model or a shorter context.");
    }
    const TensorPlace result{buffer, used, size};
    used += padded;
    return result;
  }

  const std::array<std::size_t, kBufferCount>& used() const { return used_; }

 private:
  std::array<std::size_t, kBufferCount> used_{};
};

TensorUse read(const TensorPlace& place) { return {place, Access::kRead}; }
TensorUse write(const TensorPlace& place) { return {place, Access::kWrite}; }
TensorUse update(const TensorPlace& place) { return {place, Access::kReadWrite}; }

class OpBuilder {
 public:
  void blocks(const char* kernel, std::int32_t items, std::uint32_t block, std::vector<OpArg> args) {
    launch(kernel, blocks_for(items, block), block, std::move(args));
  }

  void launch(const char* kernel, Dim3 grid, std::uint32_t block, std::vector<OpArg> args) {
    ops_.push_back({kernel, grid, Dim3{block, 1, 1}, 0, std::move(args)});
  }

  void rmsnorm(const TensorPlace& out, const TensorPlace& x, const TensorPlace& weight, std::int32_t dim) {
    launch("rmsnorm", Dim3{}, kReductionBlock, {write(out), read(x), read(weight), dim, kNormEpsilon});
  }

  void matmul(const TensorPlace& out, const TensorPlace& w, const TensorPlace& x, std::int32_t rows,
              std::int32_t cols) {
    blocks("matmul", rows, kMatmulBlock, {write(out), read(w), read(x), rows, cols});
  }

  void add(const TensorPlace& x, const TensorPlace& y, std::int32_t n) {
    blocks("add", n, kElementwiseBlock, {update(x), read(y), n});
  }

  std::vector<Op> take() { return std::move(ops_); }

 private:
  std::vector<Op> ops_;
};

}  // namespace

const char* name_of(BufferId buffer) {
  switch (buffer) {
    case BufferId::kWeights: return "weights";
    case BufferId::kCache: return "cache";
    case BufferId::kActivations: return "activations";
  }
  return "unknown";
}

StepLayout lay_out_step(const Config& config) {
  lay_out(config, "the model");  // for its checks
  const std::int32_t dim = config.dim;
  const std::int32_t kv_dim = config.kv_dim();
  const std::int32_t hidden = config.hidden_dim;
  Placer placer;
  const auto weights = [&](std::int32_t rows, std::int32_t cols = 1) {
    return placer.place(BufferId::kWeights, rows, cols);
  };
  const auto activations = [&](std::int32_t rows, std::int32_t cols = 1) {
    return placer.place(BufferId::kActivations, rows, cols);
  };

  StepLayout layout;
  layout.config = config;
  layout.embedding = weights(config.vocab_size, dim);
  layout.cosines = weights(config.seq_len, config.head_size() / 2);
  layout.sines = weights(config.seq_len, config.head_size() / 2);
  layout.layers.resize(static_cast<std::size_t>(config.n_layers));
  for (LayerLayout& layer : layout.layers) {
    layer.attention_norm = weights(dim);
    layer.wq = weights(dim, dim);
    layer.wk = weights(kv_dim, dim);
    layer.wv = weights(kv_dim, dim);
    layer.wo = weights(dim, dim);
    layer.ffn_norm = weights(dim);
    layer.w1 = weights(hidden, dim);
    layer.w2 = weights(dim, hidden);
    layer.w3 = weights(hidden, dim);
    layer.key_cache = placer.place(BufferId::kCache, config.seq_len, kv_dim);
    layer.value_cache = placer.place(BufferId::kCache, config.seq_len, kv_dim);
  }
  layout.final_norm = weights(dim);
  layout.classifier = config.separate_classifier ? weights(config.vocab_size, dim) : layout.embedding;
  layout.x = activations(dim);
  layout.normed = activations(dim);
  layout.q = activations(dim);
  layout.k = activations(kv_dim);
  layout.v = activations(kv_dim);
  layout.scores = activations(config.n_heads, config.seq_len);
  layout.mixed = activations(dim);
  layout.delta = activations(dim);
  layout.gate = activations(hidden);
  layout.up = activations(hidden);
  layout.logits = activations(config.vocab_size);
  layout.buffer_bytes = placer.used();
  return layout;
}

void write_weights(const Model& model, const StepLayout& layout, std::span<std::byte> destination) {
  if (model.config != layout.config || destination.size() != layout.bytes_of(BufferId::kWeights)) {
    throw std::invalid_argument("The destination of the weights has " + std::to_string(destination.size()) +
                                " bytes, but the layout needs " + std::to_string(layout.bytes_of(BufferId::kWeights)) +
                                " and the model's own extents; lay the step out from this model.");
  }
  std::fill(destination.begin(), destination.end(), std::byte{0});
  const auto put = [&](const TensorPlace& place, std::span<const float> values) {
    std::memcpy(destination.data() + place.offset_bytes, values.data(), place.size_bytes);
  };
  const WeightParts& parts = model.parts;
  put(layout.embedding, model.part(parts.embedding));
  for (std::int32_t i = 0; i < model.config.n_layers; ++i) {
    const LayerLayout& layer = layout.layers[static_cast<std::size_t>(i)];
    put(layer.attention_norm, model.layer(parts.attention_norm, i));
    put(layer.wq, model.layer(parts.wq, i));
    put(layer.wk, model.layer(parts.wk, i));
    put(layer.wv, model.layer(parts.wv, i));
    put(layer.wo, model.layer(parts.wo, i));
    put(layer.ffn_norm, model.layer(parts.ffn_norm, i));
    put(layer.w1, model.layer(parts.w1, i));
    put(layer.w2, model.layer(parts.w2, i));
    put(layer.w3, model.layer(parts.w3, i));
  }
  put(layout.final_norm, model.part(parts.final_norm));
  if (model.config.separate_classifier) put(layout.classifier, model.part(parts.classifier));

  const std::int32_t head_size = model.config.head_size();
  std::vector<float> cosines, sines;
  cosines.reserve(layout.cosines.size_bytes / sizeof(float));
  sines.reserve(layout.sines.size_bytes / sizeof(float));
  for (std::int32_t position = 0; position < model.config.seq_len; ++position) {
    for (std::int32_t i = 0; i < head_size; i += 2) {
      const float frequency = 1.0f / std::pow(10000.0f, static_cast<float>(i) / static_cast<float>(head_size));
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  put(layout.cosines, cosines);
  put(layout.sines, sines);
}

std::vector<Op> build_ops(const StepLayout& layout) {
  const Config& config = layout.config;
  const std::int32_t dim = config.dim;
  const std::int32_t kv_dim = config.kv_dim();
  const std::int32_t hidden = config.hidden_dim;
  const std::int32_t head_size = config.head_size();
  OpBuilder build;
  build.blocks("embed", dim, kElementwiseBlock, {write(layout.x), read(layout.embedding), RunTimeValue::kToken, dim});
  for (const LayerLayout& layer : layout.layers) {
    build.rmsnorm(layout.normed, layout.x, layer.attention_norm, dim);
    build.matmul(layout.q, layer.wq, layout.normed, dim, dim);
    build.matmul(layout.k, layer.wk, layout.normed, kv_dim, dim);
    build.matmul(layout.v, layer.wv, layout.normed, kv_dim, dim);
    build.blocks("rope", (dim + kv_dim) / 2, kElementwiseBlock,
                 {update(layout.q), update(layout.k), read(layout.cosines), read(layout.sines), RunTimeValue::kPosition,
                  dim, kv_dim, head_size});
    build.blocks("store_kv", kv_dim, kElementwiseBlock,
                 {write(layer.key_cache), write(layer.value_cache), read(layout.k), read(layout.v),
                  RunTimeValue::kPosition, kv_dim});
    build.launch("attention", Dim3{static_cast<std::uint32_t>(config.n_heads), 1, 1}, kReductionBlock,
                 {write(layout.mixed), write(layout.scores), read(layout.q), read(layer.key_cache),
                  read(layer.value_cache), RunTimeValue::kSequenceLength, config.seq_len, kv_dim, head_size,
                  config.n_heads / config.n_kv_heads, attention_scale(config)});
    build.matmul(layout.delta, layer.wo, layout.mixed, dim, dim);
    build.add(layout.x, layout.delta, dim);
    build.rmsnorm(layout.normed, layout.x, layer.ffn_norm, dim);
    build.matmul(layout.gate, layer.w1, layout.normed, hidden, dim);
    build.matmul(layout.up, layer.w3, layout.normed, hidden, dim);
    build.blocks("silu_mul", hidden, kElementwiseBlock, {update(layout.gate), read(layout.up), hidden});
    build.matmul(layout.delta, layer.w2, layout.gate, dim, hidden);
    build.add(layout.x, layout.delta, dim);
  }
  build.rmsnorm(layout.normed, layout.x, layout.final_norm, dim);
  build.matmul(layout.logits, layout.classifier, layout.normed, config.vocab_size, dim);
  return build.take();
}

float attention_scale(const Config& config) { return 1.0f / std::sqrt(static_cast<float>(config.head_size())); }

}  // namespace slipway::llama
