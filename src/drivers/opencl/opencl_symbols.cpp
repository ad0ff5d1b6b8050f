#include "drivers/opencl/opencl_symbols.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>

#include "base/dynamic_library.h"

namespace slipway::internal {
namespace {

struct Loaded {
  DynamicLibrary library;
  ClSymbols symbols{};
};

class Finder {
 public:
  explicit Finder(const DynamicLibrary& library) : library_(library) {}

  template <class Function>
  void optional(Function*& place, const char* name) const {
    place = reinterpret_cast<Function*>(library_.symbol(name));
  }
  template <class Function>
  void required(Function*& place, const char* name) {
    optional(place, name);
    if (!place) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
  }
  const std::string& missing() const { return missing_; }

 private:
  const DynamicLibrary& library_;
  std::string missing_;
};

std::string find_all(const DynamicLibrary& library, ClSymbols& cl) {
  Finder find(library);
  find.required(cl.clGetPlatformIDs, "clGetPlatformIDs");
  find.required(cl.clGetPlatformInfo, "clGetPlatformInfo");
  find.required(cl.clGetDeviceIDs, "clGetDeviceIDs");
  find.required(cl.clGetDeviceInfo, "clGetDeviceInfo");
  find.required(cl.clCreateContext, "clCreateContext");
  find.required(cl.clReleaseContext, "clReleaseContext");
  find.required(cl.clCreateCommandQueue, "clCreateCommandQueue");
  find.required(cl.clRetainCommandQueue, "clRetainCommandQueue");
  find.required(cl.clReleaseCommandQueue, "clReleaseCommandQueue");
  find.required(cl.clGetCommandQueueInfo, "clGetCommandQueueInfo");
  find.required(cl.clFlush, "clFlush");
  find.required(cl.clCreateBuffer, "clCreateBuffer");
  find.required(cl.clCreateSubBuffer, "clCreateSubBuffer");
  find.required(cl.clRetainMemObject, "clRetainMemObject");
  find.required(cl.clReleaseMemObject, "clReleaseMemObject");
  find.required(cl.clCreateProgramWithSource, "clCreateProgramWithSource");
  find.required(cl.clBuildProgram, "clBuildProgram");
  find.required(cl.clGetProgramInfo, "clGetProgramInfo");
  find.required(cl.clGetProgramBuildInfo, "clGetProgramBuildInfo");
  find.required(cl.clReleaseProgram, "clReleaseProgram");
  find.required(cl.clCreateKernel, "clCreateKernel");
  find.required(cl.clReleaseKernel, "clReleaseKernel");
  find.required(cl.clSetKernelArg, "clSetKernelArg");
  find.required(cl.clGetKernelInfo, "clGetKernelInfo");
  find.required(cl.clGetKernelArgInfo, "clGetKernelArgInfo");
  find.required(cl.clGetKernelWorkGroupInfo, "clGetKernelWorkGroupInfo");
  find.required(cl.clEnqueueNDRangeKernel, "clEnqueueNDRangeKernel");
  find.required(cl.clEnqueueReadBuffer, "clEnqueueReadBuffer");
  find.required(cl.clEnqueueWriteBuffer, "clEnqueueWriteBuffer");
  find.required(cl.clEnqueueCopyBuffer, "clEnqueueCopyBuffer");
  find.required(cl.clEnqueueFillBuffer, "clEnqueueFillBuffer");
  find.required(cl.clEnqueueMarkerWithWaitList, "clEnqueueMarkerWithWaitList");
  find.required(cl.clEnqueueBarrierWithWaitList, "clEnqueueBarrierWithWaitList");
  find.required(cl.clRetainEvent, "clRetainEvent");
  find.required(cl.clReleaseEvent, "clReleaseEvent");
  find.required(cl.clGetEventInfo, "clGetEventInfo");
  find.required(cl.clGetEventProfilingInfo, "clGetEventProfilingInfo");
  find.required(cl.clSetEventCallback, "clSetEventCallback");
  find.optional(cl.clCreateCommandQueueWithProperties, "clCreateCommandQueueWithProperties");
  find.optional(cl.clSVMAlloc, "clSVMAlloc");
  find.optional(cl.clSVMFree, "clSVMFree");
  find.optional(cl.clSetKernelArgSVMPointer, "clSetKernelArgSVMPointer");
  find.optional(cl.clEnqueueSVMMemcpy, "clEnqueueSVMMemcpy");
  find.optional(cl.clEnqueueSVMMemFill, "clEnqueueSVMMemFill");
  return find.missing();
}

struct CodeRow {
  cl_int code;
  const char* name;
};

constexpr CodeRow kCodes[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-8, "CL_MEM_COPY_OVERLAP"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-12, "CL_MAP_FAILURE"},
    {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-15, "CL_COMPILE_PROGRAM_FAILURE"},
    {-16, "CL_LINKER_NOT_AVAILABLE"},
    {-17, "CL_LINK_PROGRAM_FAILURE"},
    {-18, "CL_DEVICE_PARTITION_FAILED"},
    {-19, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"},
    {-30, "CL_INVALID_VALUE"},
    {-31, "CL_INVALID_DEVICE_TYPE"},
    {-32, "CL_INVALID_PLATFORM"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-35, "CL_INVALID_QUEUE_PROPERTIES"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-37, "CL_INVALID_HOST_PTR"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-42, "CL_INVALID_BINARY"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-44, "CL_INVALID_PROGRAM"},
    {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-47, "CL_INVALID_KERNEL_DEFINITION"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-53, "CL_INVALID_WORK_DIMENSION"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-56, "CL_INVALID_GLOBAL_OFFSET"},
    {-57, "CL_INVALID_EVENT_WAIT_LIST"},
    {-58, "CL_INVALID_EVENT"},
    {-59, "CL_INVALID_OPERATION"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-64, "CL_INVALID_PROPERTY"},
    {-66, "CL_INVALID_COMPILER_OPTIONS"},
    {-70, "CL_INVALID_DEVICE_QUEUE"},
    {-72, "CL_MAX_SIZE_RESTRICTION_EXCEEDED"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};

constexpr cl_int kPlatformNotFoundKhr = -1001;
constexpr cl_int kLastStandardCode = -100;

ErrorCode code_of(cl_int code, ClPhase phase) noexcept {
  switch (code) {
    case kClDeviceNotAvailable:
    case kClInvalidContext:       // what several vendors answer once a fault
    case kClInvalidCommandQueue:  // has taken the context down
      return ErrorCode::kDeviceLost;
    case kClOutOfResources: return phase == ClPhase::kExecution ? ErrorCode::kDeviceLost : ErrorCode::kOutOfMemory;
    case kClMemObjectAllocationFailure:
    case kClOutOfHostMemory: return ErrorCode::kOutOfMemory;
    default: break;
  }
  if (phase == ClPhase::kExecution) {
    if (code < kLastStandardCode) return ErrorCode::kDeviceLost;
    return code == kClExecStatusErrorForEventsInWaitList ? ErrorCode::kCancelled : ErrorCode::kKernelFailed;
  }
  switch (code) {
    case kClDeviceNotFound:
    case kPlatformNotFoundKhr: return ErrorCode::kUnavailable;
    case kClCompilerNotAvailable: return ErrorCode::kUnsupported;
    case kClMemCopyOverlap:
    case kClBuildProgramFailure:
    case kClInvalidBuildOptions:
    case kClInvalidKernelName:
    case kClInvalidArgIndex:
    case kClInvalidArgValue:
    case kClInvalidArgSize:
    case kClInvalidKernelArgs:
    case kClInvalidWorkGroupSize:
    case kClInvalidWorkItemSize:
    case kClInvalidBufferSize:
    case kClInvalidGlobalWorkSize: return ErrorCode::kInvalidArgument;
    default: return ErrorCode::kInternal;
  }
}

const char* advice(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kDeviceLost: return "reset the device and make its streams, modules and memory anew";
    case ErrorCode::kOutOfMemory: return "free memory or ask for less of it";
    case ErrorCode::kUnavailable: return "look with 'clinfo' for what is installed";
    case ErrorCode::kUnsupported: return "use a device that can do this";
    case ErrorCode::kCancelled: return "look for the failure of the stream that it waits for";
    case ErrorCode::kKernelFailed: return "check what the kernel does with these arguments";
    case ErrorCode::kInvalidArgument: return "correct what was passed";
    default: return "this is a bug in Slipway or in the OpenCL implementation; please report it";
  }
}

}  // namespace

Result<const ClSymbols*> load_opencl() {
  // Which process did first. Relaxed: in a child it was stored before the fork, and siblings need not know.
  static std::atomic<pid_t> loading{0};
  pid_t process = 0;
  if (!loading.compare_exchange_strong(process, ::getpid(), std::memory_order_relaxed) && process != ::getpid()) {
    // The lock below may be held for ever, too.
    return Status(ErrorCode::kFailedPrecondition,
                  "OpenCL was loaded by process " + std::to_string(process) +
                      " before a fork, and its implementation's threads are not in process " +
                      std::to_string(::getpid()) +
                      "; open OpenCL devices in a child of a process that has not, or in a program that the child "
                      "executes");
  }
  static std::mutex mutex;
  static const Loaded* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded) return &loaded->symbols;
  Result<DynamicLibrary> library = DynamicLibrary::open("libOpenCL.so.1");
  if (!library.ok()) {
    return Status(ErrorCode::kUnavailable,
                  "OpenCL is not there: " + library.status().details().sentence +
                      "; install an OpenCL ICD loader (Debian: ocl-icd-libopencl1) and an implementation");
  }
  auto found = std::make_unique<Loaded>();
  found->library = std::move(library.value());
  const std::string missing = find_all(found->library, found->symbols);
  if (!missing.empty()) {
    return Status(ErrorCode::kUnavailable,
                  "the OpenCL loader 'libOpenCL.so.1' lacks " + missing + "; install one for OpenCL 1.2 or newer");
  }
  loaded = found.release();
  return &loaded->symbols;
}

const char* cl_code_name(cl_int code) noexcept {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return row.name;
  }
  return "an unknown code";
}

Status cl_error(cl_int code, const char* call, const std::string& what, ClPhase phase) {
  ErrorDetails details;
  details.code = code_of(code, phase);
  details.sentence = what + ": " +
                     (phase == ClPhase::kCall ? std::string(call) + " returned " : "the device ended it with ") +
                     cl_code_name(code) + " (" + std::to_string(code) + "); " + advice(details.code);
  details.stable = details.code == ErrorCode::kInvalidArgument || details.code == ErrorCode::kUnsupported;
  return Status(std::move(details));
}

}  // namespace slipway::internal
