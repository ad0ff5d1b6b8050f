#include "slipway/device.h"

#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread_id.h"
#include "base/uri.h"
#include "device/handles.h"

namespace slipway {

using internal::deref;
using internal::DeviceImpl;
using internal::StreamImpl;

namespace internal {
namespace {

// The device goes with the last handle of anything made from it. When that happens inside a callback, a thread
// of its own does the joining, since a worker cannot join itself.
struct DestroyDevice {
  void operator()(DeviceImpl* device) const {
    if (device->forked()) return;  // its threads are not here, its locks may be held for ever: it is left behind
    if (!t_in_callback) delete device;
    else std::thread([device] { delete device; }).detach();
  }
};

// SLIPWAY_LAUNCH_BLOCKING=1 makes every device blocking; unset, empty and 0 do not.
bool blocking_asked_for() {
  const char* value = std::getenv("SLIPWAY_LAUNCH_BLOCKING");
  if (!value || *value == '\0') return false;
  const std::string text = value;
  if (text == "0" || text == "1") return text == "1";
  throw Error(ErrorCode::kInvalidArgument,
              "the environment variable SLIPWAY_LAUNCH_BLOCKING is '" + text + "'; it takes 0 or 1");
}

Module make_module(const std::shared_ptr<DeviceImpl>& device, Result<std::unique_ptr<DriverModule>> loaded) {
  auto module = std::make_shared<ModuleImpl>();
  DeviceCounters& counters = device->counters();
  DriverModule* const owned = loaded.take().release();
  counters.modules_loaded.fetch_add(1, std::memory_order_relaxed);  // first: where the next line throws, it is unloaded
  module->module = std::shared_ptr<DriverModule>(owned, [&counters](DriverModule* m) {
    delete m;
    counters.modules_unloaded.fetch_add(1, std::memory_order_relaxed);
  });
  module->device = device;
  module->generation = device->generation();
  return Module(std::move(module));
}

Stream make_stream(const std::shared_ptr<DeviceImpl>& device, Result<std::shared_ptr<DriverStream>> created,
                   const std::string& name) {
  static std::atomic<std::uint64_t> next{1};
  auto stream =
      std::make_shared<StreamImpl>(device, created.take(), name, next.fetch_add(1, std::memory_order_relaxed));
  // Behind the handle, which takes it off the list again when what follows throws.
  device->retired().add_stream(stream->shared_driver_stream());
  device->add_stream(stream);
  return Stream(std::move(stream));
}

}  // namespace
}  // namespace internal

Device Device::open(std::string_view uri_text) {
  const internal::Uri uri = internal::Uri::parse(uri_text).take();
  const internal::DriverEntry* found = nullptr;
  std::string names;
  for (const internal::DriverEntry& entry : internal::driver_table()) {
    if (uri.driver() == entry.name) found = &entry;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (!found) {
    throw Error(ErrorCode::kInvalidArgument, "the device URI '" + uri.text() + "' names the unknown driver '" +
                                                 uri.driver() + "'; there are: " + names);
  }
  internal::watch_forks();
  auto environment = std::make_unique<internal::DriverEnvironment>();
  environment->blocking = internal::blocking_asked_for();
  std::unique_ptr<internal::Driver> driver;
  try {
    driver = found->open(uri, *environment).take();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOutOfMemory, "the device '" + uri.text() + "' could not start its threads (" +
                                             error.what() + "); end other threads, or ask for fewer workers");
  }
  return Device(std::shared_ptr<DeviceImpl>(new DeviceImpl(std::move(environment), std::move(driver)),
                                            internal::DestroyDevice()));
}

std::vector<DriverStatus> list_drivers() {
  std::vector<DriverStatus> list;
  for (const internal::DriverEntry& entry : internal::driver_table()) {
    auto probed = entry.probe();
    DriverStatus& status = list.emplace_back();
    status.name = entry.name;
    status.options = entry.options;
    status.available = probed.ok();
    status.detail = probed.ok() ? probed.value() : probed.status().details().sentence;
  }
  return list;
}

const DeviceInfo& Device::info() const { return deref(*this, "the device").info(); }

Stream Device::create_stream(const StreamOptions& options) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("creating a stream");
  device.retired().collect();
  if (options.priority < -1 || options.priority > 1) {
    throw Error(ErrorCode::kInvalidArgument, "a stream priority of " + std::to_string(options.priority) +
                                                 " was given; priorities are -1 (first), 0 and 1 (last)");
  }
  constexpr std::uint32_t kSmallest = 16 << 10, kLargest = 1 << 30;
  if (options.ring_bytes < kSmallest || options.ring_bytes > kLargest) {
    throw Error(ErrorCode::kInvalidArgument, "a ring of " + std::to_string(options.ring_bytes) +
                                                 " bytes was asked for; give ring_bytes from " +
                                                 std::to_string(kSmallest) + " to " + std::to_string(kLargest));
  }
  return internal::make_stream(impl_, device.driver().create_stream(options), options.name);
}

Stream Device::adopt_stream(void* native) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("adopting a stream");
  if (!native) {
    throw Error(ErrorCode::kInvalidArgument, "a null native stream was to be adopted; pass the other library's handle");
  }
  return internal::make_stream(impl_, device.driver().adopt_stream(native), "");
}

Event Device::create_event(const EventOptions& options) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("creating an event");
  std::shared_ptr<internal::DriverEvent> event = device.driver().create_event(options).take();
  return Event(std::make_shared<internal::EventImpl>(impl_, std::move(event), options.timing));
}

Memory Device::allocate(std::uint64_t bytes) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("allocating memory");
  device.retired().collect();
  auto memory = std::make_shared<internal::MemoryImpl>();
  memory->device = impl_;
  memory->generation = device.generation();
  if (bytes == 0) return Memory(std::move(memory));
  memory->address = device.driver().allocate(bytes).take();
  memory->bytes = bytes;
  device.counters().live_memory_bytes.fetch_add(bytes, std::memory_order_relaxed);  // from here on it frees itself
  device.addresses().add(static_cast<std::uint64_t>(memory->address), bytes);
  if (const auto capture = device.captures().of_this_thread()) capture->keep(memory);
  return Memory(std::move(memory));
}

HostMemory Device::allocate_host(std::uint64_t bytes) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("allocating host memory");
  auto memory = std::make_shared<internal::HostMemoryImpl>();
  memory->device = impl_;
  if (bytes == 0) return HostMemory(std::move(memory));
  memory->data = device.driver().allocate_host(bytes).take();
  memory->bytes = bytes;
  return HostMemory(std::move(memory));
}

Memory Device::adopt_memory(DevicePtr address, std::uint64_t bytes) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("adopting memory");
  if (address == kNullDevicePtr || bytes == 0) {
    throw Error(ErrorCode::kInvalidArgument, "memory of " + std::to_string(bytes) + " bytes at address " +
                                                 std::to_string(static_cast<std::uint64_t>(address)) +
                                                 " was to be adopted; give an address and a size above 0");
  }
  device.driver().adopt_memory(address, bytes).throw_if_error();
  auto memory = std::make_shared<internal::MemoryImpl>();
  memory->device = impl_;
  memory->generation = device.generation();
  memory->adopted = true;
  memory->address = address;
  memory->bytes = bytes;
  device.addresses().add(static_cast<std::uint64_t>(address), bytes);
  return Memory(std::move(memory));
}

Module Device::load_table(std::span<const KernelDef> kernels) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("loading kernels");
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const char* problem = nullptr;
    if (!kernels[i].name || *kernels[i].name == '\0') problem = "has no name";
    else if (!kernels[i].entry) problem = "has no entry";
    else if (!kernels[i].parameters && kernels[i].parameter_count != 0) problem = "has no parameters";
    if (problem) {
      throw Error(ErrorCode::kInvalidArgument, "row " + std::to_string(i) + " of a kernel table " + problem +
                                                   "; make rows with kernel<&function>(\"name\")");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (std::string_view(kernels[i].name) != kernels[j].name) continue;
      throw Error(ErrorCode::kInvalidArgument, "rows " + std::to_string(j) + " and " + std::to_string(i) +
                                                   " of a kernel table are both named '" + kernels[i].name +
                                                   "'; give each its own name");
    }
  }
  return internal::make_module(impl_, device.driver().load_table(kernels));
}

Module Device::load_library(const std::string& path) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("loading a library");
  const internal::BlockingScope scope(device.rules());  // initialisers of the library run here
  return internal::make_module(impl_, device.driver().load_library(path));
}

Module Device::load_source(std::string_view source, std::string_view options) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("loading source");
  const internal::BlockingScope scope(device.rules());
  return internal::make_module(impl_, device.driver().load_source(source, options));
}

void Device::synchronize(WaitLimit limit) const {
  DeviceImpl& device = deref(*this, "the device");
  device.synchronize(device.deadline(limit.count()));
}

void Device::set_blocking_hooks(std::function<void()> leave, std::function<void()> enter) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("setting blocking hooks");
  if (static_cast<bool>(leave) != static_cast<bool>(enter)) {
    throw Error(ErrorCode::kInvalidArgument, std::string("only the hook `") + (leave ? "leave" : "enter") +
                                                 "` was given; give both, or neither to take them away");
  }
  if (!leave) return device.rules().set_hooks(nullptr);
  device.rules().set_hooks(
      std::make_shared<internal::BlockingHooks>(internal::BlockingHooks{std::move(leave), std::move(enter)}));
}

LaunchHookHandle Device::add_launch_hooks(LaunchHooks hooks) const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("adding launch hooks");
  if (!hooks.enter && !hooks.exit) {
    throw Error(ErrorCode::kInvalidArgument, "launch hooks with neither enter nor exit were given; give one of them");
  }
  const std::uint64_t id = device.hooks().add(std::move(hooks));
  return {device.shared_hooks(), id};
}

Counters Device::counters() const { return deref(*this, "the device").count(); }
void Device::start_timeline(std::size_t capacity) const { deref(*this, "the device").start_timeline(capacity); }
std::vector<TimelineEntry> Device::stop_timeline(std::uint64_t* dropped) const {
  return deref(*this, "the device").stop_timeline(dropped);
}
void Device::reset() const { deref(*this, "the device").reset(); }

void Device::close(WaitLimit limit) const {
  DeviceImpl& device = deref(*this, "the device");
  if (internal::t_in_callback) device.check_usable("closing a device");
  device.check_process("close");
  device.captures().check_wait("closing the device").throw_if_error();
  device.close(device.deadline(limit.count()));
}

void* Device::native_handle() const {
  DeviceImpl& device = deref(*this, "the device");
  device.check_usable("asking for a native handle");
  return device.driver().native_handle();
}

}  // namespace slipway
