// Modes `graph` and `overlap`: the step is captured once, and replayed with the values of each step.
#include <optional>
#include <variant>
#include <vector>

#include "device_model.h"
#include "modes.h"

namespace slipway::llama {
namespace {

// The step as a graph of three parameters.
class GraphDecoder : public Decoder {
 public:
  GraphDecoder(const Model& model, const Device& device, const InstantiateOptions& options) : model_(model, device) {
    const std::vector<Op> ops = build_ops(model_.layout());
    launches_ = ops.size();
    Capture capture(model_.stream(), "decode");
    token_ = capture.parameter<std::int32_t>("token");
    position_ = capture.parameter<std::int32_t>("position");
    length_ = capture.parameter<std::int32_t>("sequence_length", 1);
    for (const Op& op : ops) {
      std::vector<Argument> arguments;
      for (const OpArg& arg : op.args) arguments.push_back(argument(arg));
      const LaunchShape shape{.grid = {op.grid.x, op.grid.y, op.grid.z},
                              .block = {op.block_size.x, op.block_size.y, op.block_size.z},
                              .shared_bytes = op.shared_bytes};
      model_.stream().launch_arguments(model_.kernel(op.kernel), shape, arguments);
    }
    model_.fetch_logits();
    graph_ = capture.end().instantiate(options);
    values_ = graph_.values();
  }

  std::size_t launches_per_step() const override { return launches_; }

 protected:
  void set_values(std::int32_t token, std::int32_t position) {
    values_.set(token_, token);
    values_.set(position_, position);
    values_.set(length_, position + 1);
  }

  DeviceModel model_;
  ExecutableGraph graph_;
  StepValues values_;

 private:
  Argument argument(const OpArg& arg) const {
    if (const auto* use = std::get_if<TensorUse>(&arg)) return model_.at(use->place);
    if (const auto* value = std::get_if<std::int32_t>(&arg)) return *value;
    if (const auto* value = std::get_if<float>(&arg)) return *value;
    switch (std::get<RunTimeValue>(arg)) {
      case RunTimeValue::kToken: return token_;
      case RunTimeValue::kPosition: return position_;
      case RunTimeValue::kSequenceLength: break;
    }
    return length_;
  }

  std::size_t launches_ = 0;
  ScalarParameter<std::int32_t> token_, position_, length_;
};

class ValuesFirst final : public GraphDecoder {
 public:
  ValuesFirst(const Model& model, const Device& device) : GraphDecoder(model, device, {.order = Order::kUpdateFirst}) {}

  void submit(std::int32_t token, std::int32_t position) override {
    set_values(token, position);
    step_ = graph_.launch(model_.stream(), values_);
  }
  std::span<const float> logits() override {
    graph_.wait(step_);
    return model_.logits();
  }

 private:
  Step step_;
};

class Overlap final : public GraphDecoder {
 public:
  Overlap(const Model& model, const Device& device) : GraphDecoder(model, device, {.depth = 2}) {}

  void submit(std::int32_t token, std::int32_t position) override {
    step_ = next_ ? *next_ : graph_.launch_open(model_.stream());
    set_values(token, position);
    graph_.publish(step_, values_);
    next_ = graph_.launch_open(model_.stream());  // stands at its gate until its token is known
  }
  std::span<const float> logits() override {
    graph_.wait(step_);
    return model_.logits();
  }

 private:
  Step step_;
  std::optional<Step> next_;
};

}  // namespace

std::unique_ptr<Decoder> make_graph(const Model& model, const Device& device) {
  return std::make_unique<ValuesFirst>(model, device);
}
std::unique_ptr<Decoder> make_overlap(const Model& model, const Device& device) {
  return std::make_unique<Overlap>(model, device);
}

}  // namespace slipway::llama
