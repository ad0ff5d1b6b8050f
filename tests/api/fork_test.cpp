// What is left of a device in the child of a fork: nothing that may be used, and nothing that holds the child up.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
// What the threads of the parent referred to is lost in a child; looking for leaks there finds only that.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace slipway::api_tests {
namespace {

constexpr int kLimit_s = 20;

bool is_there(const std::string& uri) {
  for (const DriverStatus& driver : list_drivers()) {
    if (uri.starts_with(driver.name)) return driver.available;
  }
  return false;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// Ends like a program: with its exit handlers and the destructors of what is static.
[[noreturn]] void end_child(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "in the child: %s\n", problem.what());
    std::exit(1);
  }
  std::exit(0);
}

::testing::AssertionResult ends_well(pid_t child) {
  if (child < 0) return ::testing::AssertionFailure() << "there is no child";
  for (int i = 0; i < kLimit_s * 1000; ++i) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ::testing::AssertionSuccess();
      return ::testing::AssertionFailure() << "the child's status is " << status;
    }
    ::usleep(1000);
  }
  ::kill(child, SIGKILL);
  (void)::waitpid(child, nullptr, 0);
  return ::testing::AssertionFailure() << "the child had not ended after " << kLimit_s << " s";
}

::testing::AssertionResult child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) end_child(body);
  return ends_well(pid);
}

Module load_add_one(const Device& device) {
  if (device.info().driver != "opencl") return load(device);
  return device.load_source("kernel void add_one(global uint* counter) { ++counter[0]; }");
}

// One of everything, with work under way.
struct Everything {
  explicit Everything(const std::string& uri)
      : device(Device::open(uri)),
        stream(device.create_stream()),
        captured(device.create_stream()),
        event(device.create_event({.timing = true})),
        memory(device.allocate(64)),
        host_memory(device.allocate_host(64)),
        module(load_add_one(device)),
        kernel(module.kernel("add_one")),
        plan(LaunchPlan::create(kernel, one_block())),
        typed(plan.typed<Tensor<std::uint32_t>>()),
        selector(KernelSelector::create("one", {{kernel, one_block()}})),
        site(CallSite::create(selector)),
        typed_site(site.typed<Tensor<std::uint32_t>>()),
        hold(std::make_unique<testing::Hold>(device)) {
    stream.fill(memory.address(), 0, 4, 16);
    typed(stream, memory.tensor<std::uint32_t>());
    for (int i = 0; i < 3; ++i) typed_site(stream, memory.tensor<std::uint32_t>());
    stream.mark(event);
    {
      Capture capture(captured, "whole");
      typed(captured, memory.tensor<std::uint32_t>());
      definition = capture.end();
    }
    graph = definition.instantiate();
    step = graph.launch(stream);
    open_capture = std::make_unique<Capture>(captured, "open", CaptureMode::kRelaxed);  // the test waits meanwhile
    typed(captured, memory.tensor<std::uint32_t>());
  }

  Device device;
  Stream stream, captured;
  Event event;
  Memory memory;
  HostMemory host_memory;
  Module module;
  Kernel kernel;
  LaunchPlan plan;
  TypedLaunch<Tensor<std::uint32_t>> typed;
  KernelSelector selector;
  CallSite site;
  TypedSite<Tensor<std::uint32_t>> typed_site;
  std::unique_ptr<testing::Hold> hold;
  GraphDefinition definition;
  ExecutableGraph graph;
  Step step;
  std::unique_ptr<Capture> open_capture;
};

// Everything that a handle from before the fork can be asked.
std::vector<std::pair<const char*, std::function<void()>>> uses_of(Everything& e) {
  const auto address = e.memory.tensor<std::uint32_t>();
  return {
      {"typed launch", [&e, address] { e.typed(e.stream, address); }},
      {"typed launch of a site", [&e, address] { e.typed_site(e.stream, address); }},
      {"launch of a site", [&e, address] { e.site.launch(e.stream, address); }},
      {"report of a site", [&e] { (void)e.site.report(); }},
      {"freeze a site", [&e] { (void)e.site.freeze(); }},
      {"choose", [&e] { e.selector.choose(0); }},
      {"create a site", [&e] { (void)CallSite::create(e.selector); }},
      {"site reports", [&e] { (void)site_reports(e.device); }},
      {"add launch hooks",
       [&e] {
         (void)e.device.add_launch_hooks({[](const LaunchInfo&) {}, {}, false});
       }},
      {"planned launch", [&e, address] { e.plan.launch(e.stream, address); }},
      {"general launch", [&e] { e.stream.launch(e.kernel, {}, e.memory); }},
      {"launch on a captured stream", [&e, address] { e.typed(e.captured, address); }},
      {"copy_to_device", [&e] { e.stream.copy_to_device(e.memory.address(), "four", 4); }},
      {"copy_to_host", [&e] { e.stream.copy_to_host(e.host_memory.data(), e.memory.address(), 4); }},
      {"copy", [&e] { e.stream.copy(offset(e.memory.address(), 8), e.memory.address(), 4); }},
      {"copy_to_device_async", [&e] { e.stream.copy_to_device_async(e.memory.address(), e.host_memory, 0, 4); }},
      {"fill", [&e] { e.stream.fill(e.memory.address(), 0, 4, 1); }},
      {"host_function", [&e] { e.stream.host_function([] {}); }},
      {"mark", [&e] { e.stream.mark(e.event); }},
      {"wait", [&e] { e.stream.wait(e.event); }},
      {"stream synchronize", [&e] { e.stream.synchronize(); }},
      {"idle", [&e] { (void)e.stream.idle(); }},
      {"recover", [&e] { e.stream.recover(); }},
      {"submitted", [&e] { (void)e.stream.submitted(); }},
      {"completed", [&e] { (void)e.stream.completed(); }},
      {"stream native_handle", [&e] { (void)e.stream.native_handle(); }},
      {"query", [&e] { (void)e.event.query(); }},
      {"event synchronize", [&e] { e.event.synchronize(); }},
      {"elapsed", [&e] { (void)e.event.elapsed(e.event); }},
      {"create_stream", [&e] { (void)e.device.create_stream(); }},
      {"create_event", [&e] { (void)e.device.create_event(); }},
      {"allocate", [&e] { (void)e.device.allocate(8); }},
      {"allocate_host", [&e] { (void)e.device.allocate_host(8); }},
      {"load", [&e] { (void)load_add_one(e.device); }},
      {"kernel", [&e] { (void)e.module.kernel("add_one"); }},
      {"create plan", [&e] { (void)LaunchPlan::create(e.kernel, one_block()); }},
      {"device synchronize", [&e] { e.device.synchronize(); }},
      {"counters", [&e] { (void)e.device.counters(); }},
      {"start_timeline", [&e] { e.device.start_timeline(); }},
      {"stop_timeline", [&e] { (void)e.device.stop_timeline(); }},
      {"set_blocking_hooks", [&e] { e.device.set_blocking_hooks(nullptr, nullptr); }},
      {"reset", [&e] { e.device.reset(); }},
      {"close", [&e] { e.device.close(); }},
      {"device native_handle", [&e] { (void)e.device.native_handle(); }},
      {"begin a capture", [&e] { const Capture capture(e.stream); }},
      {"declare a parameter", [&e] { (void)e.open_capture->parameter<std::int32_t>("p"); }},
      {"end a capture", [&e] { (void)e.open_capture->end(); }},
      {"instantiate", [&e] { (void)e.definition.instantiate(); }},
      {"graph launch", [&e] { (void)e.graph.launch(e.stream); }},
      {"graph recover", [&e] { e.graph.recover(); }},
      {"graph cancel", [&e] { e.graph.cancel(e.step, "no"); }},
      {"graph wait", [&e] { e.graph.wait(e.step); }},
      {"graph passed", [&e] { (void)e.graph.passed(e.step); }},
      {"graph counters", [&e] { (void)e.graph.counters(); }},
      {"make a hold", [&e] { const testing::Hold hold(e.device); }},
      {"hold", [&e] { e.hold->hold(e.stream); }},
      {"release", [&e] { e.hold->release(); }},
  };
}

void require_all_refused(Everything& e, pid_t parent) {
  const std::string by = "process " + std::to_string(parent) + " before a fork";
  for (const auto& [name, use] : uses_of(e)) {
    const auto outcome = refused(ErrorCode::kFailedPrecondition, {by, e.device.info().uri, "opened again"}, use);
    require(static_cast<bool>(outcome), std::string(name) + ": " + outcome.message());
  }
}

class Fork : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_there(GetParam())) GTEST_SKIP() << "no such device here";
  }
  bool is_opencl() const { return std::string(GetParam()).starts_with("opencl"); }
};

TEST_P(Fork, ChildrenThatDoNothingEndWhateverTheParentsThreadsWereDoing) {
  Everything e(GetParam());
  e.device.start_timeline();
  std::atomic<bool> stop{false};
  const Stream own = e.device.create_stream();
  std::vector<std::thread> threads;
  threads.emplace_back([&] {  // takes what locks there are
    while (!stop.load()) {
      e.typed(own, e.memory.tensor<std::uint32_t>());
      (void)e.device.allocate(16);
      (void)e.device.counters();
      own.host_function([] {});
      own.synchronize();
    }
  });
  threads.emplace_back([&] {
    while (!stop.load()) {
      e.stream.launch(e.kernel, {}, e.memory);
      e.stream.mark(e.event);
      e.event.synchronize();
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(child([] {})) << i;
  // And those that drop all handles, as a program does that returns from main.
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(child([&] {
      static std::optional<Everything> until_exit;  // the rest goes then
      until_exit.emplace(std::move(e));
      until_exit->open_capture.reset();
      until_exit->graph = {};
    })) << i;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  e.stream.synchronize();
  own.synchronize();
}

TEST_P(Fork, ChildrenThatDropEverythingWithWorkHeldEnd) {
  std::optional<Everything> e(GetParam());
  if (e->device.info().workers > 0 || is_opencl()) {
    e->hold->hold(e->stream);
    e->stream.host_function([] {});
    e->typed(e->stream, e->memory.tensor<std::uint32_t>());
  }
  EXPECT_TRUE(child([&] { e.reset(); }));
  e->hold->release();
  e->stream.synchronize();
}

TEST_P(Fork, EverythingFromBeforeIsRefusedAtOnce) {
  Everything e(GetParam());
  const pid_t parent = ::getpid();
  EXPECT_TRUE(child([&] { require_all_refused(e, parent); }));
  // The parent's own are as before.
  e.open_capture.reset();
  const auto counter = e.memory.tensor<std::uint32_t>();
  for (int i = 0; i < 10; ++i) e.typed(e.stream, counter);
  std::uint32_t value = 0;
  e.stream.copy_to_host(&value, e.memory.address(), 4);
  e.stream.synchronize();
  EXPECT_EQ(value, e.device.info().runs_kernels ? 15U : 0U);
}

TEST_P(Fork, AChildOpensItsOwnDeviceAndTheOldOneStaysRefused) {
  Everything e(GetParam());
  const pid_t parent = ::getpid();
  EXPECT_TRUE(child([&] {
    if (is_opencl()) {
      const auto outcome = refused(ErrorCode::kFailedPrecondition, {std::to_string(parent), "before a fork"},
                                   [&] { (void)Device::open(GetParam()); });
      require(static_cast<bool>(outcome), outcome.message());
    }
    const char* const uri = is_opencl() ? "cpu" : GetParam();
    Everything own(uri);
    for (int i = 0; i < 100; ++i) own.typed(own.stream, own.memory.tensor<std::uint32_t>());
    std::uint32_t value = 0;
    own.stream.copy_to_host(&value, own.memory.address(), 4);
    own.stream.synchronize(WaitLimit(10'000));
    require(!own.device.info().runs_kernels || value == 105, "a wrong value: " + std::to_string(value));
    require(own.device.counters().planned_launches >= 100, "planned launches were not counted");
    require_all_refused(e, parent);
    // And a child of the child refuses both.
    const pid_t middle = ::getpid();
    const auto outcome = child([&] {
      require_all_refused(e, parent);
      require_all_refused(own, middle);
    });
    require(static_cast<bool>(outcome), outcome.message());
  }));
}

INSTANTIATE_TEST_SUITE_P(Devices, Fork,
                         ::testing::Values("cpu:workers=1", "cpu:workers=2", "cpu:inline", "null", "opencl",
                                           "opencl:queue=spin"),
                         device_name);

void forks(pid_t* pid) { *pid = ::fork(); }

// In-line, the kernel runs on the thread that submits, so the child comes back to where it was launched.
TEST(ForkInside, AKernelThatForksLeavesNothingUsableInTheChild) {
  std::fflush(nullptr);
  const Device device = Device::open("cpu:inline");
  const Stream stream = device.create_stream();
  const Module module = device.load_table({kernel<&forks>("forks"), kernel<&add_one>("add_one")});
  const auto add = LaunchPlan::create(module.kernel("add_one"), one_block()).typed<Tensor<std::uint32_t>>();
  const Memory memory = device.allocate(4);
  add(stream, memory.tensor<std::uint32_t>());
  pid_t pid = -1;
  const pid_t parent = ::getpid();
  stream.launch(module.kernel("forks"), {}, DevicePtr(reinterpret_cast<std::uint64_t>(&pid)));
  if (::getpid() != parent) {
    end_child([&] {
      const auto outcome = refused(ErrorCode::kFailedPrecondition, {"before a fork"},
                                   [&] { add(stream, memory.tensor<std::uint32_t>()); });
      require(static_cast<bool>(outcome), outcome.message());
    });
  }
  EXPECT_TRUE(ends_well(pid));
  add(stream, memory.tensor<std::uint32_t>());
  stream.synchronize();
}

}  // namespace
}  // namespace slipway::api_tests
