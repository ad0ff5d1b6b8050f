#include "drivers/opencl/opencl_context.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <vector>

#include "record/record.h"

namespace slipway::internal {
namespace {

template <class T>
T device_value(const ClSymbols& cl, cl_device_id device, cl_uint what, T fallback) {
  T value{};
  return cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == kClSuccess ? value : fallback;
}

std::string device_text(const ClSymbols& cl, cl_device_id device, cl_uint what) {
  return cl_text([&](std::size_t size, void* value, std::size_t* needed) {
    return cl.clGetDeviceInfo(device, what, size, value, needed);
  });
}

std::uint32_t clamp32(std::uint64_t value) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::int32_t>::max()));
}

ClLimits limits_of(const ClSymbols& cl, cl_platform_id platform, cl_device_id device) {
  ClLimits limits;
  const std::string platform_name = cl_text([&](std::size_t size, void* value, std::size_t* needed) {
    return cl.clGetPlatformInfo(platform, kClPlatformName, size, value, needed);
  });
  limits.name = device_text(cl, device, kClDeviceName) + " (" + platform_name + ")";
  const auto sizes = device_value<std::array<std::size_t, 3>>(cl, device, kClDeviceMaxWorkItemSizes, {1, 1, 1});
  limits.max_block = Dim3{clamp32(sizes[0]), clamp32(sizes[1]), clamp32(sizes[2])};
  limits.max_block_items = device_value<std::size_t>(cl, device, kClDeviceMaxWorkGroupSize, 1);
  limits.local_bytes = device_value<cl_ulong>(cl, device, kClDeviceLocalMemSize, 0);
  limits.total_bytes = device_value<cl_ulong>(cl, device, kClDeviceGlobalMemSize, 0);
  limits.max_block_bytes = device_value<cl_ulong>(cl, device, kClDeviceMaxMemAllocSize, 0);
  const auto parameters = device_value<std::size_t>(cl, device, kClDeviceMaxParameterSize, 256);
  limits.max_argument_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(parameters, kMaxArgumentBytes));
  limits.base_alignment = std::max(1U, device_value<cl_uint>(cl, device, kClDeviceMemBaseAddrAlign, 1024) / 8);
  limits.data_alignment = std::max(1U, device_value<cl_uint>(cl, device, kClDeviceMinDataTypeAlignSize, 1));
  const auto svm = device_value<cl_bitfield>(cl, device, kClDeviceSvmCapabilities, 0);
  limits.has_svm = cl.has_svm() && (svm & kClSvmCoarseGrainBuffer) != 0;
  return limits;
}

Status none_there(const std::string& what, std::int64_t index, std::size_t count) {
  return {ErrorCode::kUnavailable, "there is no OpenCL " + what + " " + std::to_string(index) + ": " +
                                       std::to_string(count) + " found" +
                                       (count == 0 ? "; install an implementation (clinfo lists what is there)"
                                                   : ", counted from 0; give a smaller number in the device URI")};
}

}  // namespace

Result<ClDevice> find_device(std::int64_t platform_index, std::int64_t device_index) {
  Result<const ClSymbols*> loaded = load_opencl();
  if (!loaded.ok()) return loaded.status();
  const ClSymbols& cl = *loaded.value();

  cl_uint count = 0;
  if (cl.clGetPlatformIDs(0, nullptr, &count) != kClSuccess) count = 0;  // the loader's word for none is an error
  const auto platform_place = static_cast<std::uint64_t>(platform_index);
  if (platform_place >= count) return none_there("platform", platform_index, count);
  std::vector<cl_platform_id> platforms(count);
  cl_int code = cl.clGetPlatformIDs(count, platforms.data(), nullptr);
  if (code != kClSuccess) return cl_error(code, "clGetPlatformIDs", "the OpenCL platforms could not be listed");

  ClDevice found;
  found.cl = &cl;
  found.platform = platforms[platform_place];
  count = 0;
  if (cl.clGetDeviceIDs(found.platform, kClDeviceTypeAll, 0, nullptr, &count) != kClSuccess) count = 0;
  const auto device_place = static_cast<std::uint64_t>(device_index);
  if (device_place >= count) {
    return none_there("device of platform " + std::to_string(platform_index) + ", device", device_index, count);
  }
  std::vector<cl_device_id> devices(count);
  code = cl.clGetDeviceIDs(found.platform, kClDeviceTypeAll, count, devices.data(), nullptr);
  if (code != kClSuccess) return cl_error(code, "clGetDeviceIDs", "the OpenCL devices could not be listed");
  found.device = devices[device_place];

  const std::string version = device_text(cl, found.device, kClDeviceVersion);
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12) {
    return Status(ErrorCode::kUnavailable, "the OpenCL device " + std::to_string(device_index) + " of platform " +
                                               std::to_string(platform_index) + " says it is '" + version +
                                               "', and 1.2 is the oldest that can be driven; choose another");
  }
  found.limits = limits_of(cl, found.platform, found.device);
  return found;
}

Result<std::shared_ptr<ClContext>> ClContext::create(const ClDevice& device, ClMemoryMode mode) {
  constexpr cl_properties kContextPlatform = 0x1084;
  const cl_properties properties[] = {kContextPlatform, reinterpret_cast<cl_properties>(device.platform), 0};
  cl_int code = kClSuccess;
  const cl_context context = device.cl->clCreateContext(properties, 1, &device.device, nullptr, nullptr, &code);
  if (code != kClSuccess) {
    return cl_error(code, "clCreateContext", "the OpenCL device '" + device.limits.name + "' could not be opened");
  }
  return std::make_shared<ClContext>(device, context, mode);
}

ClContext::ClContext(const ClDevice& device_, cl_context context_, ClMemoryMode mode)
    : cl(*device_.cl),
      device(device_),
      context(context_),
      releaser_{cl, context_},
      memory(cl, context_, mode, device_.limits.max_block_bytes, device_.limits.base_alignment) {}

ClContext::~ClContext() = default;

}  // namespace slipway::internal
