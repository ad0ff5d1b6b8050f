#include "drivers/opencl/opencl_commands.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "drivers/opencl/opencl_module.h"

namespace slipway::internal {
namespace {

constexpr cl_bool kNonBlocking = 0;

Status take_event(const ClContext& context, cl_int code, const char* call, const char* what, cl_event made,
                  ClEvent& event) {
  if (code != kClSuccess) return cl_error(code, call, what);
  event = ClEvent(context.cl, made);
  return {};
}

Status set_tensor(ClContext& context, const OpenClKernel& kernel, cl_uint index, std::uint64_t address,
                  std::vector<ClMem>& kept) {
  const ClSymbols& cl = context.cl;
  if (context.memory.mode() == ClMemoryMode::kSvm) {
    void* pointer = nullptr;
    if (address != 0) {
      Result<void*> known = context.memory.pointer(address, 0);
      if (!known.ok()) return known.status();
      pointer = known.value();
    }
    const cl_int code = cl.clSetKernelArgSVMPointer(kernel.kernel, index, pointer);
    return code == kClSuccess ? Status() : cl_error(code, "clSetKernelArgSVMPointer", "it could not be passed");
  }
  cl_mem buffer = nullptr;
  if (address != 0) {
    Result<ClMem> found = context.memory.argument(address);
    if (!found.ok()) return found.status();
    buffer = found.value().get();
    if (buffer) kept.push_back(std::move(found.value()));
  }
  const cl_int code = cl.clSetKernelArg(kernel.kernel, index, sizeof buffer, &buffer);
  return code == kClSuccess ? Status() : cl_error(code, "clSetKernelArg", "it could not be passed");
}

Status set_arguments(ClContext& context, const OpenClKernel& kernel, const std::byte* arguments,
                     std::uint32_t shared_bytes, std::vector<ClMem>& kept) {
  cl_uint index = 0;
  for (const ArgumentSlot& slot : kernel.layout.slots) {
    Status status;
    if (slot.kind == ArgKind::kTensor) {
      std::uint64_t address = 0;
      std::memcpy(&address, arguments + slot.offset, sizeof address);
      status = set_tensor(context, kernel, index, address, kept);
    } else {
      const cl_int code = context.cl.clSetKernelArg(kernel.kernel, index, slot.size, arguments + slot.offset);
      if (code != kClSuccess) status = cl_error(code, "clSetKernelArg", "it could not be passed");
    }
    if (!status.ok()) {
      ErrorDetails details = status.details();
      details.sentence = "argument " + std::to_string(index) + ": " + details.sentence;
      return Status(std::move(details));
    }
    ++index;
  }
  if (kernel.takes_shared) {
    const cl_int code = context.cl.clSetKernelArg(kernel.kernel, index, shared_bytes, nullptr);
    if (code != kClSuccess) return cl_error(code, "clSetKernelArg", "its shared bytes could not be set");
  }
  return {};
}

}  // namespace

Status enqueue_launch(ClContext& context, cl_command_queue queue, const LaunchRecord& launch, ClEvent& event) {
  const auto& kernel = static_cast<const OpenClKernel&>(*launch.code);
  LaunchExtent extent;
  if (const LaunchExtent* given = extent_of(launch)) extent = *given;
  const std::size_t local[3] = {extent.block.x, extent.block.y, extent.block.z};
  const std::size_t global[3] = {local[0] * extent.grid.x, local[1] * extent.grid.y, local[2] * extent.grid.z};
  if (global[0] == 0 || global[1] == 0 || global[2] == 0) return {};

  std::vector<ClMem> kept;  // buffer mode: what the arguments refer to, until the command has its own references
  cl_event made = nullptr;
  const std::lock_guard lock(kernel.mutex);
  Status set = set_arguments(context, kernel, arguments_of(launch), extent.shared_bytes, kept);
  if (!set.ok()) return set;
  const cl_int code =
      context.cl.clEnqueueNDRangeKernel(queue, kernel.kernel, 3, nullptr, global, local, 0, nullptr, &made);
  return take_event(context, code, "clEnqueueNDRangeKernel", "it could not be enqueued", made, event);
}

Status enqueue_copy(ClContext& context, cl_command_queue queue, const CopyRecord& copy, const void* host_source,
                    ClEvent& event) {
  if (copy.bytes == 0) return {};
  const ClSymbols& cl = context.cl;
  OpenClMemory& memory = context.memory;
  const auto direction = host_source ? CopyDirection::kHostToDevice : static_cast<CopyDirection>(copy.header.flags);
  const void* host_from = host_source ? host_source : reinterpret_cast<const void*>(copy.from);
  void* host_to = reinterpret_cast<void*>(copy.to);
  cl_event made = nullptr;

  if (memory.mode() == ClMemoryMode::kSvm) {
    void* to = host_to;
    const void* from = host_from;
    if (direction != CopyDirection::kDeviceToHost) {
      Result<void*> known = memory.pointer(copy.to, copy.bytes);
      if (!known.ok()) return known.status();
      to = known.value();
    }
    if (direction != CopyDirection::kHostToDevice) {
      Result<void*> known = memory.pointer(copy.from, copy.bytes);
      if (!known.ok()) return known.status();
      from = known.value();
    }
    const cl_int code = cl.clEnqueueSVMMemcpy(queue, kNonBlocking, to, from, copy.bytes, 0, nullptr, &made);
    return take_event(context, code, "clEnqueueSVMMemcpy", "it could not be enqueued", made, event);
  }

  OpenClMemory::Place to{}, from{};
  if (direction != CopyDirection::kDeviceToHost) {
    Result<OpenClMemory::Place> place = memory.place(copy.to, copy.bytes);
    if (!place.ok()) return place.status();
    to = std::move(place.value());
  }
  if (direction != CopyDirection::kHostToDevice) {
    Result<OpenClMemory::Place> place = memory.place(copy.from, copy.bytes);
    if (!place.ok()) return place.status();
    from = std::move(place.value());
  }
  if (direction == CopyDirection::kHostToDevice) {
    const cl_int code = cl.clEnqueueWriteBuffer(queue, to.buffer.get(), kNonBlocking, to.offset, copy.bytes, host_from,
                                                0, nullptr, &made);
    return take_event(context, code, "clEnqueueWriteBuffer", "it could not be enqueued", made, event);
  }
  if (direction == CopyDirection::kDeviceToHost) {
    const cl_int code = cl.clEnqueueReadBuffer(queue, from.buffer.get(), kNonBlocking, from.offset, copy.bytes, host_to,
                                               0, nullptr, &made);
    return take_event(context, code, "clEnqueueReadBuffer", "it could not be enqueued", made, event);
  }
  const cl_int code = cl.clEnqueueCopyBuffer(queue, from.buffer.get(), to.buffer.get(), from.offset, to.offset,
                                             copy.bytes, 0, nullptr, &made);
  return take_event(context, code, "clEnqueueCopyBuffer", "it could not be enqueued", made, event);
}

Status enqueue_fill(ClContext& context, cl_command_queue queue, const FillRecord& fill, ClEvent& event) {
  const std::size_t pattern_bytes = fill.header.flags;
  const std::uint64_t bytes = fill.count * pattern_bytes;
  if (bytes == 0) return {};
  cl_event made = nullptr;
  if (fill.to % pattern_bytes != 0) {
    return {ErrorCode::kUnsupported,
            "its address is no multiple of the " + std::to_string(pattern_bytes) +
                " bytes of its pattern, which OpenCL needs; align it or use a smaller pattern"};
  }
  if (context.memory.mode() == ClMemoryMode::kSvm) {
    Result<void*> to = context.memory.pointer(fill.to, bytes);
    if (!to.ok()) return to.status();
    const cl_int code =
        context.cl.clEnqueueSVMMemFill(queue, to.value(), &fill.pattern, pattern_bytes, bytes, 0, nullptr, &made);
    return take_event(context, code, "clEnqueueSVMMemFill", "it could not be enqueued", made, event);
  }
  Result<OpenClMemory::Place> to = context.memory.place(fill.to, bytes);
  if (!to.ok()) return to.status();
  const cl_int code = context.cl.clEnqueueFillBuffer(queue, to.value().buffer.get(), &fill.pattern, pattern_bytes,
                                                     to.value().offset, bytes, 0, nullptr, &made);
  return take_event(context, code, "clEnqueueFillBuffer", "it could not be enqueued", made, event);
}

Status enqueue_marker(ClContext& context, cl_command_queue queue, ClEvent& event) {
  cl_event made = nullptr;
  const cl_int code = context.cl.clEnqueueMarkerWithWaitList(queue, 0, nullptr, &made);
  return take_event(context, code, "clEnqueueMarkerWithWaitList", "it could not be enqueued", made, event);
}

Status enqueue_wait(ClContext& context, cl_command_queue queue, const ClEvent& awaited, ClEvent& event) {
  const cl_event wanted = awaited.get();
  cl_event made = nullptr;
  const cl_int code = context.cl.clEnqueueBarrierWithWaitList(queue, 1, &wanted, &made);
  return take_event(context, code, "clEnqueueBarrierWithWaitList", "it could not be enqueued", made, event);
}

cl_int execution_status(const ClSymbols& cl, const ClEvent& event) noexcept {
  cl_int status = kClComplete;
  const cl_int code = cl.clGetEventInfo(event.get(), kClEventCommandExecutionStatus, sizeof status, &status, nullptr);
  return code == kClSuccess ? status : code;
}

}  // namespace slipway::internal
