// Any text as an update plan: it is refused with an Error, or it resolves or refuses a few lists of inputs, and a plan
// that refuses has set nothing.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "graph/definition.h"
#include "graph/graph_access.h"
#include "slipway/slipway.h"

namespace {

using namespace slipway;

struct Bytes {
  std::int64_t values[4];
};

GraphDefinition make(const Device& device) {
  const Stream stream = device.create_stream();
  Capture capture(stream, "fuzzed");
  const auto n = capture.parameter<std::int32_t>("n"), m = capture.parameter<std::int32_t>("m");
  const auto lengths = capture.parameter<Bytes>("lengths");
  const auto scale = capture.parameter<float>("scale");
  const auto on = capture.parameter<bool>("on");
  const auto out = capture.parameter<float*>("out", nullptr);
  const auto nothing = [](OperationCall& call) { call.set(0, std::int32_t{0}); };
  const Operation first =
      capture.operation("a", {n, lengths, scale, on, out}, {OutputSpec::argument(ArgKind::kI32)}, nothing);
  (void)capture.apply(first, {m, lengths, scale, on, out});
  stream.fill(device.allocate(64).address(), 0, 4, 16);  // a graph has some work
  return capture.end();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Device device = Device::open("null");
  static const GraphDefinition definition = make(device);
  static StepValues values = definition.instantiate().values();
  std::byte* const bytes = internal::GraphAccess::bytes(values);
  const std::vector<std::byte> before(bytes, bytes + definition.impl()->block_bytes);
  try {
    const BoundUpdatePlan bound = UpdatePlan::from_json({reinterpret_cast<const char*>(data), size}).bind(definition);
    const std::array<UpdateValue, 4> inputs{7, UpdateValue::list({1, 2, 3, 4}), 0.5, true};
    if (!bound.resolve(inputs, values)) std::abort();  // the graph has operations
    for (const std::size_t input : bound.consumed_integers()) {
      if (input != 0 && input != 1) std::abort();  // no other resolves as an integer or a list of them
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
    if (!std::equal(before.begin(), before.end(), bytes)) std::abort();
  }
  return 0;
}
