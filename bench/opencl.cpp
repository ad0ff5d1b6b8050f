// The peer: the same launches by hand on OpenCL, through the loader, as a program without a runtime would write them:
// every argument set, one clEnqueueNDRangeKernel. Here that is PoCL's threaded device, and its in-line one beside it.
#include "suites.h"

#if defined(SLIPWAY_BENCH_OPENCL)

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdlib>
#include <memory>

namespace bench {
namespace {

void check(cl_int status, const char* call) {
  if (status != CL_SUCCESS) throw std::runtime_error(std::string(call) + " returned " + std::to_string(status));
}

struct Session {
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_mem tensors[3]{};
  std::string name;

  explicit Session(cl_device_id d) : device(d) {
    char text[256]{};
    check(clGetDeviceInfo(d, CL_DEVICE_NAME, sizeof text - 1, text, nullptr), "clGetDeviceInfo");
    name = text;
    cl_int status = CL_SUCCESS;
    context = clCreateContext(nullptr, 1, &d, nullptr, nullptr, &status);
    check(status, "clCreateContext");
    queue = clCreateCommandQueue(context, d, 0, &status);
    check(status, "clCreateCommandQueue");
    for (cl_mem& tensor : tensors) {
      tensor = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, nullptr, &status);
      check(status, "clCreateBuffer");
      const float zeros[64]{};
      check(clEnqueueWriteBuffer(queue, tensor, CL_TRUE, 0, sizeof zeros, zeros, 0, nullptr, nullptr),
            "clEnqueueWriteBuffer");
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    for (cl_mem tensor : tensors) clReleaseMemObject(tensor);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
  }

  void finish() const { check(clFinish(queue), "clFinish"); }
  float first() const {
    float value = 0;
    check(clEnqueueReadBuffer(queue, tensors[0], CL_TRUE, 0, sizeof value, &value, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    return value;
  }
};

// Up to three buffers, then ints; the last int of a busy kernel is how long it works.
struct Launcher {
  std::shared_ptr<const Session> session;
  cl_program program = nullptr;
  cl_kernel kernel = nullptr;
  int arguments;

  Launcher(std::shared_ptr<const Session> s, int n, bool busy) : session(std::move(s)), arguments(n) {
    std::string text = "__kernel void run(";
    for (int i = 0; i < n; ++i) {
      text += i == 0 ? "" : ", ";
      text += i < 3 ? "__global float* t" + std::to_string(i) : "int s" + std::to_string(i);
    }
    text += busy ? ") { float x = t1[0]; for (int i = 0; i < s" + std::to_string(n - 1) +
                       "; ++i) x = x * 0.5f + 1.0f; t1[0] = x; t0[0] += 1.0f; }"
                 : ") { t0[0] += 1.0f; }";
    const char* source = text.c_str();
    cl_int status = CL_SUCCESS;
    program = clCreateProgramWithSource(session->context, 1, &source, nullptr, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &session->device, "", nullptr, nullptr), "clBuildProgram");
    kernel = clCreateKernel(program, "run", &status);
    check(status, "clCreateKernel");
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    clReleaseKernel(kernel);
    clReleaseProgram(program);
  }

  void launch(int last) const {
    cl_int status = CL_SUCCESS;
    for (int i = 0; i < arguments; ++i) {
      const auto index = static_cast<cl_uint>(i);
      if (i < 3) {
        status |= clSetKernelArg(kernel, index, sizeof(cl_mem), &session->tensors[i]);
      } else {
        const cl_int value = i + 1 == arguments ? last : i;
        status |= clSetKernelArg(kernel, index, sizeof value, &value);
      }
    }
    const std::size_t one = 1;
    status |= clEnqueueNDRangeKernel(session->queue, kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr);
    check(status, "clEnqueueNDRangeKernel or clSetKernelArg");
  }
};

Sample turn(const Launcher& l) {
  const float before = l.session->first();
  const std::int64_t start = now_ns();
  for (int i = 0; i < kBatchItems; ++i) l.launch(i);
  const std::int64_t submitted = now_ns();
  l.session->finish();
  const std::int64_t end = now_ns();
  // The counter is a float: it is exact up to 16 million.
  prove(l.session->first() - before == static_cast<float>(kBatchItems), "launches of OpenCL");
  return {static_cast<double>(submitted - start) / kBatchItems, static_cast<double>(end - start) / kBatchItems};
}

std::vector<std::shared_ptr<const Session>> sessions() {
  ::setenv("POCL_DEVICES", "pthread basic", 0);  // both, unless the caller chose
  const StartsOn side(Sides::kBoth);             // its own choice of threads and processors
  std::vector<std::shared_ptr<const Session>> found;
  cl_platform_id platforms[8];
  cl_uint count = 0;
  if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) return found;
  for (cl_uint i = 0; i < count && i < 8; ++i) {
    cl_device_id devices[8];
    cl_uint device_count = 0;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 8, devices, &device_count) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < device_count && d < 8; ++d) found.push_back(std::make_shared<Session>(devices[d]));
  }
  return found;
}

// The first one that is not in-line.
std::shared_ptr<const Session> threaded() {
  static const auto session = [] {
    std::shared_ptr<const Session> chosen;
    for (auto& s : sessions()) {
      if (!chosen && s->name.find("basic") == std::string::npos) chosen = s;
    }
    return chosen;
  }();
  return session;
}

}  // namespace

bool add_opencl(Rows& rows, Report& report) {
  const auto session = threaded();
  if (!session) {
    report.skipped.push_back("OpenCL by hand: no platform with a device was found");
    return false;
  }
  for (const int n : {1, 4, 6, 16, 64}) {
    auto launcher = std::make_shared<Launcher>(session, n, false);
    rows.add("OpenCL by hand", std::to_string(n) + " arguments", [launcher] { return turn(*launcher); });
  }
  for (const auto& s : sessions()) {
    if (s->name.find("basic") == std::string::npos) continue;
    auto launcher = std::make_shared<Launcher>(s, 6, false);
    rows.add("OpenCL by hand", "6 arguments, in-line device 'basic'", [launcher] { return turn(*launcher); });
    break;
  }
  return true;
}

double opencl_idle_ms(const std::vector<int>& argument_counts, double busy_us, int steps) {
  const auto session = threaded();
  if (!session) return -1;
  static std::vector<std::unique_ptr<Launcher>> launchers(32);
  for (const int n : argument_counts) {
    auto& slot = launchers[static_cast<std::size_t>(n)];
    if (!slot) slot = std::make_unique<Launcher>(session, n, true);
  }
  const auto timed = [&](auto&& work) {
    const std::int64_t start = now_ns();
    work();
    session->finish();
    return static_cast<double>(now_ns() - start);
  };
  // How many turns of the loop make busy_us, by the difference of a long and a short kernel.
  static const double turn_ns = [&] {
    std::vector<double> samples;
    const Launcher& any = *launchers[static_cast<std::size_t>(argument_counts.front())];
    for (int i = 0; i < 15; ++i) {
      const double shorter = timed([&] { any.launch(1000); });
      const double longer = timed([&] { any.launch(1'001'000); });
      samples.push_back((longer - shorter) / 1e6);
    }
    return median(std::move(samples));
  }();
  const int turns = static_cast<int>(busy_us * 1000 / turn_ns);
  std::vector<double> idle;
  for (int step = 0; step < steps; ++step) {
    const float before = session->first();
    const double took = timed([&] {
      for (const int n : argument_counts) launchers[static_cast<std::size_t>(n)]->launch(turns);
    });
    prove(session->first() - before == static_cast<float>(argument_counts.size()), "busy kernels of OpenCL");
    idle.push_back((took - busy_us * 1000 * static_cast<double>(argument_counts.size())) / 1e6);
  }
  return quantile(std::move(idle), 0.25);
}

}  // namespace bench

#else

namespace bench {

bool add_opencl(Rows&, Report& report) {
  report.skipped.push_back("OpenCL by hand: this was built without the OpenCL headers and loader");
  return false;
}
double opencl_idle_ms(const std::vector<int>&, double, int) { return -1; }

}  // namespace bench

#endif
