#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

constexpr const char* kConfigurations[] = {"null", "null:store"};

}  // namespace

const Driver kNull{
    .name = "null",
    .configurations = kConfigurations,
    .load = [](const Device& device) { return device.load_table(standard_kernels()); },
    .supports = [](const std::string& uri) -> unsigned {
      return kFaults | (uri.find("store") != std::string::npos ? kStores | kSees : 0U);
    },
    .unsupported = {},
    .expected_failures = {},
};

}  // namespace slipway::conformance
