// A model in the memory of a Slipway device: what every mode but `direct` starts from.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model_file.h"
#include "slipway/slipway.h"
#include "step.h"

namespace slipway::llama {

class DeviceModel {
 public:
  // Uploads the weights and loads the kernels: the ones compiled in where the device can call them, else from
  // their OpenCL source. Waits until all is there.
  DeviceModel(const Model& model, const Device& device);

  const StepLayout& layout() const { return layout_; }
  const Stream& stream() const { return stream_; }
  Kernel kernel(std::string_view name) const;

  // A tensor of the step, as an argument of a launch.
  Tensor<float> at(const TensorPlace& place) const {
    return buffers_[static_cast<std::size_t>(place.buffer)].tensor<float>(place.offset_bytes / sizeof(float));
  }

  // Submits the copy of the logits to the host; valid after the stream was synchronised.
  void fetch_logits();
  std::span<const float> logits() const { return logits_; }

 private:
  StepLayout layout_;
  Device device_;
  Stream stream_;
  Module module_;
  std::array<Memory, kBufferCount> buffers_;
  std::vector<float> logits_;
};

}  // namespace slipway::llama
