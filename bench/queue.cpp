// Launches on Slipway's OpenCL device: by the caller itself, and through a submission queue that frees it of them.
#include <memory>
#include <string>

#include "suites.h"

#include "slipway/slipway.h"

namespace bench {
namespace {

constexpr const char* kSource =
    "kernel void run(global float* a, global const float* b, global const float* c, int d, int e, int f) { a[0] += 1; "
    "}";

struct Bound {
  explicit Bound(const std::string& uri) : device(slipway::Device::open(uri)), stream(device.create_stream()) {
    slipway::PlanOptions options;
    options.shape.emplace();
    launch = slipway::LaunchPlan::create(device.load_source(kSource).kernel("run"), options)
                 .typed<slipway::Tensor<float>, slipway::Tensor<const float>, slipway::Tensor<const float>,
                        std::int32_t, std::int32_t, std::int32_t>();
    memory = device.allocate(4096);
    stream.fill(memory.address(), 0, 4, 1024);
    stream.synchronize();
  }
  float count() const {
    float value = 0;
    stream.copy_to_host(&value, memory.address(), sizeof value);
    stream.synchronize();
    return value;
  }

  slipway::Device device;
  slipway::Stream stream;
  slipway::TypedLaunch<slipway::Tensor<float>, slipway::Tensor<const float>, slipway::Tensor<const float>, std::int32_t,
                       std::int32_t, std::int32_t>
      launch;
  slipway::Memory memory;
};

Sample turn(const Bound& b) {
  b.stream.fill(b.memory.address(), 0, 4, 1);
  b.stream.synchronize();
  const auto a = b.memory.tensor<float>();
  const slipway::Tensor<const float> other{b.memory.tensor<float>(512).address};
  const std::int64_t start = now_ns();
  for (int i = 0; i < kBatchItems; ++i) b.launch(b.stream, a, other, other, 1, 2, i);
  const std::int64_t submitted = now_ns();
  b.stream.synchronize();
  const std::int64_t end = now_ns();
  prove(b.count() == static_cast<float>(kBatchItems), "launches of Slipway on OpenCL");
  return {static_cast<double>(submitted - start) / kBatchItems, static_cast<double>(end - start) / kBatchItems};
}

}  // namespace

void add_queue(Rows& rows, Report& report) {
  const StartsOn side(Sides::kBoth);  // the implementation's threads, and the launching thread beside them
  for (const char* queue : {"inline", "park", "spin"}) {
    std::shared_ptr<Bound> bound;
    try {
      bound = std::make_shared<Bound>(std::string("opencl:queue=") + queue);
    } catch (const slipway::Error& error) {
      report.skipped.push_back(std::string("Slipway on OpenCL: ") + error.what());
      return;
    }
    const std::string mode = queue == std::string("inline") ? "in-line" : std::string("queue=") + queue;
    rows.add("opencl, " + mode, "typed, 6 arguments", [bound] { return turn(*bound); });
  }
}

}  // namespace bench
