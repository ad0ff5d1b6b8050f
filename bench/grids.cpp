// Launches whose grid is given, or computed from their arguments: by an expression, by a function, and by hand.
#include <memory>

#include "cases.h"
#include "suites.h"

namespace bench {
namespace {

using slipway::Tensor;

void run(const float* a, const float*, float*, std::int32_t n, std::int32_t, std::int32_t) {
  ++g_runs;
  g_sum += static_cast<std::uint64_t>(n) + std::uint64_t{a != nullptr};
}

enum class Grid { kStatic, kGiven, kByHand, kExpression, kFunction };

// One block each, so that all of them give the device the same work.
struct Launches {
  using Typed = slipway::TypedLaunch<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t,
                                     std::int32_t, std::int32_t>;
  using TypedGrid = slipway::TypedGridLaunch<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t,
                                             std::int32_t, std::int32_t>;

  Launches() {
    const slipway::Kernel kernel = module.kernel("run");
    typed_grid = slipway::LaunchPlan::create(kernel)
                     .typed_grid<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t, std::int32_t,
                                 std::int32_t>();
    const auto typed = [&](const slipway::PlanOptions& options) {
      return slipway::LaunchPlan::create(kernel, options)
          .typed<Tensor<const float>, Tensor<const float>, Tensor<float>, std::int32_t, std::int32_t, std::int32_t>();
    };
    with_shape = typed({.shape = slipway::LaunchShape{}});
    by_expression =
        typed({.grid = slipway::GridRule::expression("(cdiv(n, 128), 1, 1)", {"a", "b", "c", "n", "m", "k"})});
    by_function = typed({.grid = slipway::GridRule::function([](const slipway::GridArguments& arguments) {
                           return slipway::Extent{(arguments[3] + 127) / 128, 1, 1};
                         })});
    a = memory.tensor<const float>();
    c = memory.tensor<float>(128);
    stream.synchronize();
  }

  void launch(Grid grid) const {
    switch (grid) {
      case Grid::kStatic: return with_shape(stream, a, a, c, n, m, k);
      case Grid::kGiven: return typed_grid(stream, {1, 1, 1}, a, a, c, n, m, k);
      case Grid::kByHand: return typed_grid(stream, {(std::int64_t{n} + 127) / 128, 1, 1}, a, a, c, n, m, k);
      case Grid::kExpression: return by_expression(stream, a, a, c, n, m, k);
      case Grid::kFunction: return by_function(stream, a, a, c, n, m, k);
    }
  }

  Sample turn(Grid grid) const {
    const std::uint64_t runs = g_runs, sum = g_sum;
    auto hold = std::make_unique<slipway::testing::Hold>(device);
    hold->hold(stream);
    const std::int64_t start = now_ns();
    for (int i = 0; i < kBatchItems; ++i) launch(grid);
    const std::int64_t submitted = now_ns();
    hold.reset();
    stream.synchronize();
    prove(g_runs - runs == kBatchItems && g_sum - sum == kBatchItems * (static_cast<std::uint64_t>(n) + 1),
          "launches with computed grids");
    return {static_cast<double>(submitted - start) / kBatchItems, 0};
  }

  slipway::Device device = open_device("cpu");
  slipway::Stream stream = device.create_stream();
  slipway::Module module = device.load_table({slipway::kernel<&run>("run")});
  slipway::Memory memory = device.allocate(4096);
  Tensor<const float> a;
  Tensor<float> c;
  std::int32_t n = 100, m = 1, k = 1;
  Typed with_shape, by_expression, by_function;
  TypedGrid typed_grid;
};

}  // namespace

void add_grids(Rows& rows) {
  const auto launches = std::make_shared<Launches>();
  const std::pair<const char*, Grid> kinds[] = {{"static shape", Grid::kStatic},
                                                {"grid given", Grid::kGiven},
                                                {"grid given, computed by hand", Grid::kByHand},
                                                {"grid expression", Grid::kExpression},
                                                {"grid function", Grid::kFunction}};
  for (const auto& [name, grid] : kinds) {
    rows.add("grids, held", std::string("plan, ") + name, [launches, grid = grid] { return launches->turn(grid); });
  }
}

}  // namespace bench
