// Arguments: on every path the kernel reads the bytes that were meant.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

using Words = std::vector<std::uint64_t>;

// Sees what a kernel was given: through memory where kernels run, else in what the null device stored.
class Probe {
 public:
  explicit Probe(Context& c)
      : context_(c), stream_(c.device().create_stream()), out_(zeros<std::uint64_t>(c.device(), stream_, 32)) {
    stream_.synchronize(kLimit);
    clear();
  }

  const Stream& stream() const { return stream_; }
  Tensor<std::uint64_t> out() const { return out_.tensor<std::uint64_t>(); }

  // The value that a put kernel wrote, `bytes` of it.
  std::uint64_t value(std::size_t bytes) {
    std::uint64_t value = 0;
    if (context_.can(kRuns)) {
      const auto all = download<std::uint8_t>(stream_, out_, bytes);
      std::memcpy(&value, all.data(), bytes);
      stream_.fill(out_.address(), 0xDEADBEEF, 4, out_.size_bytes() / 4);
    } else {
      const std::vector<std::byte> arguments = stored();
      check(arguments.size() >= 8 + bytes, "the stored arguments hold the value");
      std::memcpy(&value, arguments.data() + 8, bytes);
    }
    return value;
  }
  Words words(std::size_t count) {
    const Words all = download<std::uint64_t>(stream_, out_, count);
    stream_.fill(out_.address(), 0xDEADBEEF, 4, out_.size_bytes() / 4);
    return all;
  }
  std::vector<std::byte> stored() {
    stream_.synchronize(kLimit);
    std::vector<std::byte> arguments;
    for (testing::StoredWork& work : testing::take_stored(context_.device())) {
      if (work.kind == testing::StoredWork::Kind::kLaunch) arguments = std::move(work.arguments);
    }
    return arguments;
  }
  void clear() {
    if (context_.can(kStores)) (void)testing::take_stored(context_.device());
  }

 private:
  Context& context_;
  Stream stream_;
  Memory out_;
};

using KindsLaunch = TypedLaunch<Tensor<std::uint64_t>, std::int8_t, std::int64_t, std::uint8_t, double, bool,
                                std::uint64_t, std::int16_t, float, Half, Tensor<const float>, std::uint16_t,
                                std::int32_t, BFloat16, std::uint32_t, Point>;
using KindsTuple = std::tuple<Tensor<std::uint64_t>, std::int8_t, std::int64_t, std::uint8_t, double, bool,
                              std::uint64_t, std::int16_t, float, Half, Tensor<const float>, std::uint16_t,
                              std::int32_t, BFloat16, std::uint32_t, Point>;
constexpr std::size_t kKinds = std::tuple_size_v<KindsTuple>;
constexpr std::size_t kTensorAt = 10;

template <class T>
Argument argument_of(const T& value) {
  if constexpr (std::is_same_v<T, Point>) return Argument::bytes_of(value);
  else return Argument(value);
}

class KindsProbe : public Probe {
 public:
  explicit KindsProbe(Context& c) : Probe(c), context_(c), kernel(c.kernel("kinds")) {
    read_from_ = upload(c.device(), stream(), std::vector<float>{kBehindTensor});
    stream().synchronize(kLimit);
    clear();
  }

  KindsTuple small() const {
    return {out(),
            -1,
            -2,
            3,
            0.1,
            true,
            5,
            -6,
            0.25F,
            Half::from(1.5),
            read_from_.tensor<const float>(),
            7,
            -8,
            BFloat16::from(-2.5),
            9,
            Point{1.25F, -10, 1e-300}};
  }
  KindsTuple extreme() const {
    return {out(),
            std::numeric_limits<std::int8_t>::min(),
            std::numeric_limits<std::int64_t>::min(),
            std::uint8_t{255},
            -std::numeric_limits<double>::infinity(),
            false,
            ~std::uint64_t{0},
            std::numeric_limits<std::int16_t>::max(),
            std::numeric_limits<float>::denorm_min(),
            Half{0xFC01},
            read_from_.tensor<const float>(),
            std::uint16_t{65535},
            std::numeric_limits<std::int32_t>::min(),
            BFloat16{0x8001},
            ~std::uint32_t{0},
            Point{-0.0F, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<double>::max()}};
  }

  static std::vector<Argument> arguments(const KindsTuple& values) {
    return std::apply([](const auto&... v) { return std::vector<Argument>{argument_of(v)...}; }, values);
  }

  // The words that the kernel writes for these values.
  static Words wanted(const KindsTuple& v) {
    const Point& p = std::get<15>(v);
    return {static_cast<std::uint64_t>(std::int64_t{std::get<1>(v)}),
            static_cast<std::uint64_t>(std::get<2>(v)),
            std::get<3>(v),
            std::bit_cast<std::uint64_t>(std::get<4>(v)),
            std::get<5>(v) ? 1U : 0U,
            std::get<6>(v),
            static_cast<std::uint64_t>(std::int64_t{std::get<7>(v)}),
            std::bit_cast<std::uint32_t>(std::get<8>(v)),
            std::get<9>(v).bits,
            std::bit_cast<std::uint32_t>(kBehindTensor),
            std::get<11>(v),
            static_cast<std::uint64_t>(std::int64_t{std::get<12>(v)}),
            std::get<13>(v).bits,
            std::get<14>(v),
            std::bit_cast<std::uint32_t>(p.x),
            static_cast<std::uint64_t>(std::int64_t{p.n}),
            std::bit_cast<std::uint64_t>(p.w)};
  }

  void check_seen(const KindsTuple& values, const std::string& path) {
    if (context_.can(kRuns)) return check_equal(words(17), wanted(values), path);
    // The stored bytes, at the natural offsets of the types.
    const std::vector<std::byte> bytes = stored();
    static constexpr auto kOffsets =
        detail::natural_offsets<std::uint64_t, std::int8_t, std::int64_t, std::uint8_t, double, bool, std::uint64_t,
                                std::int16_t, float, Half, std::uint64_t, std::uint16_t, std::int32_t, BFloat16,
                                std::uint32_t, Point>();
    check_equal(bytes.size(), kOffsets[kKinds], path + ": bytes stored");
    compare(bytes, values, kOffsets, path, std::make_index_sequence<kKinds>{});
  }

 private:
  static constexpr float kBehindTensor = 0.75F;
  template <class Offsets, std::size_t... I>
  static void compare(const std::vector<std::byte>& bytes, const KindsTuple& values, const Offsets& offsets,
                      const std::string& path, std::index_sequence<I...>) {
    (check(std::memcmp(bytes.data() + offsets[I], &std::get<I>(values), sizeof(std::get<I>(values))) == 0,
           path + ": the bytes of argument " + std::to_string(I)),
     ...);
  }

  Context& context_;
  Memory read_from_;

 public:
  Kernel kernel;
};

void every_kind_on_every_path(Context& c) {
  KindsProbe probe(c);
  const Stream& stream = probe.stream();
  const LaunchPlan with_shape = LaunchPlan::create(probe.kernel, {.shape = LaunchShape{}});
  const LaunchPlan with_grid = LaunchPlan::create(probe.kernel, {});
  const auto typed = std::apply([&]<class... T>(const T&...) { return with_shape.typed<T...>(); }, probe.small());
  const auto typed_grid =
      std::apply([&]<class... T>(const T&...) { return with_grid.typed_grid<T...>(); }, probe.small());
  static_assert(std::is_same_v<decltype(typed), const KindsLaunch>);
  for (const KindsTuple& values : {probe.small(), probe.extreme()}) {
    const std::vector<Argument> arguments = probe.arguments(values);
    stream.launch_arguments(probe.kernel, {}, arguments);
    probe.check_seen(values, "general path");
    with_shape.launch_arguments(stream, std::nullopt, arguments);
    probe.check_seen(values, "plan with a shape");
    with_grid.launch_arguments(stream, Extent{1, 1, 1}, arguments);
    probe.check_seen(values, "plan with a grid");
    std::apply([&](const auto&... v) { typed(stream, v...); }, values);
    probe.check_seen(values, "typed launch");
    std::apply([&](const auto&... v) { typed_grid(stream, Extent{1, 1, 1}, v...); }, values);
    probe.check_seen(values, "typed launch with a grid");
  }
}

void fixed_arguments_in_any_position(Context& c) {
  KindsProbe probe(c);
  const KindsTuple values = probe.small();
  const std::vector<Argument> arguments = probe.arguments(values);
  std::vector<std::uint32_t> masks{0, (1U << kKinds) - 1};
  for (std::size_t i = 0; i < kKinds; ++i) masks.push_back(1U << i);
  for (std::uint32_t i = 1; i <= 20; ++i) masks.push_back(i * 2654435761U >> 7);
  for (const std::uint32_t mask : masks) {
    for (const bool with_shape : {true, false}) {
      PlanOptions options;
      if (with_shape) options.shape = LaunchShape{};
      std::vector<Argument> at_run_time;
      for (std::size_t i = 0; i < kKinds; ++i) {
        const bool is_tensor = i == 0 || i == kTensorAt;
        if (!is_tensor && (mask >> i & 1) != 0) options.fixed.emplace_back(i, arguments[i]);
        else at_run_time.push_back(arguments[i]);
      }
      const LaunchPlan plan = LaunchPlan::create(probe.kernel, options);
      check_equal(plan.runtime_argument_count(), at_run_time.size(), "run-time arguments");
      plan.launch_arguments(probe.stream(), with_shape ? std::nullopt : std::optional(Extent{}), at_run_time);
      probe.check_seen(values, "fixed arguments " + std::to_string(mask));
    }
  }
}

// B01
void six_values_arrive(Context& c) {
  Probe probe(c);
  const Kernel six = c.kernel("six");
  const Words wanted{7, 0x3E00, 0x40200000, std::uint64_t{1} << 40, 0x3FC0};
  const auto typed = LaunchPlan::create(six, {.shape = LaunchShape{}})
                         .typed<std::int32_t, Half, float, std::int64_t, Tensor<std::uint64_t>, BFloat16>();
  probe.stream().launch(six, {}, 7, 1.5, 2.5, std::int64_t{1} << 40, probe.out(), 1.5);
  check_equal(probe.words(5), wanted, "general path");
  typed(probe.stream(), 7, Half::from(1.5), 2.5F, std::int64_t{1} << 40, probe.out(), BFloat16::from(1.5));
  check_equal(probe.words(5), wanted, "typed launch");
}

// What `value` becomes as the argument of a put kernel, the same on all paths.
void check_packs(Context& c, Probe& probe, const char* name, std::size_t bytes, const Argument& value,
                 std::uint64_t wanted, const std::string& what) {
  const Kernel put = c.kernel(name);
  const Argument out = probe.out().address;  // for every element type
  const Argument both[] = {out, value};
  const std::string label = std::string(name) + " of " + what;
  probe.stream().launch_arguments(put, {}, both);
  check_equal(probe.value(bytes), wanted, label + ", general path");
  LaunchPlan::create(put, {.shape = LaunchShape{}}).launch_arguments(probe.stream(), std::nullopt, both);
  check_equal(probe.value(bytes), wanted, label + ", plan");
  LaunchPlan::create(put, {.fixed = {{1, value}}}).launch_arguments(probe.stream(), Extent{}, {&out, 1});
  check_equal(probe.value(bytes), wanted, label + ", fixed in a plan");
}

// B01: to nearest even, and never through a narrower float on the way.
void floats_round_to_nearest_even(Context& c) {
  Probe probe(c);
  struct Case {
    double value;
    std::uint64_t f16, bf16;
  };
  const double tiny = std::ldexp(1.0, -40);
  const Case cases[] = {
      {1.5, 0x3E00, 0x3FC0},
      {42.0, 0x5140, 0x4228},
      {0.1, 0x2E66, 0x3DCD},
      {-0.0, 0x8000, 0x8000},
      {2049.0, 0x6800, 0x4500},                    // a tie for f16: down to even
      {2051.0, 0x6802, 0x4500},                    // a tie: up to even
      {1 + std::ldexp(1.0, -11), 0x3C00, 0x3F80},  // a tie for f16
      {1 + std::ldexp(1.0, -11) + tiny, 0x3C01, 0x3F80},
      {1 + std::ldexp(1.0, -8), 0x3C04, 0x3F80},  // a tie for bf16
      {1 + std::ldexp(1.0, -8) + tiny, 0x3C04, 0x3F81},
      {1 + 3 * std::ldexp(1.0, -8), 0x3C0C, 0x3F82},
      {std::ldexp(1.0, -24), 0x0001, 0x3380},  // the smallest f16
      {std::ldexp(1.0, -25), 0x0000, 0x3300},  // half of it: to even
      {65504.0, 0x7BFF, 0x4780},
      {65519.0, 0x7BFF, 0x4780},
      {HUGE_VAL, 0x7C00, 0x7F80},
      {-HUGE_VAL, 0xFC00, 0xFF80},
  };
  for (const Case& k : cases) {
    const std::string text = std::to_string(k.value);
    check_packs(c, probe, "put_f16", 2, k.value, k.f16, text);
    check_packs(c, probe, "put_bf16", 2, k.value, k.bf16, text);
    check_equal(Half::from(k.value).bits, k.f16, "Half::from(" + text + ")");
    check_equal(BFloat16::from(k.value).bits, k.bf16, "BFloat16::from(" + text + ")");
  }
  check_packs(c, probe, "put_f16", 2, Half{0x3555}, 0x3555, "an f16");
  check_packs(c, probe, "put_bf16", 2, BFloat16{0x7FC1}, 0x7FC1, "a bf16 NaN");
  check_packs(c, probe, "put_f32", 4, 0.1, 0x3DCCCCCD, "0.1");
  check_packs(c, probe, "put_f32", 4, Half::from(1.5), 0x3FC00000, "an f16 as f32");
  check_packs(c, probe, "put_f64", 8, 0.1, 0x3FB999999999999A, "0.1");
  check_packs(c, probe, "put_f64", 8, 0.5F, 0x3FE0000000000000, "an f32 as f64");
}

// B05
void integers_arrive_whole(Context& c) {
  Probe probe(c);
  check_packs(c, probe, "put_i64", 8, std::numeric_limits<std::int64_t>::min(), std::uint64_t{1} << 63,
              "the smallest i64");
  check_packs(c, probe, "put_i64", 8, std::numeric_limits<std::int64_t>::max(), ~std::uint64_t{0} >> 1,
              "the largest i64");
  check_packs(c, probe, "put_i64", 8, -1, ~std::uint64_t{0}, "-1");
  check_packs(c, probe, "put_i64", 8, std::int64_t{2147483648}, 2147483648U, "2^31");
  check_packs(c, probe, "put_u64", 8, ~std::uint64_t{0}, ~std::uint64_t{0}, "the largest u64");
  check_packs(c, probe, "put_u64", 8, std::int64_t{5}, 5, "5, signed");
  check_packs(c, probe, "put_i32", 4, std::int64_t{-2147483648}, 0x80000000U, "the smallest i32");
  check_packs(c, probe, "put_i32", 4, std::uint64_t{2147483647}, 0x7FFFFFFFU, "the largest i32");
  check_packs(c, probe, "put_u32", 4, std::int64_t{4294967295}, 0xFFFFFFFFU, "the largest u32");
  check_packs(c, probe, "put_i16", 2, -32768, 0x8000, "the smallest i16");
  check_packs(c, probe, "put_u16", 2, 65535, 0xFFFF, "the largest u16");
  check_packs(c, probe, "put_i8", 1, -128, 0x80, "the smallest i8");
  check_packs(c, probe, "put_u8", 1, 255, 0xFF, "the largest u8");
  check_packs(c, probe, "put_bool", 1, true, 1, "true");
  check_packs(c, probe, "put_bool", 1, false, 0, "false");
}

// B05: what is opaque stays so, bit for bit.
void handles_arrive_bit_for_bit(Context& c) {
  Probe probe(c);
  const Kernel put = c.kernel("put_u64");
  for (const std::uint64_t handle : {0x8000000000000000ULL, 0xFFFFFFFFFFFFF000ULL}) {
    probe.stream().launch(put, {}, DevicePtr{handle}, handle);
    const std::vector<std::byte> arguments = probe.stored();
    check_equal(arguments.size(), 16U, "bytes of two arguments");
    std::uint64_t seen[2];
    std::memcpy(seen, arguments.data(), 16);
    check_equal(seen[0], handle, "as a tensor");
    check_equal(seen[1], handle, "as a u64");
  }
}

void structs_by_value(Context& c) {
  Probe probe(c);
  const Kernel kernel = c.kernel("point");
  const Words wanted{std::bit_cast<std::uint32_t>(0.5F), static_cast<std::uint64_t>(std::int64_t{-3}),
                     std::bit_cast<std::uint64_t>(2.25)};
  auto p = std::make_unique<Point>(Point{0.5F, -3, 2.25});
  testing::Hold hold(c.device());
  hold.hold(probe.stream());
  probe.stream().launch(kernel, {}, probe.out(), Argument::bytes_of(*p));
  const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{}, .fixed = {{1, Argument::bytes_of(*p)}}});
  *p = Point{9, 9, 9};  // the bytes were taken at the calls
  p.reset();
  hold.release();
  check_equal(probe.words(3), wanted, "general path");
  plan.launch(probe.stream(), probe.out());
  check_equal(probe.words(3), wanted, "fixed in a plan");
  LaunchPlan::create(kernel, {.shape = LaunchShape{}})
      .typed<Tensor<std::uint64_t>, Point>()(probe.stream(), probe.out(), Point{0.5F, -3, 2.25});
  check_equal(probe.words(3), wanted, "typed launch");
}

void four_kib_of_arguments(Context& c) {
  static_assert(sizeof(Wide) + 8 == 4096);
  Wide wide{};
  std::uint64_t wanted = 0;
  for (std::uint32_t i = 0; i < Wide::kWords; ++i) {
    wide.words[i] = i * 2654435761U;
    wanted += std::uint64_t{i} * wide.words[i];
  }
  if (c.device().info().max_argument_bytes < 4096) {
    check_throws(ErrorCode::kInvalidArgument, {"4096", "limit"}, [&] { (void)c.kernel("wide"); });
    return;
  }
  Probe probe(c);
  const Kernel kernel = c.kernel("wide");
  const auto typed = LaunchPlan::create(kernel, {}).typed_grid<Tensor<std::uint64_t>, Wide>();
  for (int i = 0; i < 100; ++i) {  // more than the ring holds
    probe.stream().launch(kernel, {}, probe.out(), Argument::bytes_of(wide));
    typed(probe.stream(), {}, probe.out(), wide);
  }
  if (c.can(kRuns)) {
    check_equal(probe.words(1), Words{wanted}, "the weighted sum of 1022 words");
  } else {
    const std::vector<std::byte> bytes = probe.stored();
    check_equal(bytes.size(), 4096U, "stored bytes");
    check(std::memcmp(bytes.data() + 8, &wide, sizeof wide) == 0, "the stored words");
  }
}

// B03: launches of one kernel that wait together keep their own arguments. B10: also when the caller's stack
// was used again meanwhile.
void queued_launches_keep_their_arguments(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Kernel add = c.kernel("add");
  const LaunchPlan plan = LaunchPlan::create(add, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const Memory in = upload(device, stream, std::vector<float>(4, 10));
  std::vector<Memory> outs;
  for (int i = 0; i < 30; ++i) outs.push_back(zeros<float>(device, stream, 4));
  testing::Hold hold(device);
  hold.hold(stream);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    float constant = static_cast<float>(i);
    if (i % 3 == 0) stream.launch(add, {}, outs[i].tensor<float>(), in.tensor<const float>(), 4, constant);
    else if (i % 3 == 1) plan.launch(stream, outs[i].tensor<float>(), in.tensor<const float>(), 4, constant);
    else typed(stream, outs[i].tensor<float>(), in.tensor<const float>(), 4, constant);
    constant = -1;
  }
  hold.release();
  for (std::size_t i = 0; i < outs.size(); ++i) {
    check_equal(download<float>(stream, outs[i], 4), std::vector<float>(4, 10 + static_cast<float>(i)),
                "result " + std::to_string(i));
  }
}

void all_but_tensors_fixed(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const LaunchPlan plan = LaunchPlan::create(c.kernel("add"), {.shape = LaunchShape{}, .fixed = {{3, 4.0F}, {2, 4}}});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>>();
  const Memory a = upload(device, stream, std::vector<float>(4, 1)), b = zeros<float>(device, stream, 4);
  typed(stream, b.tensor<float>(), a.tensor<const float>());
  typed(stream, a.tensor<float>(), b.tensor<const float>());
  plan.launch(stream, b, a);
  check_equal(download<float>(stream, b, 4), std::vector<float>(4, 13), "1 + 4 + 4 + 4");
}

void launches_are_counted(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Kernel count = find_kernel(module, "count");
  const Stream stream = device.create_stream();
  const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
  const LaunchPlan plan = LaunchPlan::create(count, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<std::uint32_t>>();
  for (int i = 0; i < 3; ++i) stream.launch(count, {}, cnt);
  for (int i = 0; i < 5; ++i) plan.launch(stream, cnt);
  for (int i = 0; i < 7; ++i) typed(stream, cnt.tensor<std::uint32_t>());
  stream.synchronize(kLimit);
  const Counters counters = device.counters();
  check_equal(counters.general_launches, 3U, "general launches");
  check_equal(counters.planned_launches, 12U, "planned launches");
  for (const std::uint64_t reason : counters.reasons) check_equal(reason, 0U, "reasons for a slower way");
  if (c.can(kRuns))
    check_equal(download<std::uint32_t>(stream, cnt, 1), std::vector<std::uint32_t>{15}, "blocks that ran");
}

constexpr Test kTests[] = {
    {"every_kind_on_every_path", every_kind_on_every_path, kSees},
    {"fixed_arguments_in_any_position", fixed_arguments_in_any_position, kSees},
    {"six_values_arrive_B01", six_values_arrive, kRuns},
    {"floats_round_to_nearest_even_B01", floats_round_to_nearest_even, kSees},
    {"integers_arrive_whole_B05", integers_arrive_whole, kSees},
    {"handles_arrive_bit_for_bit_B05", handles_arrive_bit_for_bit, kStores},
    {"structs_by_value", structs_by_value, kRuns},
    {"four_kib_of_arguments", four_kib_of_arguments, kSees},
    {"queued_launches_keep_their_arguments_B03_B10", queued_launches_keep_their_arguments, kRuns},
    {"all_but_tensors_fixed", all_but_tensors_fixed, kRuns},
    {"launches_are_counted", launches_are_counted},
};

}  // namespace

const Suite kLaunchesSuite{"launches", "every kind of argument arrives whole on every path", kTests};

}  // namespace slipway::conformance
