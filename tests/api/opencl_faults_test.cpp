// What is done between Slipway and an OpenCL implementation: each of its functions failing once, and when commands are
// flushed. The table of functions is the library's own, with others in their places.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "drivers/opencl/opencl_symbols.h"
#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::api_tests {
namespace {

using internal::cl_int;
using internal::ClSymbols;

constexpr WaitLimit kLimit{10000};

std::atomic<std::int64_t> g_until_failure{0};  // calls until one fails; 0: none does
std::atomic<const char*> g_failed{nullptr};
std::atomic<std::int64_t> g_flushes{0}, g_kernels{0}, g_kernels_at_first_flush{0};

bool fails(const char* name) {
  if (g_until_failure.load(std::memory_order_relaxed) <= 0 || g_until_failure.fetch_sub(1) != 1) return false;
  g_failed = name;
  return true;
}

constexpr cl_int kOutOfResources = -5;

// In the place of a function, which it calls unless it is its turn to fail.
template <auto kMember, class Function>
struct InFront;
template <auto kMember, class Result, class... Args>
struct InFront<kMember, Result (*)(Args...)> {
  static inline Result (*behind)(Args...) = nullptr;
  static inline const char* name = nullptr;
  static Result call(Args... args) {
    if (fails(name)) {
      if constexpr (std::is_same_v<Result, cl_int>) {
        return kOutOfResources;
      } else {
        const auto set = [](auto last) {
          if constexpr (std::is_same_v<decltype(last), cl_int*>) *last = kOutOfResources;
        };
        set(std::get<sizeof...(Args) - 1>(std::tuple(args...)));
        return nullptr;
      }
    }
    return behind(args...);
  }
};

template <auto kMember>
void put_in_front(ClSymbols& cl, const char* name) {
  using Function = std::remove_reference_t<decltype(cl.*kMember)>;
  using Place = InFront<kMember, Function>;
  if (!(cl.*kMember)) return;
  Place::behind = cl.*kMember;
  Place::name = name;
  cl.*kMember = &Place::call;
}

cl_int (*g_flush)(internal::cl_command_queue) = nullptr;
cl_int count_flush(internal::cl_command_queue queue) {
  if (g_flushes.fetch_add(1) == 0) g_kernels_at_first_flush = g_kernels.load();
  return g_flush(queue);
}
decltype(ClSymbols::clEnqueueNDRangeKernel) g_enqueue = nullptr;
cl_int count_kernel(internal::cl_command_queue queue, internal::cl_kernel kernel, internal::cl_uint dimensions,
                    const std::size_t* offset, const std::size_t* global, const std::size_t* local,
                    internal::cl_uint waits, const internal::cl_event* wait_for, internal::cl_event* event) {
  g_kernels.fetch_add(1);
  return g_enqueue(queue, kernel, dimensions, offset, global, local, waits, wait_for, event);
}

// All that can fail in a way that somebody hears of. False: there is no OpenCL.
bool put_all_in_front() {
  auto loaded = internal::load_opencl();
  if (!loaded.ok()) return false;
  auto& cl = const_cast<ClSymbols&>(*loaded.value());  // the object itself is none
  static const bool once = [&cl] {
#define SLIPWAY_IN_FRONT(function) put_in_front<&ClSymbols::function>(cl, #function)
    SLIPWAY_IN_FRONT(clCreateContext);
    SLIPWAY_IN_FRONT(clCreateCommandQueue);
    SLIPWAY_IN_FRONT(clCreateCommandQueueWithProperties);
    SLIPWAY_IN_FRONT(clFlush);
    SLIPWAY_IN_FRONT(clCreateBuffer);
    SLIPWAY_IN_FRONT(clCreateSubBuffer);
    SLIPWAY_IN_FRONT(clCreateProgramWithSource);
    SLIPWAY_IN_FRONT(clBuildProgram);
    SLIPWAY_IN_FRONT(clGetProgramInfo);
    SLIPWAY_IN_FRONT(clCreateKernel);
    SLIPWAY_IN_FRONT(clSetKernelArg);
    SLIPWAY_IN_FRONT(clGetKernelInfo);
    SLIPWAY_IN_FRONT(clGetKernelArgInfo);
    SLIPWAY_IN_FRONT(clGetKernelWorkGroupInfo);
    SLIPWAY_IN_FRONT(clEnqueueNDRangeKernel);
    SLIPWAY_IN_FRONT(clEnqueueReadBuffer);
    SLIPWAY_IN_FRONT(clEnqueueWriteBuffer);
    SLIPWAY_IN_FRONT(clEnqueueCopyBuffer);
    SLIPWAY_IN_FRONT(clEnqueueFillBuffer);
    SLIPWAY_IN_FRONT(clEnqueueMarkerWithWaitList);
    SLIPWAY_IN_FRONT(clEnqueueBarrierWithWaitList);
    SLIPWAY_IN_FRONT(clSetEventCallback);
    SLIPWAY_IN_FRONT(clSVMAlloc);
    SLIPWAY_IN_FRONT(clSetKernelArgSVMPointer);
    SLIPWAY_IN_FRONT(clEnqueueSVMMemcpy);
    SLIPWAY_IN_FRONT(clEnqueueSVMMemFill);
#undef SLIPWAY_IN_FRONT
    g_flush = cl.clFlush;
    cl.clFlush = count_flush;
    g_enqueue = cl.clEnqueueNDRangeKernel;
    cl.clEnqueueNDRangeKernel = count_kernel;
    return true;
  }();
  return once;
}

constexpr const char* kSource =
    "kernel void add(global int* out, global const int* in, int c) { int i = get_global_id(0); out[i] = in[i] + c; }"
    "kernel void put(global int* out, int value) { out[0] = value; }";

// Some of everything that reaches the implementation.
std::vector<std::int32_t> scenario(const Device& device) {
  const Module module = device.load_source(kSource);
  const Kernel add = module.kernel("add"), put = module.kernel("put");
  const Stream stream = device.create_stream(), side = device.create_stream();
  const Event forked = device.create_event(), joined = device.create_event({.timing = true});
  const Memory a = device.allocate(64 * 1024), b = device.allocate(1024);
  // With memory=buffer a tensor begins at multiples of 128 bytes.
  const auto at = [&](std::uint64_t i) { return b.tensor<std::int32_t>(i); };
  std::vector<std::int32_t> large(16 * 1024, 3), seen(256);
  stream.copy_to_device(a.address(), large.data(), a.size_bytes());
  stream.fill(b.address(), 1, 4, 256);
  stream.launch(add, {.grid = {8}}, at(0), a, 1);
  stream.mark(forked);
  side.wait(forked);
  LaunchPlan::create(put, {.shape = LaunchShape{}}).launch(side, at(32), 7);
  side.mark(joined);
  stream.wait(joined);
  stream.copy(at(64).address, a.address(), 32);
  std::int32_t told = 0;
  stream.host_function([&told] { told = 5; });
  stream.synchronize(kLimit);
  Capture capture(stream, "captured");
  const auto n = capture.parameter<std::int32_t>("n", 2);
  const Operation twice = capture.operation("twice", {n}, {OutputSpec::argument(ArgKind::kI32)},
                                            [](OperationCall& call) { call.set(0, call.input<std::int32_t>(0) * 2); });
  stream.copy_to_device(at(96).address, large.data(), 32);
  stream.launch(add, {.grid = {8}}, at(96), at(96), n);
  capture.if_node(stream, at(32), [&](const Stream& body) { body.launch(put, {}, at(128), n); });
  stream.launch(put, {}, at(160), twice.output<std::int32_t>(0));
  stream.fill(at(192).address, 9, 4, 2);
  const GraphDefinition definition = capture.end();
  const ExecutableGraph graph = definition.instantiate();
  StepValues values = graph.values();
  values.set(n, 10);
  graph.launch(stream, values);
  const Step step = graph.launch_open(stream);
  values.set(n, 20);
  graph.publish(step, values);
  stream.copy_to_host(seen.data(), b.address(), 1024);
  stream.synchronize(kLimit);
  std::vector<std::int32_t> result{told};
  for (const std::size_t i : {0U, 7U, 32U, 33U, 64U, 71U, 96U, 103U, 128U, 160U, 192U, 193U, 194U})
    result.push_back(seen[i]);
  return result;
}
const std::vector<std::int32_t> kWanted{5, 4, 4, 7, 1, 3, 3, 23, 23, 20, 40, 9, 9, 1};

class OpenClFaults : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    g_until_failure = 0;
    if (!put_all_in_front()) GTEST_SKIP() << "no OpenCL";
    try {
      (void)Device::open(GetParam());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { g_until_failure = 0; }
};

// Whatever fails: an error that names what it was, or another way that gives the same; no wait, and a device that works
// afterwards.
TEST_P(OpenClFaults, EachFunctionFailsOnce) {
  for (std::int64_t n = 1;; ++n) {
    const std::string what = "call " + std::to_string(n);
    Device device;
    std::string failure;
    g_failed = nullptr;
    g_until_failure = n;
    try {
      device = Device::open(GetParam());
      EXPECT_EQ(scenario(device), kWanted) << what;
    } catch (const Error& error) {
      failure = error.what();
      EXPECT_NE(error.code(), ErrorCode::kTimeout) << what << " (" << g_failed.load() << "): " << failure;
      EXPECT_NE(error.code(), ErrorCode::kInternal) << what << " (" << g_failed.load() << "): " << failure;
    }
    const bool fired = g_until_failure.exchange(0) <= 0;
    if (!fired) {
      EXPECT_EQ(failure, "");
      EXPECT_GT(n, 80);
      break;
    }
    const std::string name = g_failed.load();
    if (failure.empty()) {
      // Events are then looked at instead of called back, and a kernel is what its text does not say otherwise.
      EXPECT_TRUE(name == "clSetEventCallback" || name == "clGetKernelArgInfo" || name == "clGetKernelWorkGroupInfo")
          << what << " was " << name;
    } else if (name == "clGetKernelArgInfo") {
      EXPECT_NE(failure.find("is not described by this OpenCL implementation"), std::string::npos) << failure;
    } else {
      EXPECT_NE(failure.find(name), std::string::npos) << what << " was " << name << ": " << failure;
    }
    if (!device) continue;
    for (int i = 0; i < 2; ++i) {
      try {
        device.synchronize(kLimit);
        break;
      } catch (const Error& error) {
        ASSERT_NE(error.code(), ErrorCode::kTimeout) << what << " (" << name << "): " << error.what();
      }
    }
    const Counters after = device.counters();
    EXPECT_EQ(after.live_memory_bytes, 0U) << what << " (" << name << "): memory was leaked";
    EXPECT_EQ(after.staged_bytes, 0U) << what << " (" << name << "): a staging block was leaked";
    ASSERT_EQ(scenario(device), kWanted) << what << " (" << name << "): and then again";
    device.close(kLimit);
  }
}

INSTANTIATE_TEST_SUITE_P(On, OpenClFaults,
                         ::testing::Values("opencl:wait_limit_ms=10000",
                                           "opencl:memory=buffer,queue=park,wait_limit_ms=10000"),
                         [](const auto& param) { return std::to_string(param.index); });

// The device begins with the first nodes while the others are handed over, and is not flushed for every one.
TEST(OpenClPieces, ALargeGraphIsFlushedInPieces) {
  if (!put_all_in_front()) GTEST_SKIP() << "no OpenCL";
  Device device;
  try {
    device = Device::open("opencl");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const Stream stream = device.create_stream();
  const Module module = device.load_source(kSource);
  const Memory memory = device.allocate(1024);
  constexpr std::int64_t kNodes = 3000;
  Capture capture(stream, "large");
  for (std::int64_t i = 0; i < kNodes; ++i)
    stream.launch(module.kernel("put"), {}, memory, static_cast<std::int32_t>(i));
  const ExecutableGraph graph = capture.end().instantiate();
  for (int round = 0; round < 2; ++round) {
    stream.synchronize(kLimit);
    g_flushes = g_kernels = 0;
    graph.launch(stream);
    stream.synchronize(kLimit);
    EXPECT_EQ(g_kernels, kNodes);
    EXPECT_EQ(g_kernels_at_first_flush, 16) << "pieces begin small";
    EXPECT_GE(g_flushes, 16 - 4) << "16, 32, 64, 128, then 256 each";
    EXPECT_LE(g_flushes, 16 + 6);
  }
}

}  // namespace
}  // namespace slipway::api_tests
