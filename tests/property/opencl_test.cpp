// What kernels in OpenCL C read, for random signatures and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "property/captured_launch.h"
#include "property/random_values.h"
#include "support/require.h"

namespace slipway::property {
namespace {

constexpr std::size_t kKernels = 12;
constexpr std::uint64_t kOutBytes = 4096;
constexpr int kTensors = 8;

const char* type_in_c(ArgKind kind) {
  switch (kind) {
    case ArgKind::kTensor: return "global const uchar*";
    case ArgKind::kI8: return "char";
    case ArgKind::kI16: return "short";
    case ArgKind::kI32: return "int";
    case ArgKind::kI64: return "long";
    case ArgKind::kU16:
    case ArgKind::kF16:
    case ArgKind::kBF16: return "ushort";
    case ArgKind::kU32: return "uint";
    case ArgKind::kU64: return "ulong";
    case ArgKind::kF32: return "float";
    case ArgKind::kF64: return "double";
    default: return "uchar";
  }
}

// Writes the bytes of its arguments one behind the other; of a tensor the first byte that it points to.
std::string source_of(const std::string& name, const Signature& signature) {
  std::string structs, parameters = "global uchar* out", body;
  for (std::size_t i = 1; i < signature.size(); ++i) {
    const Parameter& p = signature[i];
    const std::string argument = "a" + std::to_string(i);
    std::string type = type_in_c(p.kind);
    if (p.kind == ArgKind::kBytes) {
      type = name + "_" + argument;
      structs += "typedef struct { uchar c[" + std::to_string(p.size_bytes) + "]; } __attribute__((aligned(" +
                 std::to_string(p.align_bytes) + "))) " + type + ";\n";
    }
    parameters += ", " + type + " " + argument;
    body += p.kind == ArgKind::kTensor ? "  out[at++] = *" + argument + ";\n" : "  KEEP(" + argument + ")\n";
  }
  return structs + "kernel void " + name + "(" + parameters +
         ") {\n  if (get_group_id(0) + get_group_id(1) + get_group_id(2) != 0) return;\n  uint at = 0;\n" + body +
         "}\n";
}

class OpenClArguments : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto drivers = list_drivers();
    if (std::none_of(drivers.begin(), drivers.end(), [](auto& d) { return d.name == "opencl" && d.available; }))
      SLIPWAY_SKIP_OR_FAIL("opencl", "no OpenCL device");
    device = Device::open(GetParam());
    stream = device.create_stream();
    out = device.allocate(kOutBytes);
    const std::uint64_t stride = std::max<std::uint64_t>(256, device.info().tensor_alignment);
    pool = device.allocate(stride * kTensors);
    for (int i = 0; i < kTensors; ++i) {
      random.addresses.push_back(static_cast<std::uint64_t>(pool.address()) + stride * static_cast<std::uint64_t>(i));
      stream.fill(DevicePtr{random.addresses.back()}, 100 + static_cast<std::uint64_t>(i), 1, 1);
    }
    std::string source =
        "#define KEEP(value) { private const uchar* p = (private const uchar*)&value; \\\n"
        "  for (uint i = 0; i < sizeof(value); ++i) out[at++] = p[i]; }\n";
    for (std::size_t i = 0; i < kKernels; ++i) {
      signatures.push_back(random.signature());
      signatures.back().insert(signatures.back().begin(), Parameter{});
      source += source_of("k" + std::to_string(i), signatures.back());
    }
    module = device.load_source(source);
  }

  Values values(const Signature& signature) {
    Values values = random.values(signature);
    const DevicePtr address = out.address();
    std::memcpy(values[0].bytes.data(), &address, sizeof address);
    return values;
  }
  void clear() const { stream.fill(out.address(), 0xEE, 1, kOutBytes); }
  void expect_arrived(const Values& values, const std::string& what) const {
    std::vector<std::byte> wanted;
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i].parameter.kind != ArgKind::kTensor) {
        wanted.insert(wanted.end(), values[i].bytes.begin(), values[i].bytes.end());
        continue;
      }
      const auto found = std::find(random.addresses.begin(), random.addresses.end(), load<std::uint64_t>(values[i]));
      wanted.push_back(static_cast<std::byte>(100 + (found - random.addresses.begin())));
    }
    wanted.resize(kOutBytes, std::byte{0xEE});
    std::vector<std::byte> seen(kOutBytes);
    stream.copy_to_host(seen.data(), out.address(), kOutBytes);
    stream.synchronize();
    const auto [a, b] = std::mismatch(seen.begin(), seen.end(), wanted.begin());
    ASSERT_TRUE(a == seen.end()) << what << " differs at byte " << a - seen.begin();
  }

  Device device;
  Stream stream;
  Memory out, pool;
  Random random{20261130};
  std::vector<Signature> signatures;
  Module module;
};

TEST_P(OpenClArguments, ArriveOnEveryPath) {
  for (std::size_t i = 0; i < kKernels && !HasFatalFailure(); ++i) {
    const Signature& s = signatures[i];
    const std::string text = "(" + to_string(s) + ")";
    const Kernel kernel = module.kernel("k" + std::to_string(i), s);
    const Values first = values(s);
    clear();
    stream.launch_arguments(kernel, {}, arguments_of(first));
    expect_arrived(first, text + ", general");

    const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{.grid = {3, 2, 1}}});
    for (const Values& now : {first, values(s)}) {
      clear();
      plan.launch_arguments(stream, std::nullopt, arguments_of(now));
      expect_arrived(now, text + ", planned");
    }

    const std::set<std::size_t> fixed = random.some(s, false);
    PlanOptions options;
    for (const std::size_t f : fixed) options.fixed.emplace_back(f, argument_of(first[f]));
    Values now = values(s);
    for (const std::size_t f : fixed) now[f] = first[f];
    clear();
    LaunchPlan::create(kernel, options).launch_arguments(stream, Extent{2, 1, 2}, arguments_of(now, fixed));
    expect_arrived(now, text + ", planned with fixed arguments and a grid of the call");

    Capture capture(stream);
    CapturedLaunch node(capture, stream, kernel, random, first, random.grid(), 1);
    const GraphDefinition definition = capture.end();
    const ExecutableGraph graph = definition.instantiate();
    StepValues step_values = graph.values();
    for (int step = 0; step < 3; ++step) {
      clear();
      graph.launch(stream, step_values);
      expect_arrived(node.values(), text + ", graph node in step " + std::to_string(step));
      node.change(random);
      node.set(definition, step_values, "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, OpenClArguments, ::testing::Values("opencl:memory=svm", "opencl:memory=buffer"));

}  // namespace
}  // namespace slipway::property
