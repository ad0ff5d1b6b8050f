// Dropping the last handle of anything, at any time, is safe and waits for nothing.
#include <atomic>
#include <cstring>
#include <thread>

#include "harness.h"

namespace slipway::conformance {
namespace {

int other_modules(Context& c) { return c.driver().name == std::string("opencl") ? 5 : 50; }

// Everything that a launch needs is dropped while its stream is held.
void everything_is_dropped_while_it_pends(Context& c) {
  const Device device = c.open();
  const Stream reader = device.create_stream();
  const Memory out = zeros<float>(device, reader, 4);
  std::vector<float> back(4);
  reader.synchronize(kLimit);
  const std::uint64_t live = device.counters().live_memory_bytes;
  testing::Hold hold(device);
  {
    const Module module = c.load(device);
    const Kernel add = find_kernel(module, "add");
    const LaunchPlan plan = LaunchPlan::create(add, {.shape = LaunchShape{}});
    const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
    const Stream stream = device.create_stream(), waiter = device.create_stream();
    const Event event = device.create_event(), done = device.create_event();
    const Memory a = device.allocate(16), b = device.allocate(16);
    const HostMemory host = device.allocate_host(16);
    const std::vector<float> one(4, 1);
    std::memcpy(host.data(), one.data(), 16);
    hold.hold(stream);
    stream.copy_to_device_async(a.address(), host, 0, 16);
    typed(stream, b.tensor<float>(), a.tensor<const float>(), 4, 2.0F);
    plan.launch(stream, a, b, 4, 3.0F);
    stream.mark(event);
    waiter.wait(event);
    waiter.launch(add, {}, out, a, 4, 4.0F);
    waiter.mark(done);
    reader.wait(done);
  }
  reader.copy_to_host(back.data(), out.address(), 16);
  std::vector<Module> others;
  std::vector<Memory> blocks;
  const std::vector<float> junk(4, -99);
  const Stream busy = device.create_stream();
  for (int i = 0; i < other_modules(c); ++i) {
    others.push_back(c.load(device));
    blocks.push_back(device.allocate(16));
    busy.copy_to_device(blocks.back().address(), junk.data(), 16);
    const HostMemory host = device.allocate_host(16);
    std::memset(host.data(), 0xEE, 16);
  }
  busy.synchronize(kLimit);
  check_equal(device.counters().modules_unloaded, 0U, "modules unloaded while launches pend");
  check_equal(device.counters().live_memory_bytes, live + 32 + 16 * others.size(), "live bytes while launches pend");
  hold.release();
  reader.synchronize(kLimit);
  if (c.can(kRuns)) check_equal(back, std::vector<float>(4, 10), "1 + 2 + 3 + 4");
  device.synchronize(kLimit);
  check_equal(device.counters().modules_unloaded, 1U, "modules unloaded after they have passed");
  check_equal(device.counters().live_memory_bytes, live + 16 * others.size(), "live bytes after they have passed");
}

// B09: a plan keeps what it points into.
void a_plan_keeps_its_module(Context& c) {
  const Device device = c.open();
  const Stream stream = device.create_stream();
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
  auto plan = std::make_unique<LaunchPlan>();
  {
    const Module module = c.load(device);
    const Kernel count = find_kernel(module, "count");
    *plan = LaunchPlan::create(count, {.shape = LaunchShape{.grid = {2, 1, 1}}});
  }
  auto typed = std::make_unique<TypedLaunch<Tensor<std::uint32_t>>>(plan->typed<Tensor<std::uint32_t>>());
  plan.reset();
  std::vector<Module> others;
  for (int i = 0; i < other_modules(c); ++i) others.push_back(c.load(device));
  check_equal(device.counters().modules_loaded, others.size() + 1, "modules loaded");
  testing::Hold hold(device);
  hold.hold(stream);
  for (int i = 0; i < 100; ++i) (*typed)(stream, cnt.tensor<std::uint32_t>());
  check_equal(device.counters().modules_unloaded, 0U, "modules unloaded while the plan lives");
  typed.reset();
  check_equal(device.counters().modules_unloaded, 0U, "modules unloaded before the last launch");
  hold.release();
  stream.synchronize(kLimit);
  check_equal(device.counters().modules_unloaded, 1U, "modules unloaded after the last launch");
  if (c.can(kRuns))
    check_equal(download<std::uint32_t>(stream, cnt, 1), std::vector<std::uint32_t>{200}, "blocks that ran");
  others.clear();
  check_equal(device.counters().modules_unloaded, device.counters().modules_loaded, "all modules unloaded");
}

void a_kernel_keeps_its_module(Context& c) {
  const Device device = c.open();
  const Stream stream = device.create_stream();
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
  Kernel count = find_kernel(c.load(device), "count");
  check_equal(device.counters().modules_unloaded, 0U, "modules unloaded while a kernel lives");
  stream.launch(count, {}, cnt);
  stream.synchronize(kLimit);
  count = Kernel();
  check_equal(device.counters().modules_unloaded, 1U, "modules unloaded after the kernel is gone");
}

// A module may go while another stream is held that never used it: only then, since nobody counts per launch.
void retiring_waits_for_what_was_submitted_only(Context& c) {
  const Device device = c.open();
  const Stream stream = device.create_stream(), later = device.create_stream();
  stream.host_function([] {});
  device.synchronize(kLimit);
  (void)c.load(device);
  check_equal(device.counters().modules_unloaded, 1U, "an unused module goes at once");
  testing::Hold hold(device);
  hold.hold(stream);
  const std::uint64_t live = device.counters().live_memory_bytes;
  Memory memory = device.allocate(1000);
  memory = Memory();
  later.host_function([] {});
  later.synchronize(kLimit);
  check_equal(device.counters().live_memory_bytes, live + 1000, "memory dropped while a stream is held");
  hold.release();
  device.synchronize(kLimit);
  check_equal(device.counters().live_memory_bytes, live, "and after it has passed");
}

void dropped_streams_run_to_their_end(Context& c) {
  const Device device = c.open();
  std::atomic<int> ran{0};
  const auto token = std::make_shared<int>(0);
  testing::Hold hold(device);
  for (int i = 0; i < 20; ++i) {
    const Stream stream = device.create_stream();
    hold.hold(stream);
    for (int j = 0; j < 5; ++j) stream.host_function([&ran, token] { ++ran; });
  }
  check_equal(ran.load(), 0, "host functions that ran behind a hold");
  hold.release();
  device.synchronize(kLimit);
  check_equal(ran.load(), 100, "host functions that ran");
  check_equal(token.use_count(), 1, "owners of what they held");
  check_equal(device.counters().host_functions, 100U, "host functions counted, of streams that are gone");
}

void a_hold_that_is_dropped_releases(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  std::atomic<int> ran{0};
  {
    testing::Hold hold(device);
    hold.hold(stream);
    stream.host_function([&] { ++ran; });
  }
  stream.synchronize(kLimit);
  check_equal(ran.load(), 1, "host functions that ran");
}

void anything_keeps_its_device(Context& c) {
  const auto token = std::make_shared<int>(0);
  std::weak_ptr<int> alive = token;
  Stream stream;
  {
    Device device = c.open();
    device.set_blocking_hooks([token] {}, [] {});
    stream = device.create_stream();
  }
  std::atomic<int> ran{0};
  stream.host_function([&] { ++ran; });
  stream.synchronize(kLimit);
  check_equal(ran.load(), 1, "host functions that ran on a stream whose device has no other handle");
  check(token.use_count() > 1, "the device lives");
  stream = Stream();
  check_equal(token.use_count(), 1, "the device is gone with its last handle");
}

// The last handle goes on the very thread that the device would have to join.
void the_last_handle_goes_in_a_host_function(Context& c) {
  for (int round = 0; round < 5; ++round) {
    auto token = std::make_shared<int>(0);
    const std::weak_ptr<int> alive = token;
    std::atomic<int> ran{0};
    std::atomic<bool> go{false};
    {
      auto device = std::make_shared<Device>(c.open());
      device->set_blocking_hooks([token] {}, [] {});
      token.reset();
      const Stream stream = device->create_stream();
      const bool is_inline = device->info().workers == 0 && c.driver().name != std::string("opencl");
      if (is_inline) go.store(true);  // there is only this thread
      const auto memory = std::make_shared<Memory>(device->allocate(100));
      stream.host_function([&, device = std::move(device), memory]() mutable {
        while (!go.load()) std::this_thread::yield();  // until the handles outside are gone
        ++ran;
        memory->impl();
        device.reset();
      });
    }
    go.store(true);
    wait_until([&] { return alive.expired(); }, "the device is gone");
    check_equal(ran.load(), 1, "host functions that ran");
  }
}

void handles_are_copied_and_moved(Context& c) {
  const Device& device = c.device();
  Memory a = device.allocate(64);
  const DevicePtr address = a.address();
  Memory b = a;
  a = Memory();
  check(!a && a.address() == kNullDevicePtr && a.size_bytes() == 0, "an empty handle");
  check(b.address() == address, "a copy refers to the same block");
  Memory moved = std::move(b);
  check(moved.address() == address, "a moved handle too");
  Stream s = device.create_stream({.name = "first"});
  s = device.create_stream({.name = "second"});
  s.synchronize(kLimit);
  Device copy = device;
  check_equal(copy.info().uri, device.info().uri, "a copy is the same device");
  check_throws(ErrorCode::kInvalidArgument, {"the device", "empty"}, [] { (void)Device().allocate(4); });
}

constexpr Test kTests[] = {
    {"everything_is_dropped_while_it_pends_B10", everything_is_dropped_while_it_pends},
    {"a_plan_keeps_its_module_B09", a_plan_keeps_its_module},
    {"a_kernel_keeps_its_module_B09", a_kernel_keeps_its_module},
    {"retiring_waits_for_what_was_submitted_only", retiring_waits_for_what_was_submitted_only},
    {"dropped_streams_run_to_their_end", dropped_streams_run_to_their_end},
    {"a_hold_that_is_dropped_releases", a_hold_that_is_dropped_releases},
    {"anything_keeps_its_device", anything_keeps_its_device},
    {"the_last_handle_goes_in_a_host_function", the_last_handle_goes_in_a_host_function},
    {"handles_are_copied_and_moved", handles_are_copied_and_moved},
};

}  // namespace

const Suite kLifetimeSuite{"lifetime", "dropping handles while their work pends", kTests};

}  // namespace slipway::conformance
