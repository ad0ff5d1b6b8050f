#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

constexpr const char* kConfigurations[] = {"cpu:workers=1", "cpu:workers=2", "cpu:inline"};

}  // namespace

const Driver kCpu{
    .name = "cpu",
    .configurations = kConfigurations,
    .load = [](const Device& device) { return device.load_table(standard_kernels()); },
    .supports = [](const std::string&) -> unsigned { return kRuns | kSees | kThrowing; },
    .unsupported = {},
    .expected_failures = {},
};

}  // namespace slipway::conformance
