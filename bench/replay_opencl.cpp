#include "replay_opencl.h"

#if defined(SLIPWAY_BENCH_OPENCL)

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <memory>

namespace bench {
namespace {

void check(cl_int status, const char* call) {
  if (status != CL_SUCCESS) throw std::runtime_error(std::string(call) + " returned " + std::to_string(status));
}

constexpr const char* kSource =
    "kernel void work(global uint* count, global const float* x, global const float* y, int a, int b, int c) {"
    "  count[0] += 1; count[1] += a + b + c; }";

// The handles live until the program ends, as the rows do.
struct Buffer {
  cl_command_queue queue = nullptr;
  cl_mem count = nullptr;
  cl_command_buffer_khr commands = nullptr;
  clEnqueueCommandBufferKHR_fn enqueue = nullptr;
  int nodes = 0;

  std::vector<cl_uint> counted() const {
    std::vector<cl_uint> values(2);
    check(clEnqueueReadBuffer(queue, count, CL_TRUE, 0, 8, values.data(), 0, nullptr, nullptr), "clEnqueueReadBuffer");
    return values;
  }
};

template <class Function>
Function extension(cl_platform_id platform, const char* name) {
  return reinterpret_cast<Function>(clGetExtensionFunctionAddressForPlatform(platform, name));
}

std::shared_ptr<Buffer> make(cl_platform_id platform, int nodes) {
  const auto create = extension<clCreateCommandBufferKHR_fn>(platform, "clCreateCommandBufferKHR");
  const auto finalize = extension<clFinalizeCommandBufferKHR_fn>(platform, "clFinalizeCommandBufferKHR");
  const auto command = extension<clCommandNDRangeKernelKHR_fn>(platform, "clCommandNDRangeKernelKHR");
  auto buffer = std::make_shared<Buffer>();
  buffer->enqueue = extension<clEnqueueCommandBufferKHR_fn>(platform, "clEnqueueCommandBufferKHR");
  if (!create || !finalize || !command || !buffer->enqueue) return nullptr;
  cl_device_id device = nullptr;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return nullptr;
  cl_int status = CL_SUCCESS;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  check(status, "clCreateContext");
  buffer->queue = clCreateCommandQueueWithProperties(context, device, nullptr, &status);
  check(status, "clCreateCommandQueue");
  const char* source = kSource;
  cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &status);
  check(status, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "work", &status);
  check(status, "clCreateKernel");
  buffer->count = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, nullptr, &status);
  check(status, "clCreateBuffer");
  const cl_uint zeros[16]{};
  check(clEnqueueWriteBuffer(buffer->queue, buffer->count, CL_TRUE, 0, sizeof zeros, zeros, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
  for (cl_uint i = 0; i < 3; ++i) check(clSetKernelArg(kernel, i, sizeof(cl_mem), &buffer->count), "clSetKernelArg");
  for (cl_int i = 1; i <= 3; ++i)
    check(clSetKernelArg(kernel, static_cast<cl_uint>(i) + 2, sizeof i, &i), "clSetKernelArg");
  buffer->commands = create(1, &buffer->queue, nullptr, &status);
  check(status, "clCreateCommandBufferKHR");
  const std::size_t one = 1;
  cl_sync_point_khr last = 0;
  for (int i = 0; i < nodes; ++i) {  // one after the other
    cl_sync_point_khr point = 0;
    check(command(buffer->commands, nullptr, nullptr, kernel, 1, nullptr, &one, &one, i == 0 ? 0 : 1,
                  i == 0 ? nullptr : &last, &point, nullptr),
          "clCommandNDRangeKernelKHR");
    last = point;
  }
  check(finalize(buffer->commands), "clFinalizeCommandBufferKHR");
  buffer->nodes = nodes;
  return buffer;
}

Sample replay(Buffer& b) {
  const cl_uint before = b.counted()[0];
  const std::int64_t start = now_ns();
  check(b.enqueue(1, &b.queue, b.commands, 0, nullptr, nullptr), "clEnqueueCommandBufferKHR");
  const std::int64_t submitted = now_ns();
  check(clFinish(b.queue), "clFinish");
  const std::int64_t end = now_ns();
  prove(b.counted()[0] - before == static_cast<cl_uint>(b.nodes), "the commands of OpenCL's buffer");
  return {static_cast<double>(submitted - start) / b.nodes, static_cast<double>(end - start) / b.nodes};
}

}  // namespace

void add_command_buffer(Rows& rows, Report& report, int nodes) {
  cl_platform_id platform = nullptr;
  std::shared_ptr<Buffer> buffer;
  if (clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS) {
    const StartsOn side(Sides::kBoth);
    buffer = make(platform, nodes);
  }
  if (buffer) rows.add("across", "OpenCL command buffer", [buffer] { return replay(*buffer); });
  else report.skipped.push_back("OpenCL's command buffer: no platform here has cl_khr_command_buffer");
}

}  // namespace bench

#else

namespace bench {

void add_command_buffer(Rows&, Report& report, int) {
  report.skipped.push_back("OpenCL's command buffer: this was built without OpenCL's headers");
}

}  // namespace bench

#endif
