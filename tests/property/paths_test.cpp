// For random signatures and values, what the kernel reads is what was passed: on every way to launch, on every layout.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "property/captured_launch.h"
#include "property/random_values.h"
#include "property/rig.h"

namespace slipway::property {
namespace {

constexpr int kRounds = 40;

class EveryPath : public ::testing::TestWithParam<RigOptions> {
 protected:
  EveryPath() : rig(GetParam()), random(20261130) {}

  // Calls check(signature, values, kernel, text) for random signatures.
  template <class Check>
  void for_each_signature(Check&& check) {
    for (int round = 0; round < kRounds && !HasFatalFailure(); ++round) {
      const Signature signature = random.signature();
      const Values values = random.values(signature);
      rig.expect(values);
      check(signature, values, rig.load("k", signature), "(" + to_string(signature) + ")");
    }
  }

  Rig rig;
  Random random;
};

TEST_P(EveryPath, General) {
  for_each_signature([&](const Signature&, const Values& values, const Kernel& kernel, const std::string& text) {
    for (const Dim3& grid : {Dim3{1, 1, 1}, random.grid()}) {
      rig.stream.launch_arguments(kernel, shape_of(grid), arguments_of(values));
      rig.expect_launched(values, grid, text);
    }
  });
}

TEST_P(EveryPath, Planned) {
  for_each_signature([&](const Signature& s, const Values& values, const Kernel& kernel, const std::string& text) {
    for (const Dim3& grid : {Dim3{1, 1, 1}, random.grid()}) {
      const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = shape_of(grid)});
      for (const Values& v : {values, random.values(s), values}) {
        plan.launch_arguments(rig.stream, std::nullopt, arguments_of(v));
        rig.expect_launched(v, grid, text);
      }
    }
  });
}

TEST_P(EveryPath, PlannedWithFixedArguments) {
  for_each_signature([&](const Signature& s, const Values& values, const Kernel& kernel, const std::string& text) {
    for (const bool own_grid : {false, true}) {
      const std::set<std::size_t> fixed = random.some(s, false);
      PlanOptions options;
      const Dim3 planned = random.grid();
      if (!own_grid) options.shape = shape_of(planned);
      for (const std::size_t i : fixed) options.fixed.emplace_back(i, argument_of(values[i]));
      const LaunchPlan plan = LaunchPlan::create(kernel, options);
      for (int call = 0; call < 3; ++call) {
        Values now = random.values(s);
        for (const std::size_t i : fixed) now[i] = values[i];
        const Dim3 grid = own_grid ? random.grid() : planned;
        plan.launch_arguments(rig.stream, own_grid ? std::optional(extent(grid)) : std::nullopt,
                              arguments_of(now, fixed));
        rig.expect_launched(now, grid, text + " with " + std::to_string(fixed.size()) + " fixed");
      }
    }
  });
}

TEST_P(EveryPath, PlannedWithAGridOfEachCall) {
  for_each_signature([&](const Signature& s, const Values& values, const Kernel& kernel, const std::string& text) {
    const LaunchPlan plan = LaunchPlan::create(kernel, {});
    for (const Values& v : {values, random.values(s)}) {
      for (const Dim3& grid : {random.grid(), Dim3{1, 1, 1}}) {
        plan.launch_arguments(rig.stream, extent(grid), arguments_of(v));
        rig.expect_launched(v, grid, text);
      }
    }
  });
}

// Values that miss a guard, and values that do not, arrive alike.
TEST_P(EveryPath, PlannedWithAFallback) {
  for_each_signature([&](const Signature& s, const Values&, const Kernel& fallback, const std::string& text) {
    Signature special = s;
    for (Parameter& p : special) {
      if (p.kind == ArgKind::kTensor) p.pointer_alignment = 4;
      if (p.kind >= ArgKind::kI8 && p.kind <= ArgKind::kU64) p.min_value = -50, p.max_value = 100;
    }
    std::set<std::size_t> fixed = random.some(s, false);
    std::erase_if(fixed, [&](std::size_t i) { return s[i].kind <= ArgKind::kU64; });
    const Values kept = random.values(s);
    PlanOptions options;
    options.fallback = fallback;
    for (const std::size_t i : fixed) options.fixed.emplace_back(i, argument_of(kept[i]));
    const LaunchPlan plan = LaunchPlan::create(rig.load("special", special), options);
    for (int call = 0; call < 4; ++call) {
      Values now = random.values(s);
      for (const std::size_t i : fixed) now[i] = kept[i];
      const Dim3 grid = random.grid();
      plan.launch_arguments(rig.stream, extent(grid), arguments_of(now, fixed));
      rig.expect_launched(now, grid, text);
    }
  });
}

// --- Graphs ---

// Node 0 takes values, node 1 is the same kernel with constants through the general path, node 2 through a plan.
TEST_P(EveryPath, GraphNodes) {
  for_each_signature([&](const Signature& s, const Values& values, const Kernel& kernel, const std::string& text) {
    const Values general = random.values(s), planned = random.values(s);
    const Dim3 general_grid = random.grid(), planned_grid = random.grid();
    Capture capture(rig.stream);
    CapturedLaunch first(capture, rig.stream, kernel, random, values, random.grid());
    rig.stream.launch_arguments(kernel, shape_of(general_grid), arguments_of(general));
    LaunchPlan::create(kernel, {}).launch_arguments(rig.stream, extent(planned_grid), arguments_of(planned));
    const GraphDefinition definition = capture.end();
    for (const Tier tier : {Tier::kReadLate, Tier::kCut}) {
      CapturedLaunch now = first;
      const ExecutableGraph graph = definition.instantiate({.tier = tier});
      StepValues step_values = graph.values();
      for (int step = 0; step < 4; ++step) {
        if (step > 0) {
          now.change(random);
          now.set(definition, step_values, "");
        }
        graph.launch(rig.stream, step_values);
        const std::vector<Launched> launched = rig.take();
        ASSERT_EQ(launched.size(), 3U) << text;
        rig.expect_arrived(launched[0], now.values(), now.grid(), text + " in step " + std::to_string(step));
        rig.expect_arrived(launched[1], general, general_grid, text + ", general node");
        rig.expect_arrived(launched[2], planned, planned_grid, text + ", planned node");
      }
    }
  });
}

TEST_P(EveryPath, NodesOfANestedGraph) {
  for_each_signature([&](const Signature&, const Values& values, const Kernel& kernel, const std::string& text) {
    Capture inner(rig.stream, "child");
    CapturedLaunch node(inner, rig.stream, kernel, random, values, random.grid());
    const ExecutableGraph child = inner.end().instantiate();
    Capture outer(rig.stream);
    child.launch(rig.stream, child.values());
    const GraphDefinition definition = outer.end();
    const ExecutableGraph graph = definition.instantiate();
    StepValues step_values = graph.values();
    for (int step = 0; step < 3; ++step) {
      graph.launch(rig.stream, step_values);
      rig.expect_launched(node.values(), node.grid(), text + " in step " + std::to_string(step));
      node.change(random);
      node.set(definition, step_values, "child/");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, EveryPath, ::testing::ValuesIn(kRigs));

}  // namespace
}  // namespace slipway::property
