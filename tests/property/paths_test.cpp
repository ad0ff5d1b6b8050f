// For random signatures and values, what the kernel reads is what was passed: on every way to launch, on every layout.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <type_traits>

#include "property/rig.h"

namespace slipway::property {
namespace {

constexpr int kRounds = 40;

template <std::size_t kBytes, std::size_t kAlign>
struct alignas(kAlign) Blob {
  unsigned char bytes[kBytes];
};
// The sizes and alignments that random structs by value have, as types that a graph's parameter may have.
template <class F>
auto with_blob(std::size_t which, F&& f) {
  switch (which % 6) {
    case 0: return f(std::type_identity<Blob<3, 1>>{});
    case 1: return f(std::type_identity<Blob<12, 4>>{});
    case 2: return f(std::type_identity<Blob<24, 8>>{});
    case 3: return f(std::type_identity<Blob<32, 16>>{});
    case 4: return f(std::type_identity<Blob<64, 64>>{});
    default: return f(std::type_identity<Blob<250, 2>>{});
  }
}

// Calls f with the C++ type of a parameter.
template <class F>
auto with_type(const Parameter& p, F&& f) {
  switch (p.kind) {
    case ArgKind::kTensor: return f(std::type_identity<float*>{});
    case ArgKind::kI8: return f(std::type_identity<std::int8_t>{});
    case ArgKind::kI16: return f(std::type_identity<std::int16_t>{});
    case ArgKind::kI32: return f(std::type_identity<std::int32_t>{});
    case ArgKind::kI64: return f(std::type_identity<std::int64_t>{});
    case ArgKind::kU8: return f(std::type_identity<std::uint8_t>{});
    case ArgKind::kU16: return f(std::type_identity<std::uint16_t>{});
    case ArgKind::kU32: return f(std::type_identity<std::uint32_t>{});
    case ArgKind::kU64: return f(std::type_identity<std::uint64_t>{});
    case ArgKind::kF16: return f(std::type_identity<Half>{});
    case ArgKind::kBF16: return f(std::type_identity<BFloat16>{});
    case ArgKind::kF32: return f(std::type_identity<float>{});
    case ArgKind::kF64: return f(std::type_identity<double>{});
    case ArgKind::kBool: return f(std::type_identity<bool>{});
    case ArgKind::kBytes: break;
  }
  for (std::size_t i = 0; i < 5; ++i) {
    if (with_blob(i, [](auto type) { return sizeof(typename decltype(type)::type); }) == p.size_bytes)
      return with_blob(i, f);
  }
  return with_blob(5, f);
}

template <class T>
T load(const Value& value) {
  T loaded;
  EXPECT_EQ(value.bytes.size(), sizeof loaded);
  std::memcpy(&loaded, value.bytes.data(), sizeof loaded);
  return loaded;
}

// Refers to the bytes of structs.
Argument argument_of(const Value& value) {
  return with_type(value.parameter, [&](auto type) -> Argument {
    using T = typename decltype(type)::type;
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>)
      return Argument::bytes(value.bytes.data(), sizeof(T), alignof(T));
    else return load<T>(value);
  });
}

std::vector<Argument> arguments_of(const Values& values, const std::set<std::size_t>& without = {}) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!without.contains(i)) arguments.push_back(argument_of(values[i]));
  }
  return arguments;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }

  Parameter parameter() {
    Parameter p;
    p.kind = static_cast<ArgKind>(below(16));
    if (p.kind > ArgKind::kBytes) p.kind = ArgKind::kBool;  // wider slots twice as often
    if (p.kind == ArgKind::kBytes) {
      with_blob(below(6), [&](auto type) {
        p.size_bytes = sizeof(typename decltype(type)::type);
        p.align_bytes = alignof(typename decltype(type)::type);
      });
    }
    return p;
  }
  Signature signature() {
    Signature signature(below(11));
    for (Parameter& p : signature) p = parameter();
    return signature;
  }
  Value value(const Parameter& p) {
    Value v{p, {}};
    with_type(p, [&](auto type) { v.bytes.resize(sizeof(typename decltype(type)::type)); });
    for (std::byte& b : v.bytes) b = static_cast<std::byte>(random_());
    if (p.kind == ArgKind::kBool) v.bytes[0] = static_cast<std::byte>(below(2));
    // No NaN, whose bits a conversion may change: a bit of the exponent is cleared.
    if (p.kind == ArgKind::kF32) v.bytes[3] &= std::byte{0xBF};
    if (p.kind == ArgKind::kF64) v.bytes[7] &= std::byte{0xBF};
    return v;
  }
  Values values(const Signature& signature) {
    Values values;
    for (const Parameter& p : signature) values.push_back(value(p));
    return values;
  }
  // Within the limits of all devices: at most 65535 blocks.
  Dim3 grid() {
    return {1 + static_cast<std::uint32_t>(below(40)), 1 + static_cast<std::uint32_t>(below(40)),
            1 + static_cast<std::uint32_t>(below(40))};
  }
  std::set<std::size_t> some(const Signature& signature, bool tensors) {
    std::set<std::size_t> chosen;
    for (std::size_t i = 0; i < signature.size(); ++i) {
      if ((tensors || signature[i].kind != ArgKind::kTensor) && coin()) chosen.insert(i);
    }
    return chosen;
  }

 private:
  std::mt19937_64 random_;
};

Extent extent(const Dim3& grid) { return {grid.x, grid.y, grid.z}; }
LaunchShape shape_of(const Dim3& grid) { return {.grid = extent(grid)}; }

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

// One captured launch, some of whose arguments and perhaps its grid take each step's values: from parameters, or
// through an operation.
class CapturedLaunch {
 public:
  CapturedLaunch(Capture& capture, const Stream& stream, const Kernel& kernel, Random& random, const Values& values,
                 const Dim3& grid)
      : values_(values), grid_(grid) {
    std::vector<Argument> arguments = arguments_of(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (random.below(3) == 0) continue;
      const std::string name = "p" + std::to_string(i);
      const Parameter& p = values[i].parameter;
      with_type(p, [&](auto type) {
        using T = typename decltype(type)::type;
        const ScalarParameter<T> parameter = capture.parameter<T>(name, load<T>(values[i]));
        arguments[i] = parameter;
        if (random.coin()) {
          const OutputSpec output =
              p.kind == ArgKind::kBytes ? OutputSpec::bytes(p.size_bytes, p.align_bytes) : OutputSpec::argument(p.kind);
          const Operation pass_on = capture.operation("pass_on_" + name, {parameter}, {output},
                                                      [](OperationCall& call) { call.set(0, call.input<T>(0)); });
          arguments[i] = pass_on.output_ref(0);
        }
      });
      taken_.push_back(i);
    }
    LaunchShape shape = shape_of(grid);
    if (random.coin()) {
      takes_grid_ = true;
      const auto x = capture.parameter<std::uint32_t>("x", grid.x), y = capture.parameter<std::uint32_t>("y", grid.y);
      const auto z = capture.parameter<std::uint32_t>("z", grid.z);
      const Operation three = capture.operation("grid", {x, y, z}, {OutputSpec::grid()}, [](OperationCall& call) {
        call.set_grid(0, {call.input<std::uint32_t>(0), call.input<std::uint32_t>(1), call.input<std::uint32_t>(2)});
      });
      shape.grid_from = three.grid(0);
    }
    stream.launch_arguments(kernel, shape, arguments);
  }

  // Other values for all that takes some.
  void change(Random& random) {
    for (const std::size_t i : taken_) values_[i] = random.value(values_[i].parameter);
    if (takes_grid_) grid_ = random.grid();
  }
  void set(const GraphDefinition& definition, StepValues& values, const std::string& prefix) const {
    for (const std::size_t i : taken_) {
      with_type(values_[i].parameter, [&](auto type) {
        using T = typename decltype(type)::type;
        values.set(definition.parameter<T>(prefix + "p" + std::to_string(i)), load<T>(values_[i]));
      });
    }
    if (!takes_grid_) return;
    values.set(definition.parameter<std::uint32_t>(prefix + "x"), grid_.x);
    values.set(definition.parameter<std::uint32_t>(prefix + "y"), grid_.y);
    values.set(definition.parameter<std::uint32_t>(prefix + "z"), grid_.z);
  }
  const Values& values() const { return values_; }
  const Dim3& grid() const { return grid_; }

 private:
  Values values_;
  Dim3 grid_;
  std::vector<std::size_t> taken_;
  bool takes_grid_ = false;
};

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
