// What callers may not do: things of two devices together, calls from callbacks, use after close and reset.
#include <atomic>

#include "harness.h"

namespace slipway::conformance {
namespace {

void things_of_another_device_are_refused(Context& c) {
  const Device& device = c.device();
  const Device other = c.open();
  const Module other_module = c.load(other);
  const Stream stream = device.create_stream(), other_stream = other.create_stream();
  const Kernel add = c.kernel("add"), other_add = find_kernel(other_module, "add");
  const Memory mine = device.allocate(64), theirs = other.allocate(64);
  const HostMemory their_host = other.allocate_host(64);
  const Event their_event = other.create_event({.timing = true}), my_event = device.create_event({.timing = true});
  const LaunchPlan their_plan = LaunchPlan::create(other_add, {.shape = LaunchShape{}});
  const auto typed = their_plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const auto typed_grid =
      LaunchPlan::create(other_add, {}).typed_grid<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const LaunchPlan empty = LaunchPlan::create(other_add, {.shape = LaunchShape{.grid = {0, 1, 1}}});
  const Tensor<float> t = mine.tensor<float>();
  const std::uint64_t before = stream.submitted();
  const auto refuse = [&](std::string_view what, const std::function<void()>& call) {
    check_throws(ErrorCode::kInvalidArgument, {what, device.info().uri}, call);
    check_equal(stream.submitted(), before, "submissions after refusals");
  };
  refuse("the kernel", [&] { stream.launch(other_add, {}, t, t, 4, 1.0F); });
  refuse("argument 1", [&] { stream.launch(add, {}, mine, theirs, 4, 1.0F); });
  refuse("argument 0",
         [&] { LaunchPlan::create(add, {.shape = LaunchShape{}}).launch(stream, theirs, mine, 4, 1.0F); });
  refuse("the stream", [&] { their_plan.launch(stream, t, t, 4, 1.0F); });
  refuse("the stream", [&] { typed(stream, t, t, 4, 1.0F); });
  refuse("the stream", [&] { typed_grid(stream, {}, t, t, 4, 1.0F); });
  refuse("the stream", [&] { typed_grid(stream, {0, 1, 1}, t, t, 4, 1.0F); });
  refuse("the stream", [&] { empty.launch(stream, t, t, 4, 1.0F); });
  refuse("the event", [&] { stream.mark(their_event); });
  refuse("the event", [&] { stream.wait(their_event); });
  refuse("the host memory", [&] { stream.copy_to_device_async(mine.address(), their_host, 0, 4); });
  refuse("the host memory", [&] { stream.copy_to_host_async(their_host, 0, mine.address(), 4); });
  refuse("event", [&] { (void)my_event.elapsed(their_event); });
  refuse("fallback", [&] { (void)LaunchPlan::create(add, {.fallback = other_add}); });
  testing::Hold hold(other);
  refuse("the stream", [&] { hold.hold(stream); });
  stream.synchronize(kLimit);
  other_stream.synchronize(kLimit);
}

// B37: refused at once, since it could wait for the very work that calls it.
void callbacks_may_not_call(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Event event = device.create_event();
  const Kernel count = c.kernel("count");
  const Memory memory = zeros<std::uint32_t>(device, stream, 4);
  const Tensor<std::uint32_t> t = memory.tensor<std::uint32_t>();
  const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<std::uint32_t>>();
  const auto typed_grid = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
  typed(other, t);  // the other stream is this thread's
  other.mark(event);
  other.synchronize(kLimit);
  const Module module = c.load(device);
  const std::uint64_t before = other.submitted();
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"launch", [&] { other.launch(count, {}, t); }},
      {"launch on the stream itself", [&] { stream.launch(count, {}, t); }},
      {"plan", [&] { plan.launch(other, t); }},
      {"typed launch", [&] { typed(other, t); }},
      {"typed launch with a grid",
       [&] {
         typed_grid(other, {2, 1, 1}, t);
       }},
      {"typed launch of nothing",
       [&] {
         typed_grid(other, {0, 1, 1}, t);
       }},
      {"copy to the device", [&] { other.copy_to_device(memory.address(), "four", 4); }},
      {"fill", [&] { other.fill(memory.address(), 0, 4, 1); }},
      {"host function", [&] { other.host_function([] {}); }},
      {"mark", [&] { other.mark(event); }},
      {"wait", [&] { other.wait(event); }},
      {"synchronize a stream", [&] { other.synchronize(kLimit); }},
      {"synchronize a device", [&] { device.synchronize(kLimit); }},
      {"synchronize an event", [&] { event.synchronize(kLimit); }},
      {"query", [&] { (void)event.query(); }},
      {"idle", [&] { (void)other.idle(); }},
      {"recover", [&] { other.recover(); }},
      {"allocate", [&] { (void)device.allocate(4); }},
      {"create a stream", [&] { (void)device.create_stream(); }},
      {"create an event", [&] { (void)device.create_event(); }},
      {"create a plan", [&] { (void)LaunchPlan::create(count); }},
      {"look up a kernel", [&] { (void)module.kernel("count"); }},
      {"load", [&] { (void)c.load(device); }},
      {"close", [&] { device.close(kLimit); }},
      {"reset", [&] { device.reset(); }},
  };
  for (const auto& [name, call] : calls) {
    std::string problem = "it did not run";
    stream.host_function([&, &name = name, &call = call] {
      try {
        check_throws(ErrorCode::kFailedPrecondition, {"not allowed in a kernel or host function"}, call);
        problem.clear();
      } catch (const std::exception& e) {
        problem = std::string(name) + ": " + e.what();
      }
    });
    stream.synchronize(kLimit);
    check(problem.empty(), problem);
  }
  check_equal(other.submitted(), before, "submissions from callbacks");
  // Not caught, the refusal fails the stream.
  stream.host_function([&] { other.synchronize(kLimit); }, "careless");
  check_throws(ErrorCode::kKernelFailed, {"'careless'", "not allowed"}, [&] { stream.synchronize(kLimit); });
}

// What the kernel below calls.
const std::function<void()>* g_call = nullptr;
void call_back(std::uint32_t* ran) {
  std::atomic_ref(*ran).fetch_add(1, std::memory_order_relaxed);  // blocks may be spread over workers
  (*g_call)();
}

void kernels_may_not_call(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream(), other = device.create_stream();
  const Module module = device.load_table({kernel<&call_back>("call_back")});
  const Kernel kernel = module.kernel("call_back");
  const Kernel count = c.kernel("count");
  const auto typed = LaunchPlan::create(count, {.shape = LaunchShape{}}).typed<Tensor<std::uint32_t>>();
  const Memory memory = zeros<std::uint32_t>(device, stream, 1);
  const Tensor<std::uint32_t> t = memory.tensor<std::uint32_t>();
  stream.synchronize(kLimit);
  typed(other, t);
  other.synchronize(kLimit);
  for (const std::function<void()>& call :
       {std::function<void()>([&] { typed(other, t); }), std::function<void()>([&] { other.launch(count, {}, t); }),
        std::function<void()>([&] { other.synchronize(kLimit); }),
        std::function<void()>([&] { (void)device.allocate(8); })}) {
    g_call = &call;
    stream.launch(kernel, {}, memory);
    check_throws(ErrorCode::kFailedPrecondition, {"'call_back'", "not allowed in a kernel"},
                 [&] { stream.synchronize(kLimit); });
    stream.recover();
    stream.launch(kernel, {.grid = {8, 1, 1}, .spread = true}, memory);
    check_throws(ErrorCode::kFailedPrecondition, {"not allowed in a kernel"}, [&] { stream.synchronize(kLimit); });
    stream.recover();
  }
}

void closed_devices_refuse(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Event event = device.create_event();
  const Kernel count = find_kernel(module, "count");
  const Memory memory = zeros<std::uint32_t>(device, stream, 1);
  const Tensor<std::uint32_t> t = memory.tensor<std::uint32_t>();
  const auto typed = LaunchPlan::create(count, {.shape = LaunchShape{}}).typed<Tensor<std::uint32_t>>();
  std::atomic<int> ran{0};
  typed(stream, t);
  stream.host_function([&] { ++ran; });
  device.close(kLimit);
  check_equal(ran.load(), 1, "closing waits for what was submitted");
  device.close(kLimit);
  for (const auto& call :
       {std::function<void()>([&] { (void)device.allocate(4); }),
        std::function<void()>([&] { (void)device.create_stream(); }),
        std::function<void()>([&] { (void)device.create_event(); }),
        std::function<void()>([&] { (void)c.load(device); }),
        std::function<void()>([&] { stream.launch(count, {}, t); }), std::function<void()>([&] { typed(stream, t); }),
        std::function<void()>([&] { stream.synchronize(kLimit); }), std::function<void()>([&] { stream.mark(event); }),
        std::function<void()>([&] { stream.wait(event); }), std::function<void()>([&] { event.synchronize(kLimit); }),
        std::function<void()>([&] { stream.fill(memory.address(), 0, 4, 1); }),
        std::function<void()>([&] { stream.host_function([] {}); }),
        std::function<void()>([&] { device.synchronize(kLimit); }),
        std::function<void()>([&] { (void)LaunchPlan::create(count); }),
        std::function<void()>([&] { device.reset(); })}) {
    check_throws(ErrorCode::kStaleContext, {"closed"}, call);
  }
  check_equal(device.info().driver, c.driver().name, "what a closed device still says of itself");
}

void a_reset_makes_older_things_stale(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Event event = device.create_event();
  const Kernel count = find_kernel(module, "count");
  const Memory memory = zeros<std::uint32_t>(device, stream, 1);
  const Tensor<std::uint32_t> t = memory.tensor<std::uint32_t>();
  const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<std::uint32_t>>();
  typed(stream, t);
  device.reset();
  const Stream fresh = device.create_stream();
  for (const auto& call :
       {std::function<void()>([&] { stream.launch(count, {}, t); }), std::function<void()>([&] { typed(stream, t); }),
        std::function<void()>([&] { typed(fresh, t); }), std::function<void()>([&] { plan.launch(fresh, t); }),
        std::function<void()>([&] { fresh.launch(count, {}, t); }),
        std::function<void()>([&] { (void)module.kernel("count"); }),
        std::function<void()>([&] { (void)LaunchPlan::create(count); }),
        std::function<void()>([&] { fresh.wait(event); }), std::function<void()>([&] { fresh.mark(event); }),
        std::function<void()>([&] { (void)event.query(); }),
        std::function<void()>([&] { stream.synchronize(kLimit); })}) {
    check_throws(ErrorCode::kStaleContext, {"reset"}, call);
  }
  const Module new_module = c.load(device);
  const Memory cnt = zeros<std::uint32_t>(device, fresh, 1);
  LaunchPlan::create(find_kernel(new_module, "count"), {.shape = LaunchShape{}}).launch(fresh, cnt);
  if (c.can(kRuns))
    check_equal(download<std::uint32_t>(fresh, cnt, 1), std::vector<std::uint32_t>{1}, "blocks of new things that ran");
  else fresh.synchronize(kLimit);
}

constexpr Test kTests[] = {
    {"things_of_another_device_are_refused", things_of_another_device_are_refused},
    {"callbacks_may_not_call_B37", callbacks_may_not_call},
    {"kernels_may_not_call", kernels_may_not_call, kThrowing},
    {"closed_devices_refuse", closed_devices_refuse},
    {"a_reset_makes_older_things_stale", a_reset_makes_older_things_stale},
};

}  // namespace

const Suite kRefusalsSuite{"refusals", "things of another device, calls from callbacks, use after close and reset",
                           kTests};

}  // namespace slipway::conformance
