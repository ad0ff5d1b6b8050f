#include "device_model.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels.h"
#include "kernels_opencl.h"

namespace slipway::llama {
namespace {

constexpr std::array kKernels{
    slipway::kernel<&kernels::embed>("embed"),       slipway::kernel<&kernels::rmsnorm>("rmsnorm"),
    slipway::kernel<&kernels::matmul>("matmul"),     slipway::kernel<&kernels::rope>("rope"),
    slipway::kernel<&kernels::store_kv>("store_kv"), slipway::kernel<&kernels::attention>("attention"),
    slipway::kernel<&kernels::add>("add"),           slipway::kernel<&kernels::silu_mul>("silu_mul")};

}  // namespace

DeviceModel::DeviceModel(const Model& model, const Device& device)
    : layout_(lay_out_step(model.config)), device_(device), stream_(device.create_stream({.name = "decode"})) {
  const bool calls_functions = device.info().host_addressable || !device.info().runs_kernels;
  module_ = calls_functions ? device.load_table(kKernels) : device.load_source(kKernelsOpenCl);
  for (const BufferId id : kBuffers) buffers_[static_cast<std::size_t>(id)] = device.allocate(layout_.bytes_of(id));
  AlignedMemory weights(layout_.bytes_of(BufferId::kWeights));
  write_weights(model, layout_, weights.bytes());
  const Memory& on_device = buffers_[static_cast<std::size_t>(BufferId::kWeights)];
  stream_.copy_to_device(on_device.address(), weights.data(), on_device.size_bytes());
  logits_.resize(static_cast<std::size_t>(model.config.vocab_size));
  stream_.synchronize();
}

Kernel DeviceModel::kernel(std::string_view name) const {
  // The source has the same parameters as the functions.
  const auto row = std::find_if(kKernels.begin(), kKernels.end(), [&](const KernelDef& d) { return name == d.name; });
  if (row == kKernels.end())
    throw Error(ErrorCode::kInvalidArgument, "the model has no kernel '" + std::string(name) + "'");
  return module_.kernel(name, Signature(row->parameters, row->parameters + row->parameter_count));
}

void DeviceModel::fetch_logits() {
  stream_.copy_to_host(logits_.data(), at(layout_.logits).address, logits_.size() * sizeof(float));
}

}  // namespace slipway::llama
