#include "drivers/opencl/opencl_driver.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <utility>

#include "drivers/opencl/opencl_context.h"
#include "drivers/opencl/opencl_event.h"
#include "drivers/opencl/opencl_module.h"
#include "drivers/opencl/opencl_stream.h"

namespace slipway::internal {
namespace {

constexpr std::size_t kHostAlignment = 4096;

Status no_code(const std::string& what) {
  ErrorDetails details;
  details.code = ErrorCode::kUnsupported;
  details.sentence = what + " cannot run on an OpenCL device; load OpenCL C with load_source";
  details.stable = true;
  return Status(std::move(details));
}

class OpenClDriver final : public Driver {
 public:
  OpenClDriver(DriverEnvironment& environment, std::shared_ptr<ClContext> context, DeviceInfo info,
               const ClSubmissionQueue::Options& queue)
      : shared_(std::make_shared<OpenClShared>(environment, queue)),
        info_(std::move(info)),
        context_(std::move(context)) {}

  const DeviceInfo& info() const override { return info_; }
  const AbiDescriptor& abi() const override { return kOpenClAbi; }

  Result<std::shared_ptr<DriverStream>> create_stream(const StreamOptions& options) override;
  Result<std::shared_ptr<DriverStream>> adopt_stream(void* native) override;
  Result<std::unique_ptr<DriverEvent>> create_event(const EventOptions& options) override {
    return std::unique_ptr<DriverEvent>(std::make_unique<OpenClEvent>(shared_, context(), options.timing));
  }
  Result<std::unique_ptr<DriverHold>> create_hold() override {
    return std::unique_ptr<DriverHold>(std::make_unique<OpenClHold>(shared_));
  }

  Result<DevicePtr> allocate(std::uint64_t bytes) override { return context()->memory.allocate(bytes); }
  void free(DevicePtr address) override { release(address); }
  Result<void*> allocate_host(std::uint64_t bytes) override;
  void free_host(void* memory) override { std::free(memory); }
  Status adopt_memory(DevicePtr address, std::uint64_t bytes) override {
    return context()->memory.adopt(address, bytes);
  }
  void forget_memory(DevicePtr address) override { release(address); }

  Result<std::unique_ptr<DriverModule>> load_table(std::span<const KernelDef>) override {
    return no_code("a table of C++ kernels");
  }
  Result<std::unique_ptr<DriverModule>> load_library(const std::string& path) override {
    return no_code("the shared library '" + path + "'");
  }
  Result<std::unique_ptr<DriverModule>> load_source(std::string_view source, std::string_view options) override {
    return OpenClModule::build(context(), source, options);
  }

  Status check_launch(const KernelCode& code, const LaunchExtent& extent) override {
    const auto& kernel = static_cast<const OpenClKernel&>(code);
    return check_opencl_launch(*kernel.program->context, kernel, extent);
  }

  Status reset() override;
  bool shut_down(std::int64_t deadline_ns) override;
  void* native_handle() override { return context()->context; }

 private:
  std::shared_ptr<ClContext> context() const {
    const std::lock_guard lock(mutex_);
    return context_;
  }
  void release(DevicePtr address);

  const std::shared_ptr<OpenClShared> shared_;
  const DeviceInfo info_;
  mutable std::mutex mutex_;  // guards the rest; nothing is called or locked inside
  std::shared_ptr<ClContext> context_;
  std::vector<std::shared_ptr<ClContext>> lost_contexts_;  // for the memory that is still to be freed in them
};

Result<std::shared_ptr<DriverStream>> OpenClDriver::create_stream(const StreamOptions& options) {
  const std::shared_ptr<ClContext> context = this->context();
  const ClSymbols& cl = context->cl;
  const cl_device_id device = context->device.device;
  cl_int code = kClSuccess;
  cl_command_queue queue = nullptr;
  const char* call = "clCreateCommandQueueWithProperties";
  if (cl.clCreateCommandQueueWithProperties) {
    const cl_bitfield properties[] = {kClQueueProperties, kClQueueProfiling, 0};
    queue = cl.clCreateCommandQueueWithProperties(context->context, device, properties, &code);
  } else {
    call = "clCreateCommandQueue";
    queue = cl.clCreateCommandQueue(context->context, device, kClQueueProfiling, &code);
  }
  if (code != kClSuccess) return cl_error(code, call, "a stream could not be made");
  return std::shared_ptr<DriverStream>(OpenClStream::create(shared_, context, queue, options.ring_bytes, options.name));
}

Result<std::shared_ptr<DriverStream>> OpenClDriver::adopt_stream(void* native) {
  const std::shared_ptr<ClContext> context = this->context();
  const ClSymbols& cl = context->cl;
  const auto queue = static_cast<cl_command_queue>(native);
  if (!queue) {
    return Status(ErrorCode::kInvalidArgument, "a null queue was to be adopted; pass a cl_command_queue");
  }
  cl_context owner = nullptr;
  cl_device_id device = nullptr;
  cl_bitfield properties = 0;
  cl_int code = cl.clGetCommandQueueInfo(queue, kClQueueContext, sizeof owner, &owner, nullptr);
  if (code == kClSuccess) code = cl.clGetCommandQueueInfo(queue, kClQueueDevice, sizeof device, &device, nullptr);
  if (code == kClSuccess) {
    code = cl.clGetCommandQueueInfo(queue, kClQueueProperties, sizeof properties, &properties, nullptr);
  }
  if (code == kClInvalidCommandQueue) {
    return Status(ErrorCode::kInvalidArgument,
                  "what was to be adopted is no cl_command_queue (CL_INVALID_COMMAND_QUEUE)");
  }
  if (code != kClSuccess) return cl_error(code, "clGetCommandQueueInfo", "a queue could not be adopted");
  if (owner != context->context || device != context->device.device) {
    return Status(ErrorCode::kInvalidArgument,
                  "a queue of another context or device was to be adopted; make it in Device::native_handle() for the "
                  "device '" +
                      context->device.limits.name + "'");
  }
  if ((properties & kClQueueOutOfOrder) != 0) {
    return Status(ErrorCode::kInvalidArgument,
                  "an out-of-order queue was to be adopted; streams are in order, so make "
                  "one without CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
  }
  code = cl.clRetainCommandQueue(queue);
  if (code != kClSuccess) return cl_error(code, "clRetainCommandQueue", "a queue could not be adopted");
  const StreamOptions defaults;
  return std::shared_ptr<DriverStream>(OpenClStream::create(shared_, context, queue, defaults.ring_bytes, "adopted"));
}

Result<void*> OpenClDriver::allocate_host(std::uint64_t bytes) {
  const std::uint64_t rounded = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kHostAlignment, rounded);
  if (memory) return memory;
  return Status(ErrorCode::kOutOfMemory,
                "host memory of " + std::to_string(bytes) + " bytes could not be allocated; free some or ask for less");
}

void OpenClDriver::release(DevicePtr address) {
  std::vector<std::shared_ptr<ClContext>> contexts;
  {
    const std::lock_guard lock(mutex_);
    contexts = lost_contexts_;
    contexts.push_back(context_);
  }
  for (auto it = contexts.rbegin(); it != contexts.rend(); ++it) {
    if ((*it)->memory.release(address)) return;
  }
}

Status OpenClDriver::reset() {
  const std::shared_ptr<ClContext> old = context();
  if (!old->lost.load(std::memory_order_relaxed)) return {};
  Result<std::shared_ptr<ClContext>> fresh = ClContext::create(old->device, old->memory.mode());
  if (!fresh.ok()) return fresh.status();
  {
    const std::lock_guard lock(mutex_);
    lost_contexts_.push_back(old);
    context_ = std::move(fresh.value());
  }
  // Nothing that a lost context was given is sure to end, so its streams must not wait for it.
  const Status cause(ErrorCode::kStaleContext, "the stream was made before the device was reset; make a new one");
  for (const auto& stream : shared_->streams.all()) {
    if (stream->context() != old) continue;
    stream->close(cause);
    stream->progress().abandon();
  }
  return {};
}

bool OpenClDriver::shut_down(std::int64_t deadline_ns) {
  const Status cause(ErrorCode::kCancelled, "the device was closed before this had run");
  const auto streams = shared_->streams.all();
  for (const auto& stream : streams) stream->close(cause);
  bool launching_ended = true;
  for (const auto& stream : streams) launching_ended = stream->stop_launching(deadline_ns) && launching_ended;
  bool ended = shared_->host_functions.stop(deadline_ns);
  // A thread that is inside the implementation for good holds a stream's lock, and whoever waits for that is lost.
  if (!launching_ended) return false;
  // Discards what lay behind the host function that was running, and lets the queues run dry.
  for (const auto& stream : streams) ended = stream->drain(deadline_ns) && ended;
  return shared_->service.stop(deadline_ns) && ended;
}

Result<ClSubmissionQueue::Options> queue_options(const Uri& uri) {
  constexpr std::int64_t kDefaultSpin_us = 1000;  // as workers of the other drivers
  Result<std::size_t> mode = uri.choice("queue", {"inline", "park", "spin"});
  if (!mode.ok()) return mode.status();
  Result<std::size_t> per = uri.choice("queue_per", {"device", "stream"});
  if (!per.ok()) return per.status();
  Result<std::int64_t> spin_us = uri.number("spin_us", kDefaultSpin_us, 0, 1'000'000);
  if (!spin_us.ok()) return spin_us.status();
  ClSubmissionQueue::Options options;
  options.threaded = mode.value() != 0;
  options.per_stream = per.value() == 1;
  options.spin_ns = mode.value() == 2 ? spin_us.value() * 1000 : 0;
  if (!options.threaded && uri.text("queue_per")) {
    return Status(ErrorCode::kInvalidArgument, "the device URI '" + uri.text() +
                                                   "' says 'queue_per', which needs a launching thread; add queue=park "
                                                   "or queue=spin, or leave it out");
  }
  return options;
}

Result<ClMemoryMode> memory_mode(const Uri& uri, const ClLimits& limits) {
  if (!uri.text("memory")) return limits.has_svm ? ClMemoryMode::kSvm : ClMemoryMode::kBuffer;
  Result<std::size_t> wanted = uri.choice("memory", {"svm", "buffer"});
  if (!wanted.ok()) return wanted.status();
  if (wanted.value() == 1) return ClMemoryMode::kBuffer;
  if (limits.has_svm) return ClMemoryMode::kSvm;
  return Status(ErrorCode::kUnsupported, "the OpenCL device '" + limits.name +
                                             "' has no shared virtual memory of coarse-grained buffers; open it with "
                                             "memory=buffer");
}

DeviceInfo info_of(const Uri& uri, const ClLimits& limits, ClMemoryMode mode) {
  constexpr std::uint32_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();
  DeviceInfo info;
  info.uri = uri.text();
  info.driver = "opencl";
  info.name = limits.name;
  info.max_grid = Dim3{kMaxBlocks, kMaxBlocks, kMaxBlocks};
  info.max_block = limits.max_block;
  info.max_block_items = limits.max_block_items;
  info.max_shared_bytes = limits.local_bytes;
  info.max_argument_bytes = limits.max_argument_bytes;
  info.total_memory_bytes = limits.total_bytes;
  info.memory_alignment = mode == ClMemoryMode::kSvm ? limits.data_alignment : limits.base_alignment;
  info.tensor_alignment = mode == ClMemoryMode::kSvm ? 1 : limits.base_alignment;
  return info;
}

Result<std::unique_ptr<Driver>> open_opencl(const Uri& uri, DriverEnvironment& environment) {
  const Status known =
      uri.allow_only({"platform", "device", "memory", "queue", "queue_per", "spin_us", "wait_limit_ms", "blocking"});
  if (!known.ok()) return known;
  constexpr std::int64_t kMaxIndex = 255;
  Result<std::int64_t> platform = uri.number("platform", 0, 0, kMaxIndex);
  if (!platform.ok()) return platform.status();
  Result<std::int64_t> device = uri.number("device", 0, 0, kMaxIndex);
  if (!device.ok()) return device.status();
  Result<std::int64_t> spin_us = uri.number("spin_us", 0, 0, 1'000'000);
  if (!spin_us.ok()) return spin_us.status();
  Result<std::int64_t> limit_ms = uri.number("wait_limit_ms", 60'000, 1, 86'400'000);
  if (!limit_ms.ok()) return limit_ms.status();
  Result<bool> blocking = uri.flag("blocking");
  if (!blocking.ok()) return blocking.status();
  Result<ClSubmissionQueue::Options> queue = queue_options(uri);
  if (!queue.ok()) return queue.status();

  Result<ClDevice> found = find_device(platform.value(), device.value());
  if (!found.ok()) return found.status();
  const ClLimits& limits = found.value().limits;
  Result<ClMemoryMode> mode = memory_mode(uri, limits);
  if (!mode.ok()) return mode.status();
  Result<std::shared_ptr<ClContext>> context = ClContext::create(found.value(), mode.value());
  if (!context.ok()) return context.status();

  environment.wait_rules.spin_ns = spin_us.value() * 1000;
  environment.wait_rules.default_limit_ns = limit_ms.value() * 1'000'000;
  environment.blocking = environment.blocking || blocking.value();
  return std::unique_ptr<Driver>(std::make_unique<OpenClDriver>(environment, std::move(context.value()),
                                                                info_of(uri, limits, mode.value()), queue.value()));
}

Result<std::string> probe_opencl() {
  Result<ClDevice> found = find_device(0, 0);
  if (!found.ok()) return found.status();
  return found.value().limits.name;
}

}  // namespace

const DriverEntry kOpenClDriver = {
    "opencl",
    "platform=N       which OpenCL platform, counted from 0 as clinfo lists them (0)\n"
    "device=N         which device of the platform, counted from 0 (0)\n"
    "memory=svm       addresses are shared virtual memory; needs OpenCL 2.0 (the default where the device has it)\n"
    "memory=buffer    addresses stand for buffers; tensors must begin at multiples of tensor_alignment\n"
    "queue=inline     whoever submits hands its work to the device (the default)\n"
    "queue=park       a launching thread does, and sleeps as soon as there is nothing to do\n"
    "queue=spin       the same, looking around for spin_us before it sleeps\n"
    "queue_per=device one launching thread for all streams (the default), or queue_per=stream: one for each\n"
    "spin_us=N        how long a caller who waits spins before it sleeps (0); a launching thread (1000)\n"
    "wait_limit_ms=N  longest wait of a call that is given no limit (60000)\n"
    "blocking         each submission waits and reports its own failure",
    &open_opencl, &probe_opencl};

}  // namespace slipway::internal
