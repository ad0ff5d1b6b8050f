#include "batch_model.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <variant>

#include "aligned_memory.h"
#include "row_kernels.h"
#include "step.h"

namespace slipway::serving {
namespace {

constexpr std::array kKernels{slipway::kernel<&kernels::put_rows>("put_rows"),
                              slipway::kernel<&kernels::put_split>("put_split"),
                              slipway::kernel<&kernels::embed>("embed"),
                              slipway::kernel<&kernels::rmsnorm>("rmsnorm"),
                              slipway::kernel<&kernels::matmul>("matmul"),
                              slipway::kernel<&kernels::rope>("rope"),
                              slipway::kernel<&kernels::add>("add"),
                              slipway::kernel<&kernels::silu_mul>("silu_mul"),
                              slipway::kernel<&kernels::store_kv>("store_kv"),
                              slipway::kernel<&kernels::attend_part>("attend_part"),
                              slipway::kernel<&kernels::combine_parts>("combine_parts"),
                              slipway::kernel<&kernels::choose>("choose")};

void check(const llama::Config& config, const DeviceInfo& device, const BatchShape& shape) {
  if (!device.runs_kernels || !device.host_addressable) {
    throw Error(ErrorCode::kUnsupported, "the kernels of this example are C++ functions, which the device '" +
                                             device.uri + "' does not run; use cpu, cpu:workers=N or cpu:inline");
  }
  const auto require = [](bool holds, const std::string& sentence) {
    if (!holds) throw std::invalid_argument(sentence);
  };
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  require(shape.slots >= 1, "The batch has " + text(shape.slots) + " requests, but must have at least 1.");
  require(shape.rows >= 1 && shape.rows <= static_cast<std::int32_t>(kMaxRows),
          "A step has up to " + text(shape.rows) + " rows, but the table has room for " + text(kMaxRows) +
              "; use a smaller batch or fewer drafts.");
  require(shape.split >= 1, "The split is " + text(shape.split) + ", but must be at least 1.");
  require(config.seq_len <= 65535, "The context is " + text(config.seq_len) + ", but tables hold up to 65535.");
  const std::int64_t parts = std::int64_t{shape.rows} * ((config.seq_len - 1) / shape.split + 1);
  require(parts <= static_cast<std::int64_t>(kMaxParts), "The attention of a step may have " + text(parts) +
                                                             " parts, but the table has room for " + text(kMaxParts) +
                                                             "; use a larger split, a smaller batch or fewer drafts.");
}

// Turns the launches of examples/llama's step for one token into those for many rows. Their tensors keep their names:
// a buffer for n of them is n times as large, and what lay at an offset lies at n times that offset.
class Builder {
 public:
  Builder(const Module& module, const llama::StepLayout& layout, const BatchShape& shape)
      : module_(module), layout_(layout), shape_(shape) {}

  Memory weights, caches, activations, partial, rows, split, chosen;

  std::vector<Launch> build() {
    launch("put_rows", Count::kOne, Takes::kRows, {rows.tensor<RowTable>()});
    for (const llama::Op& op : llama::build_ops(layout_)) {
      const std::string_view name = op.kernel;
      if (name == "attention") {
        attention(op);
      } else if (name == "store_kv") {
        const llama::Config& config = layout_.config;
        launch("store_kv", Count::kRows, Takes::kNothing,
               {at(op, 0), at(op, 1), at(op, 2), at(op, 3), rows.tensor<RowTable>(), config.seq_len, config.kv_dim(),
                config.head_size()});
      } else {
        std::vector<Argument> arguments;
        for (std::size_t i = 0; i < op.args.size(); ++i) arguments.push_back(at(op, i));
        launch(op.kernel, Count::kRows, Takes::kNothing, std::move(arguments), op.grid.x, op.block_size.x);
      }
    }
    launch("choose", Count::kRows, Takes::kNothing,
           {chosen.tensor<std::int32_t>(), tensor(layout_.logits), layout_.config.vocab_size});
    return std::move(launches_);
  }

 private:
  void attention(const llama::Op& op) {
    const llama::Config& config = layout_.config;
    launch("put_split", Count::kOne, Takes::kSplit, {split.tensor<SplitTable>()});
    launch("attend_part", Count::kParts, Takes::kNothing,
           {partial.tensor<float>(), at(op, 2), at(op, 3), at(op, 4), split.tensor<SplitTable>(),
            rows.tensor<RowTable>(), config.seq_len, config.kv_dim(), config.head_size(), attention_scale(config)},
           op.grid.x);
    launches_.back().shared_bytes = std::min(shape_.split, config.seq_len) * std::int64_t{sizeof(float)};
    launch("combine_parts", Count::kRows, Takes::kNothing,
           {at(op, 0), partial.tensor<float>(), split.tensor<SplitTable>(), config.head_size()}, op.grid.x);
  }

  void launch(const char* kernel, Count count, Takes takes, std::vector<Argument> arguments, std::int64_t grid_x = 1,
              std::int64_t block_x = 1) {
    launches_.push_back({module_.kernel(kernel), grid_x, block_x, 0, count, takes, std::move(arguments)});
  }

  Tensor<float> tensor(const llama::TensorPlace& place) const {
    const std::size_t first = place.offset_bytes / sizeof(float);
    switch (place.buffer) {
      case llama::BufferId::kCache: return caches.tensor<float>(first * static_cast<std::size_t>(shape_.slots));
      case llama::BufferId::kActivations:
        return activations.tensor<float>(first * static_cast<std::size_t>(shape_.rows));
      case llama::BufferId::kWeights: break;
    }
    return weights.tensor<float>(first);
  }

  // Where one token has its number or position, many rows have their table.
  Argument at(const llama::Op& op, std::size_t index) const {
    const llama::OpArg& arg = op.args[index];
    if (const auto* use = std::get_if<llama::TensorUse>(&arg)) return tensor(use->place);
    if (const auto* value = std::get_if<std::int32_t>(&arg)) return *value;
    if (const auto* value = std::get_if<float>(&arg)) return *value;
    return rows.tensor<RowTable>();
  }

  const Module& module_;
  const llama::StepLayout& layout_;
  const BatchShape& shape_;
  std::vector<Launch> launches_;
};

}  // namespace

BatchModel::BatchModel(const llama::Model& model, const Device& device, const BatchShape& shape)
    : layers_(model.config.n_layers) {
  check(model.config, device.info(), shape);
  const llama::StepLayout layout = llama::lay_out_step(model.config);
  const auto slots = static_cast<std::uint64_t>(shape.slots);
  const auto rows = static_cast<std::uint64_t>(shape.rows);
  const auto heads = static_cast<std::uint64_t>(model.config.n_heads);
  const auto head_size = static_cast<std::uint64_t>(model.config.head_size());

  stream_ = device.create_stream({.name = "serving"});
  module_ = device.load_table(kKernels);
  weights_ = device.allocate(layout.bytes_of(llama::BufferId::kWeights));
  caches_ = device.allocate(layout.bytes_of(llama::BufferId::kCache) * slots);
  activations_ = device.allocate(layout.bytes_of(llama::BufferId::kActivations) * rows);
  partial_ = device.allocate(kMaxParts * heads * (head_size + 2) * sizeof(float));
  rows_ = device.allocate(sizeof(RowTable));
  split_ = device.allocate(sizeof(SplitTable));
  chosen_ = device.allocate(rows * sizeof(std::int32_t));
  tokens_.resize(rows);

  llama::AlignedMemory weights(layout.bytes_of(llama::BufferId::kWeights));
  llama::write_weights(model, layout, weights.bytes());
  stream_.copy_to_device(weights_.address(), weights.data(), weights_.size_bytes());
  stream_.fill(chosen_.address(), 0, 4, rows);  // rows that a step does not have are copied to the host too
  stream_.synchronize();

  Builder builder(module_, layout, shape);
  builder.weights = weights_, builder.caches = caches_, builder.activations = activations_;
  builder.partial = partial_, builder.rows = rows_, builder.split = split_, builder.chosen = chosen_;
  launches_ = builder.build();
}

void BatchModel::fetch_tokens() {
  stream_.copy_to_host(tokens_.data(), chosen_.address(), tokens_.size() * sizeof(std::int32_t));
}

}  // namespace slipway::serving
