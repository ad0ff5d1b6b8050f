// The vendor's side of the OpenCL driver: our own declarations of the types, constants and functions that it
// uses (as OpenCL 3.0 defines them), found at run time in the ICD loader. The functions keep their vendor's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace slipway::internal {

using cl_int = std::int32_t;
using cl_uint = std::uint32_t;
using cl_ulong = std::uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;
using cl_properties = std::intptr_t;

using cl_platform_id = struct ClPlatformObject*;
using cl_device_id = struct ClDeviceObject*;
using cl_context = struct ClContextObject*;
using cl_command_queue = struct ClQueueObject*;
using cl_mem = struct ClMemObject*;
using cl_program = struct ClProgramObject*;
using cl_kernel = struct ClKernelObject*;
using cl_event = struct ClEventObject*;

struct ClBufferRegion {
  std::size_t origin;
  std::size_t size;
};

constexpr cl_int kClSuccess = 0;
constexpr cl_int kClDeviceNotFound = -1;
constexpr cl_int kClDeviceNotAvailable = -2;
constexpr cl_int kClCompilerNotAvailable = -3;
constexpr cl_int kClMemObjectAllocationFailure = -4;
constexpr cl_int kClOutOfResources = -5;
constexpr cl_int kClOutOfHostMemory = -6;
constexpr cl_int kClProfilingInfoNotAvailable = -7;
constexpr cl_int kClMemCopyOverlap = -8;
constexpr cl_int kClBuildProgramFailure = -11;
constexpr cl_int kClExecStatusErrorForEventsInWaitList = -14;
constexpr cl_int kClInvalidContext = -34;
constexpr cl_int kClInvalidCommandQueue = -36;
constexpr cl_int kClInvalidBuildOptions = -43;
constexpr cl_int kClInvalidKernelName = -46;
constexpr cl_int kClInvalidArgIndex = -49;
constexpr cl_int kClInvalidArgValue = -50;
constexpr cl_int kClInvalidArgSize = -51;
constexpr cl_int kClInvalidKernelArgs = -52;
constexpr cl_int kClInvalidWorkGroupSize = -54;
constexpr cl_int kClInvalidWorkItemSize = -55;
constexpr cl_int kClInvalidBufferSize = -61;
constexpr cl_int kClInvalidGlobalWorkSize = -63;

constexpr cl_int kClComplete = 0;  // an event's status; running and earlier ones are above it, failures below

constexpr cl_uint kClPlatformName = 0x0902;
constexpr cl_bitfield kClDeviceTypeAll = 0xFFFFFFFF;
constexpr cl_uint kClDeviceMaxWorkGroupSize = 0x1004;
constexpr cl_uint kClDeviceMaxWorkItemSizes = 0x1005;
constexpr cl_uint kClDeviceMaxMemAllocSize = 0x1010;
constexpr cl_uint kClDeviceMaxParameterSize = 0x1017;
constexpr cl_uint kClDeviceMemBaseAddrAlign = 0x1019;  // in bits
constexpr cl_uint kClDeviceMinDataTypeAlignSize = 0x101A;
constexpr cl_uint kClDeviceGlobalMemSize = 0x101F;
constexpr cl_uint kClDeviceLocalMemSize = 0x1023;
constexpr cl_uint kClDeviceName = 0x102B;
constexpr cl_uint kClDeviceVersion = 0x102F;
constexpr cl_uint kClDeviceSvmCapabilities = 0x1053;
constexpr cl_bitfield kClSvmCoarseGrainBuffer = 1;
constexpr cl_bitfield kClMemReadWrite = 1;
constexpr cl_uint kClBufferCreateTypeRegion = 0x1220;
constexpr cl_uint kClQueueContext = 0x1090;
constexpr cl_uint kClQueueDevice = 0x1091;
constexpr cl_uint kClQueueProperties = 0x1093;
constexpr cl_bitfield kClQueueOutOfOrder = 1;
constexpr cl_bitfield kClQueueProfiling = 2;
constexpr cl_uint kClProgramKernelNames = 0x1168;
constexpr cl_uint kClProgramBuildLog = 0x1183;
constexpr cl_uint kClKernelNumArgs = 0x1191;
constexpr cl_uint kClKernelArgAddressQualifier = 0x1196;
constexpr cl_uint kClKernelArgTypeName = 0x1198;
constexpr cl_uint kClKernelArgTypeQualifier = 0x1199;
constexpr cl_uint kClKernelArgAddressGlobal = 0x119B;
constexpr cl_uint kClKernelArgAddressLocal = 0x119C;
constexpr cl_uint kClKernelArgAddressConstant = 0x119D;
constexpr cl_bitfield kClKernelArgTypeConst = 1;
constexpr cl_uint kClKernelWorkGroupSize = 0x11B0;
constexpr cl_uint kClKernelCompileWorkGroupSize = 0x11B1;
constexpr cl_uint kClKernelLocalMemSize = 0x11B2;
constexpr cl_uint kClEventCommandExecutionStatus = 0x11D3;
constexpr cl_uint kClProfilingCommandQueued = 0x1280;
constexpr cl_uint kClProfilingCommandStart = 0x1282;
constexpr cl_uint kClProfilingCommandEnd = 0x1283;

// Entries marked optional may be null; all others are there.
struct ClSymbols {
  cl_int (*clGetPlatformIDs)(cl_uint, cl_platform_id*, cl_uint*);
  cl_int (*clGetPlatformInfo)(cl_platform_id, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clGetDeviceIDs)(cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*);
  cl_int (*clGetDeviceInfo)(cl_device_id, cl_uint, std::size_t, void*, std::size_t*);
  cl_context (*clCreateContext)(const cl_properties*, cl_uint, const cl_device_id*,
                                void (*)(const char*, const void*, std::size_t, void*), void*, cl_int*);
  cl_int (*clReleaseContext)(cl_context);

  cl_command_queue (*clCreateCommandQueue)(cl_context, cl_device_id, cl_bitfield, cl_int*);
  cl_int (*clRetainCommandQueue)(cl_command_queue);
  cl_int (*clReleaseCommandQueue)(cl_command_queue);
  cl_int (*clGetCommandQueueInfo)(cl_command_queue, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clFlush)(cl_command_queue);

  cl_mem (*clCreateBuffer)(cl_context, cl_bitfield, std::size_t, void*, cl_int*);
  cl_mem (*clCreateSubBuffer)(cl_mem, cl_bitfield, cl_uint, const void*, cl_int*);
  cl_int (*clRetainMemObject)(cl_mem);
  cl_int (*clReleaseMemObject)(cl_mem);

  cl_program (*clCreateProgramWithSource)(cl_context, cl_uint, const char**, const std::size_t*, cl_int*);
  cl_int (*clBuildProgram)(cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*);
  cl_int (*clGetProgramInfo)(cl_program, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clGetProgramBuildInfo)(cl_program, cl_device_id, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clReleaseProgram)(cl_program);
  cl_kernel (*clCreateKernel)(cl_program, const char*, cl_int*);
  cl_int (*clReleaseKernel)(cl_kernel);
  cl_int (*clSetKernelArg)(cl_kernel, cl_uint, std::size_t, const void*);
  cl_int (*clGetKernelInfo)(cl_kernel, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clGetKernelArgInfo)(cl_kernel, cl_uint, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clGetKernelWorkGroupInfo)(cl_kernel, cl_device_id, cl_uint, std::size_t, void*, std::size_t*);

  cl_int (*clEnqueueNDRangeKernel)(cl_command_queue, cl_kernel, cl_uint, const std::size_t*, const std::size_t*,
                                   const std::size_t*, cl_uint, const cl_event*, cl_event*);
  cl_int (*clEnqueueReadBuffer)(cl_command_queue, cl_mem, cl_bool, std::size_t, std::size_t, void*, cl_uint,
                                const cl_event*, cl_event*);
  cl_int (*clEnqueueWriteBuffer)(cl_command_queue, cl_mem, cl_bool, std::size_t, std::size_t, const void*, cl_uint,
                                 const cl_event*, cl_event*);
  cl_int (*clEnqueueCopyBuffer)(cl_command_queue, cl_mem, cl_mem, std::size_t, std::size_t, std::size_t, cl_uint,
                                const cl_event*, cl_event*);
  cl_int (*clEnqueueFillBuffer)(cl_command_queue, cl_mem, const void*, std::size_t, std::size_t, std::size_t, cl_uint,
                                const cl_event*, cl_event*);
  cl_int (*clEnqueueMarkerWithWaitList)(cl_command_queue, cl_uint, const cl_event*, cl_event*);
  cl_int (*clEnqueueBarrierWithWaitList)(cl_command_queue, cl_uint, const cl_event*, cl_event*);

  cl_int (*clRetainEvent)(cl_event);
  cl_int (*clReleaseEvent)(cl_event);
  cl_int (*clGetEventInfo)(cl_event, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clGetEventProfilingInfo)(cl_event, cl_uint, std::size_t, void*, std::size_t*);
  cl_int (*clSetEventCallback)(cl_event, cl_int, void (*)(cl_event, cl_int, void*), void*);

  // Optional: OpenCL 2.0.
  cl_command_queue (*clCreateCommandQueueWithProperties)(cl_context, cl_device_id, const cl_bitfield*, cl_int*);
  void* (*clSVMAlloc)(cl_context, cl_bitfield, std::size_t, cl_uint);
  void (*clSVMFree)(cl_context, void*);
  cl_int (*clSetKernelArgSVMPointer)(cl_kernel, cl_uint, const void*);
  cl_int (*clEnqueueSVMMemcpy)(cl_command_queue, cl_bool, void*, const void*, std::size_t, cl_uint, const cl_event*,
                               cl_event*);
  cl_int (*clEnqueueSVMMemFill)(cl_command_queue, void*, const void*, std::size_t, std::size_t, cl_uint,
                                const cl_event*, cl_event*);

  bool has_svm() const noexcept {
    return clSVMAlloc && clSVMFree && clSetKernelArgSVMPointer && clEnqueueSVMMemcpy && clEnqueueSVMMemFill;
  }
};

// The loader's symbols, opened on the first call that finds it and kept for the life of the process: the
// implementations behind it run threads of their own and cannot be unloaded. Unavailable when there is no loader or
// it lacks a function.
Result<const ClSymbols*> load_opencl();

enum class ClPhase {
  kCall,       // a function returned the code
  kExecution,  // a command's event has it as its status
};

// The one place where vendor codes become ours. `what` begins the sentence: "kernel 'add' could not be launched".
// During execution CL_OUT_OF_RESOURCES, CL_DEVICE_NOT_AVAILABLE and codes beyond the standard's (vendors report faults
// with them) mean that the device is lost.
Status cl_error(cl_int code, const char* call, const std::string& what, ClPhase phase = ClPhase::kCall);

// The code's name, "CL_OUT_OF_RESOURCES", or "an unknown code".
const char* cl_code_name(cl_int code) noexcept;

// One reference to an OpenCL object.
template <class T, cl_int (*ClSymbols::*kRetain)(T), cl_int (*ClSymbols::*kRelease)(T)>
class ClHandle {
 public:
  ClHandle() noexcept = default;
  ClHandle(const ClSymbols& cl, T object) noexcept : cl_(&cl), object_(object) {}  // takes over one reference
  ~ClHandle() {
    if (object_) (cl_->*kRelease)(object_);
  }
  ClHandle(ClHandle&& other) noexcept : cl_(other.cl_), object_(std::exchange(other.object_, nullptr)) {}
  ClHandle& operator=(ClHandle&& other) noexcept {
    std::swap(cl_, other.cl_);
    std::swap(object_, other.object_);
    return *this;
  }

  // Another reference to the same object.
  ClHandle share() const noexcept {
    if (!object_) return {};
    (cl_->*kRetain)(object_);
    return ClHandle(*cl_, object_);
  }
  T get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  const ClSymbols* cl_ = nullptr;
  T object_ = nullptr;
};

using ClEvent = ClHandle<cl_event, &ClSymbols::clRetainEvent, &ClSymbols::clReleaseEvent>;
using ClMem = ClHandle<cl_mem, &ClSymbols::clRetainMemObject, &ClSymbols::clReleaseMemObject>;

}  // namespace slipway::internal
