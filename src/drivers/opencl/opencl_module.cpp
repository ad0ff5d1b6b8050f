#include "drivers/opencl/opencl_module.h"

#include <algorithm>

#include "drivers/opencl/opencl_parameters.h"

namespace slipway::internal {
namespace {

constexpr std::size_t kMaxLogCharacters = 4000;

Status invalid(std::string sentence) {
  ErrorDetails details;
  details.code = ErrorCode::kInvalidArgument;
  details.sentence = std::move(sentence);
  details.stable = true;
  return Status(std::move(details));
}

std::string build_log(const ClContext& context, cl_program program) {
  std::string log = cl_text([&](std::size_t size, void* value, std::size_t* needed) {
    return context.cl.clGetProgramBuildInfo(program, context.device.device, kClProgramBuildLog, size, value, needed);
  });
  if (log.size() > kMaxLogCharacters) {
    log.resize(kMaxLogCharacters);
    log += "\n... (cut here)";
  }
  return log.empty() ? "(the implementation gave no build log)" : log;
}

template <class T>
T kernel_value(const ClContext& context, cl_kernel kernel, cl_uint what, T fallback) {
  T value{};
  const cl_int code =
      context.cl.clGetKernelWorkGroupInfo(kernel, context.device.device, what, sizeof value, &value, nullptr);
  return code == kClSuccess ? value : fallback;
}

std::string triple(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return std::to_string(x) + " x " + std::to_string(y) + " x " + std::to_string(z);
}

}  // namespace

Result<std::unique_ptr<DriverModule>> OpenClModule::build(const std::shared_ptr<ClContext>& context,
                                                          std::string_view source, std::string_view options) {
  const ClSymbols& cl = context->cl;
  const char* text = source.data() ? source.data() : "";
  const std::size_t length = source.size();
  cl_int code = kClSuccess;
  const cl_program made = cl.clCreateProgramWithSource(context->context, 1, &text, &length, &code);
  if (code != kClSuccess) return cl_error(code, "clCreateProgramWithSource", "the OpenCL C source could not be loaded");
  auto program = std::make_shared<ClProgram>(context, made);

  const std::string all_options = std::string(options) + (options.empty() ? "" : " ") + "-cl-kernel-arg-info";
  code = cl.clBuildProgram(made, 1, &context->device.device, all_options.c_str(), nullptr, nullptr);
  if (code == kClBuildProgramFailure) {
    return invalid("the OpenCL C source does not build with the options '" + all_options +
                   "' (CL_BUILD_PROGRAM_FAILURE); correct what the build log names:\n" + build_log(*context, made));
  }
  if (code != kClSuccess) {
    return cl_error(code, "clBuildProgram",
                    "the OpenCL C source does not build with the options '" + all_options + "'");
  }
  return std::unique_ptr<DriverModule>(std::make_unique<OpenClModule>(std::move(program)));
}

Result<std::unique_ptr<KernelCode>> OpenClModule::kernel(const std::string& name, const Signature* signature) {
  const ClContext& context = *program_->context;
  const ClSymbols& cl = context.cl;
  cl_int code = kClSuccess;
  const cl_kernel made = cl.clCreateKernel(program_->program, name.c_str(), &code);
  if (code == kClInvalidKernelName) {
    std::string names = cl_text([&](std::size_t size, void* value, std::size_t* needed) {
      return cl.clGetProgramInfo(program_->program, kClProgramKernelNames, size, value, needed);
    });
    std::replace(names.begin(), names.end(), ';', ' ');
    return invalid("the module has no kernel '" + name + "'; it has: " + (names.empty() ? "none" : names));
  }
  if (code != kClSuccess) return cl_error(code, "clCreateKernel", "kernel '" + name + "' could not be made");
  auto kernel = std::make_unique<OpenClKernel>(program_, made);
  kernel->name = name;

  Result<std::vector<ClParameter>> read = read_parameters(cl, made, name);
  if (!read.ok()) return read.status();
  std::vector<ClParameter>& parameters = read.value();
  const bool extra = signature && parameters.size() == signature->size() + 1;
  if (!parameters.empty() && (parameters.back().is_local || (extra && parameters.back().type.empty()))) {
    kernel->takes_shared = true;
    parameters.pop_back();
  }
  if (!signature) {
    Result<Signature> derived = derive_signature(name, parameters);
    if (!derived.ok()) return derived.status();
    kernel->signature = std::move(derived.value());
  } else {
    if (signature->size() != parameters.size()) {
      return invalid("kernel '" + name + "' has " + std::to_string(parameters.size()) +
                     " parameters, and the signature has " + std::to_string(signature->size()) +
                     "; give one kind for each, and none for a __local pointer at the end");
    }
    const Status fits = check_signature(name, *signature, parameters);
    if (!fits.ok()) return fits;
    kernel->signature = *signature;
  }
  Result<ArgumentLayout> layout =
      compute_layout(kernel->signature, kOpenClAbi, context.device.limits.max_argument_bytes);
  if (!layout.ok()) return invalid("kernel '" + name + "': " + layout.status().details().sentence);
  kernel->layout = std::move(layout.value());

  kernel->max_items = kernel_value<std::size_t>(context, made, kClKernelWorkGroupSize, 1);
  kernel->own_block = kernel_value<std::array<std::size_t, 3>>(context, made, kClKernelCompileWorkGroupSize, {});
  kernel->static_shared_bytes = kernel_value<cl_ulong>(context, made, kClKernelLocalMemSize, 0);
  return std::unique_ptr<KernelCode>(std::move(kernel));
}

Status check_opencl_launch(const ClContext& context, const OpenClKernel& kernel, const LaunchExtent& extent) {
  const Dim3& block = extent.block;
  const std::uint64_t items = std::uint64_t{block.x} * block.y * block.z;
  const auto& own = kernel.own_block;
  if (own[0] != 0 && (own[0] != block.x || own[1] != block.y || own[2] != block.z)) {
    return invalid("kernel '" + kernel.name + "' was built for blocks of " + triple(own[0], own[1], own[2]) +
                   " work items (reqd_work_group_size), and the launch has " + triple(block.x, block.y, block.z) +
                   "; launch it with its own");
  }
  if (items > kernel.max_items) {
    return invalid("kernel '" + kernel.name + "' can have " + std::to_string(kernel.max_items) +
                   " work items in a block on this device, and the launch has " + std::to_string(items) +
                   "; launch smaller blocks");
  }
  if (kernel.takes_shared && extent.shared_bytes == 0) {
    return invalid("kernel '" + kernel.name +
                   "' has a __local pointer as its last parameter, and the launch has 0 shared bytes; give its size");
  }
  if (!kernel.takes_shared && extent.shared_bytes != 0) {
    return {ErrorCode::kUnsupported, "kernel '" + kernel.name + "' is launched with " +
                                         std::to_string(extent.shared_bytes) +
                                         " shared bytes, and OpenCL passes them through a __local pointer behind the "
                                         "other parameters, which it does not have; add one or ask for none"};
  }
  const std::uint64_t needed = std::uint64_t{extent.shared_bytes} + kernel.static_shared_bytes;
  if (needed > context.device.limits.local_bytes) {
    return invalid("kernel '" + kernel.name + "' needs " + std::to_string(needed) +
                   " bytes of local memory for a block, and the device has " +
                   std::to_string(context.device.limits.local_bytes) + "; ask for fewer shared bytes");
  }
  return {};
}

}  // namespace slipway::internal
