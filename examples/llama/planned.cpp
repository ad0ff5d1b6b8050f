// Mode `planned`: each kind of launch is planned once, with its extents fixed and its grid static; a step writes
// tensors and the values that change.
#include <vector>

#include "device_model.h"
#include "modes.h"

namespace slipway::llama {
namespace {

using In = Tensor<const float>;
using Out = Tensor<float>;

class Planned final : public Decoder {
 public:
  Planned(const Model& model, const Device& device) : model_(model, device), config_(model.config) {
    const std::int32_t dim = config_.dim, kv_dim = config_.kv_dim(), hidden = config_.hidden_dim;
    const std::int32_t head_size = config_.head_size();
    embed_ =
        plan("embed", blocks_for(dim, kElementwiseBlock), kElementwiseBlock, {{3, dim}}).typed<Out, In, std::int32_t>();
    rmsnorm_ = plan("rmsnorm", {}, kReductionBlock, {{3, dim}, {4, kNormEpsilon}}).typed<Out, In, In>();
    dim_from_dim_ = matmul(dim, dim);
    kv_from_dim_ = matmul(kv_dim, dim);
    hidden_from_dim_ = matmul(hidden, dim);
    dim_from_hidden_ = matmul(dim, hidden);
    vocab_from_dim_ = matmul(config_.vocab_size, dim);
    rope_ = plan("rope", blocks_for((dim + kv_dim) / 2, kElementwiseBlock), kElementwiseBlock,
                 {{5, dim}, {6, kv_dim}, {7, head_size}})
                .typed<Out, Out, In, In, std::int32_t>();
    store_kv_ = plan("store_kv", blocks_for(kv_dim, kElementwiseBlock), kElementwiseBlock, {{5, kv_dim}})
                    .typed<Out, Out, In, In, std::int32_t>();
    attention_ = plan("attention", {static_cast<std::uint32_t>(config_.n_heads), 1, 1}, kReductionBlock,
                      {{6, config_.seq_len},
                       {7, kv_dim},
                       {8, head_size},
                       {9, config_.n_heads / config_.n_kv_heads},
                       {10, attention_scale(config_)}})
                     .typed<Out, Out, In, In, In, std::int32_t>();
    add_ = plan("add", blocks_for(dim, kElementwiseBlock), kElementwiseBlock, {{2, dim}}).typed<Out, In>();
    silu_mul_ =
        plan("silu_mul", blocks_for(hidden, kElementwiseBlock), kElementwiseBlock, {{2, hidden}}).typed<Out, In>();
    const StepLayout& l = model_.layout();
    for (const LayerLayout& layer : l.layers) {
      layers_.push_back({at(layer.attention_norm), at(layer.wq), at(layer.wk), at(layer.wv), at(layer.wo),
                         at(layer.ffn_norm), at(layer.w1), at(layer.w2), at(layer.w3), at(layer.key_cache),
                         at(layer.value_cache)});
    }
    x_ = at(l.x), normed_ = at(l.normed), q_ = at(l.q), k_ = at(l.k), v_ = at(l.v), scores_ = at(l.scores);
    mixed_ = at(l.mixed), delta_ = at(l.delta), gate_ = at(l.gate), up_ = at(l.up), logits_ = at(l.logits);
    embedding_ = at(l.embedding), cosines_ = at(l.cosines), sines_ = at(l.sines), final_norm_ = at(l.final_norm);
    classifier_ = at(l.classifier);
  }

  void submit(std::int32_t token, std::int32_t position) override {
    const Stream& s = model_.stream();
    embed_(s, x_, embedding_, token);
    for (const Layer& l : layers_) {
      rmsnorm_(s, normed_, x_, l.attention_norm);
      dim_from_dim_(s, q_, l.wq, normed_);
      kv_from_dim_(s, k_, l.wk, normed_);
      kv_from_dim_(s, v_, l.wv, normed_);
      rope_(s, q_, k_, cosines_, sines_, position);
      store_kv_(s, l.key_cache, l.value_cache, k_, v_, position);
      attention_(s, mixed_, scores_, q_, l.key_cache, l.value_cache, position + 1);
      dim_from_dim_(s, delta_, l.wo, mixed_);
      add_(s, x_, delta_);
      rmsnorm_(s, normed_, x_, l.ffn_norm);
      hidden_from_dim_(s, gate_, l.w1, normed_);
      hidden_from_dim_(s, up_, l.w3, normed_);
      silu_mul_(s, gate_, up_);
      dim_from_hidden_(s, delta_, l.w2, gate_);
      add_(s, x_, delta_);
    }
    rmsnorm_(s, normed_, x_, final_norm_);
    vocab_from_dim_(s, logits_, classifier_, normed_);
    model_.fetch_logits();
  }

  std::span<const float> logits() override {
    model_.stream().synchronize();
    return model_.logits();
  }

  std::size_t launches_per_step() const override { return 3 + 15 * layers_.size(); }

 private:
  struct Layer {
    In attention_norm, wq, wk, wv, wo, ffn_norm, w1, w2, w3;
    Out key_cache, value_cache;
  };
  using Matmul = TypedLaunch<Out, In, In>;

  LaunchPlan plan(const char* name, Dim3 grid, std::uint32_t block,
                  std::vector<std::pair<std::size_t, Argument>> fixed) {
    PlanOptions options;
    options.shape = LaunchShape{.grid = {grid.x, grid.y, grid.z}, .block = {block, 1, 1}};
    options.fixed = std::move(fixed);
    return LaunchPlan::create(model_.kernel(name), options);
  }
  Matmul matmul(std::int32_t rows, std::int32_t cols) {
    return plan("matmul", blocks_for(rows, kMatmulBlock), kMatmulBlock, {{3, rows}, {4, cols}}).typed<Out, In, In>();
  }
  Out at(const TensorPlace& place) const { return model_.at(place); }

  DeviceModel model_;
  Config config_;
  TypedLaunch<Out, In, std::int32_t> embed_;
  TypedLaunch<Out, In, In> rmsnorm_;
  Matmul dim_from_dim_, kv_from_dim_, hidden_from_dim_, dim_from_hidden_, vocab_from_dim_;
  TypedLaunch<Out, Out, In, In, std::int32_t> rope_, store_kv_;
  TypedLaunch<Out, Out, In, In, In, std::int32_t> attention_;
  TypedLaunch<Out, In> add_, silu_mul_;
  std::vector<Layer> layers_;
  Out x_, normed_, q_, k_, v_, scores_, mixed_, delta_, gate_, up_, logits_;
  In embedding_, cosines_, sines_, final_norm_, classifier_;
};

}  // namespace

std::unique_ptr<Decoder> make_planned(const Model& model, const Device& device) {
  return std::make_unique<Planned>(model, device);
}

}  // namespace slipway::llama
