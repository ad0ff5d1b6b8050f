// Reports about host task queues, on devices with one (a launching thread) and without: what was submitted owns what it
// needs, nothing overtakes what is queued, and callbacks and callers do not lock each other out.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"
#include "support/require.h"

namespace slipway::report_tests {
namespace {

constexpr WaitLimit kLimit{20'000};

// A copy of so many floats travels in its record, and a ring of 16 KiB holds four of those.
constexpr std::size_t kWorkspace = 1000;

void add(float* out, const float* in, std::int32_t n, float c) {
  for (std::int32_t i = 0; i < n; ++i) out[i] = in[i] + c;
}
void log_id(std::uint32_t* log, std::uint32_t id) { log[++log[0]] = id; }
void accumulate(float* out, const float* workspace) { out[0] += workspace[999]; }

constexpr const char* kSource = R"(
kernel void add(global float* out, global const float* in, int n, float c) {
  for (int i = 0; i < n; ++i) out[i] = in[i] + c;
}
kernel void log_id(global uint* log, uint id) { log[++log[0]] = id; }
kernel void accumulate(global float* out, global const float* workspace) { out[0] += workspace[999]; }
)";

Module load(const Device& device) {
  if (device.info().driver == "opencl") return device.load_source(kSource);
  return device.load_table({kernel<&add>("add"), kernel<&log_id>("log_id"), kernel<&accumulate>("accumulate")});
}

// Implementations of OpenCL are not instrumented for the thread sanitizer.
std::vector<const char*> devices(std::vector<const char*> uris) {
#if defined(__SANITIZE_THREAD__)
  std::erase_if(uris, [](const char* uri) { return std::string_view(uri).starts_with("opencl"); });
#endif
  return uris;
}

std::string uri_name(const ::testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class QueueReport : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device = Device::open(GetParam());
    } catch (const Error& error) {
      SLIPWAY_SKIP_OR_FAIL("opencl", error.what());
    }
    stream = device.create_stream();
    module = load(device);
  }
  bool is_opencl() const { return device.info().driver == "opencl"; }

  Memory upload(const std::vector<float>& values) const {
    Memory memory = device.allocate(values.size() * sizeof(float));
    stream.copy_to_device(memory.address(), values.data(), memory.size_bytes());
    return memory;
  }
  template <class T>
  std::vector<T> download(const Memory& memory) const {
    std::vector<T> values(memory.size_bytes() / sizeof(T));
    stream.copy_to_host(values.data(), memory.address(), memory.size_bytes());
    stream.synchronize(kLimit);
    return values;
  }

  Device device;
  Stream stream;
  Module module;
};

// --- B10: a queued launch refers to nothing of the function that launched it ---

TEST_P(QueueReport, B10_ALaunchOwnsWhatItNeedsWhenItsCallerHasReturned) {
  const Memory out = upload({0, 0, 0, 0}), other = upload({0, 0, 0, 0});
  stream.synchronize(kLimit);
  const Kernel kernel = module.kernel("add");
  testing::Hold hold(device);
  hold.hold(stream);
  Memory workspace = upload({1, 1, 1, 1});
  const auto launch = [&](const Memory& to, const Memory& from, float c) {
    const std::int32_t n = 4;
    const float addend = c;
    stream.launch(kernel, {}, to, from, n, addend);
  };
  launch(out, workspace, 7);
  launch(other, workspace, 9);
  workspace = {};
  const Memory reuse = upload({99, 99, 99, 99});
  hold.release();
  EXPECT_EQ(download<float>(out), std::vector<float>(4, 8.0F));
  EXPECT_EQ(download<float>(other), std::vector<float>(4, 10.0F));
  EXPECT_EQ(download<float>(reuse), std::vector<float>(4, 99.0F));
}

TEST_P(QueueReport, B10_TenThousandLaunchesWithAWorkspaceKeepNothing) {
  const Memory out = upload({0, 0, 0, 0});
  const Kernel kernel = module.kernel("add");
  stream.synchronize(kLimit);
  const auto flat = device.counters().live_memory_bytes;
  for (int i = 1; i <= 10'000; ++i) {
    const Memory workspace = device.allocate(16);
    const auto value = static_cast<float>(i % 100);
    stream.fill(workspace.address(), 0, 4, 4);
    stream.launch(kernel, {}, out, workspace, 4, value);
    if (i % 100 != 0) continue;
    stream.synchronize(kLimit);
    ASSERT_LE(device.counters().live_memory_bytes, flat + 16) << i;  // what is still a handle here
  }
  EXPECT_EQ(download<float>(out), std::vector<float>(4, 0.0F));
  EXPECT_EQ(device.counters().live_memory_bytes, flat);
}

TEST_P(QueueReport, B10_AQueueOfFourTakesAHundredLaunchesWithAWorkspaceEach) {
  const Memory out = upload({0});
  const Stream small = device.create_stream({.priority = 0, .ring_bytes = 16 << 10, .name = "four"});
  const Kernel kernel = module.kernel("accumulate");
  stream.synchronize(kLimit);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<float> threes(kWorkspace, 3);
  for (int i = 0; i < 100; ++i) {
    const Memory workspace = device.allocate(kWorkspace * sizeof(float));
    small.copy_to_device(workspace.address(), threes.data(), workspace.size_bytes());
    small.launch(kernel, {}, out, workspace);
  }
  small.synchronize(kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(download<float>(out), std::vector<float>{300});
}

// --- B23: nothing overtakes what is queued ---

// The few functions of OpenCL that somebody who was given a native queue would call.
class RawOpenCl {
 public:
  explicit RawOpenCl(const Device& device) : library_(::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL)) {
    int code = 0;
    const char* source = kSource;
    const auto program = function<void*(void*, unsigned, const char**, const std::size_t*, int*)>(
        "clCreateProgramWithSource")(device.native_handle(), 1, &source, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    check(function<int(void*, unsigned, void* const*, const char*, void*, void*)>("clBuildProgram")(
              program, 0, nullptr, "", nullptr, nullptr),
          "clBuildProgram");
    kernel_ = function<void*(void*, const char*, int*)>("clCreateKernel")(program, "log_id", &code);
    check(code, "clCreateKernel");
    function<int(void*)>("clReleaseProgram")(program);
  }
  ~RawOpenCl() { function<int(void*)>("clReleaseKernel")(kernel_); }
  RawOpenCl(const RawOpenCl&) = delete;
  RawOpenCl& operator=(const RawOpenCl&) = delete;

  void log(void* queue, const Memory& log, std::uint32_t id) const {
    check(function<int(void*, unsigned, const void*)>("clSetKernelArgSVMPointer")(
              kernel_, 0, reinterpret_cast<const void*>(static_cast<std::uint64_t>(log.address()))),
          "clSetKernelArgSVMPointer");
    check(function<int(void*, unsigned, std::size_t, const void*)>("clSetKernelArg")(kernel_, 1, sizeof id, &id),
          "clSetKernelArg");
    const std::size_t one = 1;
    check(function<int(void*, void*, unsigned, const std::size_t*, const std::size_t*, const std::size_t*, unsigned,
                       const void*, void*)>("clEnqueueNDRangeKernel")(queue, kernel_, 1, nullptr, &one, &one, 0,
                                                                      nullptr, nullptr),
          "clEnqueueNDRangeKernel");
  }

 private:
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  static void check(int code, const char* call) {
    if (code != 0) throw std::runtime_error(std::string(call) + " returned " + std::to_string(code));
  }
  void* library_;
  void* kernel_ = nullptr;
};

TEST_P(QueueReport, B23_NoRouteOvertakesWhatIsQueued) {
  const Kernel kernel = module.kernel("log_id");
  const Memory log = device.allocate(16);
  PlanOptions options;
  options.shape = LaunchShape{};
  const auto typed = LaunchPlan::create(kernel, options).typed<Tensor<std::uint32_t>, std::uint32_t>();
  const auto to = log.tensor<std::uint32_t>();

  std::unique_ptr<RawOpenCl> raw;
  const bool has_raw = is_opencl() && std::string(GetParam()).find("buffer") == std::string::npos;
  if (has_raw) raw = std::make_unique<RawOpenCl>(device);
  const auto externally = [&](void* queue) {
    if (raw) raw->log(queue, log, 3);
  };

  Capture capture(stream, "three");
  typed(stream, to, 3);
  const ExecutableGraph graph = capture.end().instantiate();
  Capture external_capture(stream, "external");
  external_capture.external(stream, "three", {}, [&](ExternalCall& call) {
    if (is_opencl()) externally(call.native_stream());
    else log_id(reinterpret_cast<std::uint32_t*>(static_cast<std::uint64_t>(log.address())), 3);
  });
  const ExecutableGraph external = external_capture.end().instantiate();

  std::vector<std::pair<const char*, std::function<void()>>> routes = {
      {"a planned launch", [&] { typed(stream, to, 3); }},
      {"a launch of the general path", [&] { stream.launch(kernel, {}, log, std::uint32_t{3}); }},
      {"a replay", [&] { (void)graph.launch(stream); }},
  };
  if (!is_opencl() || has_raw) routes.emplace_back("an external operation", [&] { (void)external.launch(stream); });
  if (has_raw) {
    routes.emplace_back("the native handle", [&] { externally(stream.native_handle()); });
    void* const taken_before = stream.native_handle();
    routes.emplace_back("a native handle taken before, behind an event", [&, taken_before] {
      const Event event = device.create_event();
      stream.mark(event);
      event.synchronize(kLimit);
      externally(taken_before);
    });
  }
  for (const auto& [name, route] : routes) {
    for (int i = 0; i < 250; ++i) {  // of each route, a thousand and more of all
      stream.fill(log.address(), 0, 4, 4);
      typed(stream, to, 1);
      // Holds up whoever executes the queue.
      if (i % 2 == 0) stream.host_function([] { std::this_thread::yield(); });
      typed(stream, to, 2);
      route();
      ASSERT_EQ(download<std::uint32_t>(log), (std::vector<std::uint32_t>{3, 1, 2, 3})) << name << ", round " << i;
    }
  }
}

TEST_P(QueueReport, B23_EventsAndSynchroniseCoverWhatIsStillQueued) {
  const Kernel kernel = module.kernel("log_id");
  const Memory log = device.allocate(16);
  const Stream other = device.create_stream();
  for (int i = 0; i < 300; ++i) {
    const Event event = device.create_event();
    std::atomic<bool> ran{false};
    stream.fill(log.address(), 0, 4, 4);
    stream.host_function([&] {
      std::this_thread::yield();
      ran = true;
    });
    stream.launch(kernel, {}, log, std::uint32_t{1});
    stream.mark(event);
    other.wait(event);
    other.launch(kernel, {}, log, std::uint32_t{2});
    if (i % 2 == 0) {
      event.synchronize(kLimit);
      ASSERT_TRUE(ran.load()) << i;
      ASSERT_TRUE(event.query()) << i;
    } else {
      stream.synchronize(kLimit);
      ASSERT_TRUE(ran.load()) << i;
      ASSERT_TRUE(stream.idle()) << i;
    }
    other.synchronize(kLimit);
    ASSERT_EQ(download<std::uint32_t>(log), (std::vector<std::uint32_t>{2, 1, 2, 0})) << i;
  }
}

// --- B37: the caller's lock and the callbacks that need it ---

// Callbacks run on a thread of their own.
class CallbackReport : public QueueReport {};

TEST_P(CallbackReport, B37_CallbacksThatNeedTheCallersLockGetItWheneverTheCallerWaits) {
  const Stream small = device.create_stream({.priority = 0, .ring_bytes = 16 << 10, .name = "four"});
  const Kernel kernel = module.kernel("accumulate");
  const std::vector<float> ones(kWorkspace, 1);
  const Memory out = upload({0}), workspace = upload(ones);
  stream.synchronize(kLimit);
  std::mutex lock;
  int ran = 0;  // under the lock
  std::atomic<int> timeouts{0};
  const auto start = std::chrono::steady_clock::now();
  device.set_blocking_hooks([&] { lock.unlock(); }, [&] { lock.lock(); });
  {
    std::unique_lock held(lock);
    for (int i = 0; i < 100; ++i) {
      small.host_function([&] {
        std::unique_lock mine(lock, std::try_to_lock);
        for (int tries = 0; !mine.owns_lock() && tries < 100'000; ++tries) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          (void)mine.try_lock();
        }
        if (mine.owns_lock()) ++ran;
        else ++timeouts;
      });
      small.copy_to_device(workspace.address(), ones.data(), workspace.size_bytes());
      small.launch(kernel, {}, out, workspace);
    }
    const Module fresh = load(device);
    small.synchronize(kLimit);
    EXPECT_EQ(ran, 100);
    small.launch(fresh.kernel("accumulate"), {}, out, workspace);
    small.synchronize(kLimit);
    held.release();
    lock.unlock();
  }
  device.set_blocking_hooks(nullptr, nullptr);
  EXPECT_EQ(timeouts, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(download<float>(out), std::vector<float>{101});
}

TEST_P(QueueReport, B37_ACallbackThatCallsInIsRefusedAtOnceAndOneThatThrowsIsToldOnce) {
  const Memory out = upload({0}), in = upload({1});
  const Kernel kernel = module.kernel("add");
  const auto use = [&](const std::function<void()>& call) {
    ErrorCode code = ErrorCode::kInternal;
    std::string words;
    stream.host_function([&] {
      try {
        call();
      } catch (const Error& error) {
        code = error.code();
        words = error.what();
      }
    });
    stream.synchronize(kLimit);
    EXPECT_EQ(code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(words.find("not allowed in a kernel or host function"), std::string::npos) << words;
  };
  use([&] { stream.launch(kernel, {}, out, in, 1, 1.0F); });
  use([&] { stream.synchronize(); });
  use([&] { device.synchronize(); });
  use([&] { (void)stream.native_handle(); });

  stream.host_function([] { throw std::runtime_error("no luck"); }, "unlucky");
  try {
    stream.launch(kernel, {}, out, in, 1, 1.0F);
  } catch (const Error&) {
    // It may be known by now, and is still to be told.
  }
  try {
    stream.synchronize(kLimit);
    ADD_FAILURE() << "the failure was not told";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kKernelFailed);
    EXPECT_EQ(error.name(), "unlucky");
  }
  stream.synchronize(kLimit);  // told already
  stream.recover();
  stream.launch(kernel, {}, out, in, 1, 5.0F);
  EXPECT_EQ(download<float>(out), std::vector<float>{6});
}

// The payloads of what a failure discards may be anybody's objects: their end is not the submitter's business.
// Another thread than the submitter's executes or hands over.
class OtherThreadReport : public QueueReport {};

TEST_P(OtherThreadReport, B37_DiscardedPayloadsAreNotDestroyedOnTheThreadThatSubmits) {
  struct Payload {
    std::atomic<int>& mine;
    std::thread::id submitter = std::this_thread::get_id();
    ~Payload() {
      if (std::this_thread::get_id() == submitter) ++mine;
    }
  };
  std::atomic<int> mine{0};
  testing::Hold hold(device);
  hold.hold(stream);
  stream.host_function([] { throw std::runtime_error("first"); });
  std::vector<std::weak_ptr<Payload>> payloads;
  for (int i = 0; i < 10; ++i) {
    auto payload = std::make_shared<Payload>(mine);
    payloads.push_back(payload);
    stream.host_function([p = std::move(payload)] {});
  }
  hold.release();
  EXPECT_THROW(stream.synchronize(kLimit), Error);
  for (const auto& payload : payloads) EXPECT_TRUE(payload.expired());
  EXPECT_EQ(mine, 0);
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueReport,
                         ::testing::ValuesIn(devices({"cpu", "cpu:inline", "opencl", "opencl:queue=park",
                                                      "opencl:queue=spin",
                                                      "opencl:memory=buffer,queue=spin,queue_per=stream"})),
                         uri_name);
INSTANTIATE_TEST_SUITE_P(Queues, CallbackReport,
                         ::testing::ValuesIn(devices({"cpu", "opencl", "opencl:queue=park", "opencl:queue=spin",
                                                      "opencl:memory=buffer,queue=spin,queue_per=stream"})),
                         uri_name);
INSTANTIATE_TEST_SUITE_P(Queues, OtherThreadReport,
                         ::testing::ValuesIn(devices({"cpu", "opencl:queue=park", "opencl:queue=spin",
                                                      "opencl:memory=buffer,queue=spin,queue_per=stream"})),
                         uri_name);

}  // namespace
}  // namespace slipway::report_tests
