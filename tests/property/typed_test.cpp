// The same for typed handles, whose types the compiler has to know: random lists of types, made when this is compiled.
// On cpu the kernel is an ordinary function of these types, so what it reads is what a user's kernel would.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "property/rig.h"
#include "support/random_types.h"

namespace slipway::property {
namespace {

struct Bytes3 {
  char c[3];
};
struct Bytes12 {
  float f[3];
};
struct alignas(16) Bytes32 {
  char c[32];
};
struct alignas(64) Bytes64 {
  char c[64];
};
using Types = std::tuple<const float*, std::int32_t*, bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                         std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, Half, BFloat16, float, double,
                         Bytes3, Bytes12, Bytes32, Bytes64, bool>;
constexpr std::size_t kMostArguments = 6;

using test::mix;
template <std::uint64_t kSeed, std::uint64_t kPlace>
using RandomType = test::RandomTypeOf<Types, kSeed, kPlace>;

// What a typed handle takes where a kernel takes T.
template <class T>
struct Handed {
  using type = T;
};
template <class T>
struct Handed<T*> {
  using type = Tensor<T>;
};

template <class T>
Value value_of(const T& value) {
  Value v{detail::parameter_of<T>(), std::vector<std::byte>(sizeof(T))};
  std::memcpy(v.bytes.data(), &value, sizeof(T));
  return v;
}

// Kernels of these types keep what they are called with.
template <class... Args>
struct Kernels {
  static inline std::vector<Values> called;
  static inline std::vector<Dim3> grids;
  static void keep(const Block& block, Args... args) {
    if (block.index != Dim3{0, 0, 0}) return;
    called.push_back({value_of(args)...});
    grids.push_back(block.grid);
  }
};

class Random {
 public:
  template <class T>
  T value() {
    T value{};
    if constexpr (std::is_same_v<T, bool>) return random_() % 2 == 1;
    else if constexpr (std::is_pointer_v<T>) return reinterpret_cast<T>(random_());
    else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(static_cast<std::int64_t>(random_())) / 3;
    else {
      auto* bytes = reinterpret_cast<unsigned char*>(&value);
      for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<unsigned char>(random_());
      return value;
    }
  }
  Dim3 grid() { return {1 + small(), 1 + small(), 1 + small()}; }

 private:
  std::uint32_t small() { return static_cast<std::uint32_t>(random_() % 40); }
  std::mt19937_64 random_{20261130};
};

template <class T>
auto handed(const T& value) {
  if constexpr (std::is_pointer_v<T>)
    return typename Handed<T>::type{DevicePtr{reinterpret_cast<std::uint64_t>(value)}};
  else return value;
}
template <class T>
Argument argument(const T& value) {
  if constexpr (std::is_class_v<T> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>)
    return Argument::bytes_of(value);
  else return handed(value);
}

class TypedHandles : public ::testing::TestWithParam<RigOptions> {
 protected:
  TypedHandles() : rig(GetParam()) {}

  template <class... Args>
  void expect(const Values& values, const Dim3& grid, const std::string& what) {
    if (!rig.on_cpu()) return rig.expect_launched(values, grid, what);
    rig.stream.synchronize();
    const auto called = std::exchange(Kernels<Args...>::called, {});
    const auto grids = std::exchange(Kernels<Args...>::grids, {});
    ASSERT_EQ(called.size(), 1U) << what;
    ASSERT_EQ(called[0].size(), values.size()) << what;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(called[0][i].bytes, values[i].bytes) << what << " at " << i;
    ASSERT_EQ(grids[0], grid) << what;
  }

  template <class... Args>
  void run() {
    constexpr KernelDef kDef = slipway::kernel<&Kernels<Args...>::keep>("k");
    const std::string text = "(" + to_string({kDef.parameters, kDef.parameters + kDef.parameter_count}) + ")";
    const Kernel kernel = rig.device.load_table({kDef}).kernel("k");
    const Dim3 fixed_grid = random.grid();
    const Extent fixed_extent{fixed_grid.x, fixed_grid.y, fixed_grid.z};
    const auto one = LaunchPlan::create(kernel, {.shape = LaunchShape{}}).typed<typename Handed<Args>::type...>();
    const auto many = LaunchPlan::create(kernel, {.shape = LaunchShape{.grid = fixed_extent}})
                          .typed<typename Handed<Args>::type...>();
    const auto own = LaunchPlan::create(kernel, {}).typed_grid<typename Handed<Args>::type...>();
    for (int call = 0; call < 2; ++call) {
      const std::tuple<Args...> arguments{random.value<Args>()...};
      const auto values = std::apply([](const auto&... a) { return Values{value_of(a)...}; }, arguments);
      std::apply([&](const auto&... a) { one(rig.stream, handed(a)...); }, arguments);
      expect<Args...>(values, {1, 1, 1}, text + ", typed");
      std::apply([&](const auto&... a) { many(rig.stream, handed(a)...); }, arguments);
      expect<Args...>(values, fixed_grid, text + ", typed with a grid");
      const Dim3 grid = random.grid();
      const Extent extent{grid.x, grid.y, grid.z};
      std::apply([&](const auto&... a) { own(rig.stream, extent, handed(a)...); }, arguments);
      expect<Args...>(values, grid, text + ", typed with a grid of the call");
      if constexpr (!std::is_pointer_v<std::tuple_element_t<0, std::tuple<Args...>>>) {
        run_with_first_fixed<Args...>(kernel, arguments, values, text);
      }
    }
  }
  // The first argument is the plan's, so what is left lies elsewhere in the packed arguments than in the record.
  template <class First, class... Rest>
  void run_with_first_fixed(const Kernel& kernel, const std::tuple<First, Rest...>& arguments, const Values& values,
                            const std::string& text) {
    PlanOptions options;
    options.fixed = {{0, argument(std::get<0>(arguments))}};
    const auto own = LaunchPlan::create(kernel, options).typed_grid<typename Handed<Rest>::type...>();
    const Dim3 grid = random.grid();
    std::apply(
        [&](const auto&, const auto&... rest) {
          own(rig.stream, {grid.x, grid.y, grid.z}, handed(rest)...);
        },
        arguments);
    expect<First, Rest...>(values, grid, text + ", typed with the first fixed");
  }

  template <std::uint64_t kSeed, std::size_t... kPlaces>
  void run_seed(std::index_sequence<kPlaces...>) {
    run<RandomType<kSeed, kPlaces>...>();
  }
  template <std::uint64_t... kSeeds>
  void run_seeds(std::integer_sequence<std::uint64_t, kSeeds...>) {
    (run_seed<kSeeds>(std::make_index_sequence<1 + mix(kSeeds * 8 + 7) % kMostArguments>{}), ...);
  }

  Rig rig;
  Random random;
};

TEST_P(TypedHandles, Arrive) { run_seeds(std::make_integer_sequence<std::uint64_t, 24>{}); }

INSTANTIATE_TEST_SUITE_P(Layouts, TypedHandles, ::testing::ValuesIn(kRigs));

}  // namespace
}  // namespace slipway::property
