// Mode `general`: every launch of the step goes through the general path.
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "device_model.h"
#include "modes.h"

namespace slipway::llama {
namespace {

class General final : public Decoder {
 public:
  General(const Model& model, const Device& device) : model_(model, device), ops_(build_ops(model_.layout())) {
    for (const Op& op : ops_) {
      if (!kernels_.contains(op.kernel)) kernels_[op.kernel] = model_.kernel(op.kernel);
    }
  }

  void submit(std::int32_t token, std::int32_t position) override {
    std::vector<Argument> arguments;
    for (const Op& op : ops_) {
      arguments.clear();
      for (const OpArg& arg : op.args) arguments.push_back(argument(arg, token, position));
      const LaunchShape shape{.grid = extent(op.grid), .block = extent(op.block_size), .shared_bytes = op.shared_bytes};
      model_.stream().launch_arguments(kernels_.at(op.kernel), shape, arguments);
    }
    model_.fetch_logits();
  }

  std::span<const float> logits() override {
    model_.stream().synchronize();
    return model_.logits();
  }

  std::size_t launches_per_step() const override { return ops_.size(); }

 private:
  static Extent extent(const Dim3& d) { return {d.x, d.y, d.z}; }

  Argument argument(const OpArg& arg, std::int32_t token, std::int32_t position) const {
    if (const auto* use = std::get_if<TensorUse>(&arg)) return model_.at(use->place);
    if (const auto* value = std::get_if<std::int32_t>(&arg)) return *value;
    if (const auto* value = std::get_if<float>(&arg)) return *value;
    return value_of(std::get<RunTimeValue>(arg), token, position);
  }

  DeviceModel model_;
  std::vector<Op> ops_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace

std::unique_ptr<Decoder> make_general(const Model& model, const Device& device) {
  return std::make_unique<General>(model, device);
}

}  // namespace slipway::llama
