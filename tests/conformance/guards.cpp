// What a launch is refused for, and the guards of plans made for specialised kernels.
#include <algorithm>

#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;

// Refuses on the general path and on a plan's, before anything is submitted, and says why.
void check_refused(const Stream& stream, const Kernel& kernel, const std::vector<Argument>& arguments,
                   std::initializer_list<std::string_view> fragments) {
  const std::uint64_t before = stream.submitted();
  check_throws(kInvalid, fragments, [&] { stream.launch_arguments(kernel, {}, arguments); });
  const LaunchPlan plan = LaunchPlan::create(kernel, {.shape = LaunchShape{}});
  const LaunchPlan with_grid = LaunchPlan::create(kernel, {});
  check_throws(kInvalid, fragments, [&] { plan.launch_arguments(stream, std::nullopt, arguments); });
  const Error error =
      check_throws(kInvalid, fragments, [&] { with_grid.launch_arguments(stream, Extent{}, arguments); });
  check(!error.submitted(), "a refusal says that nothing was submitted");
  check_equal(stream.submitted(), before, "submissions after refusals");
}

// B30: "expected 4 arguments, got 5", before submission.
void wrong_count(Context& c) {
  const Stream stream = c.device().create_stream();
  const Memory m = c.device().allocate(64);
  const Kernel add = c.kernel("add");
  const std::uint64_t before = stream.submitted();
  check_throws(kInvalid, {"'add'", "expected 4 arguments, got 5"}, [&] { stream.launch(add, {}, m, m, 4, 1.0F, 9); });
  check_throws(kInvalid, {"'add'", "expected 4 arguments, got 0"}, [&] { stream.launch(add, {}); });
  const LaunchPlan plan = LaunchPlan::create(add, {.shape = LaunchShape{}, .fixed = {{3, 1.0F}}});
  check_throws(kInvalid, {"'add'", "expected 3", "got 4"}, [&] { plan.launch(stream, m, m, 4, 1.0F); });
  check_throws(kInvalid, {"'add'", "expected 3", "got 2"}, [&] { plan.launch(stream, m, m); });
  check_equal(stream.submitted(), before, "submissions after refusals");
}

void wrong_kinds(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory m = device.allocate(64);
  const Argument t = m;
  const Point p{};
  const auto refuse = [&](const char* kernel, const Argument& value, const char* is, const char* kind) {
    check_refused(stream, c.kernel(kernel), {t, value}, {"argument 1", kernel, is, kind});
  };
  refuse("put_i32", 1.0, "a float", "i32");
  refuse("put_i32", true, "a bool", "i32");
  refuse("put_i32", t, "a tensor", "i32");
  refuse("put_i32", Half{}, "an f16", "i32");
  refuse("put_u64", 1.0F, "a float", "u64");
  refuse("put_f32", 1, "an integer", "f32");
  refuse("put_f32", true, "a bool", "f32");
  refuse("put_f16", 1, "an integer", "f16");
  refuse("put_bf16", t, "a tensor", "bf16");
  refuse("put_f64", Argument::bytes_of(p), "bytes", "f64");
  refuse("put_bool", 1, "an integer", "bool");
  refuse("put_bool", 0.0, "a float", "bool");
  refuse("point", 1, "an integer", "bytes");
  refuse("point", t, "a tensor", "bytes");
  check_refused(stream, c.kernel("count"), {Argument(5)}, {"argument 0", "'count'", "an integer", "tensor"});
  check_refused(stream, c.kernel("point"), {t, Argument::bytes(&p, 8, 8)}, {"argument 1", "8 bytes", "bytes(16,8)"});
  check_refused(stream, c.kernel("point"), {t, Argument::bytes(nullptr, 16, 8)}, {"argument 1", "no bytes"});
  check_refused(stream, c.kernel("point"), {t, Argument::bytes(&p, 16, 16)}, {"argument 1", "aligned to 16"});
}

// B05: refused, never cut off.
void values_that_do_not_fit(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory m = device.allocate(64);
  const auto refuse = [&](const char* kernel, const Argument& value, const char* text, const char* limit) {
    check_refused(stream, c.kernel(kernel), {Argument(m), value}, {"argument 1", kernel, text, limit});
  };
  refuse("put_i32", std::int64_t{2147483648}, "2147483648", "2147483647");
  refuse("put_i32", std::int64_t{-2147483649}, "-2147483649", "-2147483648");
  refuse("put_i32", ~std::uint64_t{0}, "18446744073709551615", "2147483647");
  refuse("put_u32", -1, "-1", "0 to 4294967295");
  refuse("put_u32", std::int64_t{4294967296}, "4294967296", "4294967295");
  refuse("put_u64", -1, "-1", "18446744073709551615");
  refuse("put_i64", std::uint64_t{1} << 63, "9223372036854775808", "9223372036854775807");
  refuse("put_i8", 128, "128", "127");
  refuse("put_i8", -129, "-129", "-128");
  refuse("put_u8", 256, "256", "255");
  refuse("put_i16", 32768, "32768", "32767");
  refuse("put_u16", -1, "-1", "65535");
  refuse("put_f16", 65520.0, "65520", "f16");
  refuse("put_f16", -1e6, "-1000000", "f16");
  refuse("put_bf16", 3.4e38, "e+38", "bf16");
  refuse("put_f32", 1e300, "e+300", "f32");
  check_throws(kInvalid, {"argument 1", "300"}, [&] {
    (void)LaunchPlan::create(c.kernel("put_u8"), {.fixed = {{1, 300}}});
  });
}

void plans_are_checked(Context& c) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory m = device.allocate(64);
  const Kernel add = c.kernel("add");
  const LaunchPlan with_shape = LaunchPlan::create(add, {.shape = LaunchShape{}});
  const LaunchPlan with_grid = LaunchPlan::create(add, {});
  check(with_shape.has_static_shape() && !with_grid.has_static_shape(), "has_static_shape");
  check_equal(with_shape.kernel().name(), "add", "the kernel of a plan");
  const Argument arguments[] = {m, m, 4, 1.0F};
  check_throws(kInvalid, {"'add'", "static shape"}, [&] { with_shape.launch_arguments(stream, Extent{}, arguments); });
  check_throws(kInvalid, {"'add'", "no static shape"},
               [&] { with_grid.launch_arguments(stream, std::nullopt, arguments); });
  check_throws(kInvalid, {"fixed argument 0", "tensor"}, [&] { (void)LaunchPlan::create(add, {.fixed = {{0, m}}}); });
  check_throws(kInvalid, {"fixed argument 4", "4"}, [&] { (void)LaunchPlan::create(add, {.fixed = {{4, 1}}}); });
  check_throws(kInvalid, {"fixed argument 2", "twice"}, [&] {
    (void)LaunchPlan::create(add, {.fixed = {{2, 1}, {2, 1}}});
  });
  check_throws(kInvalid, {"argument 2", "a float"}, [&] { (void)LaunchPlan::create(add, {.fixed = {{2, 1.0}}}); });
  check_throws(kInvalid, {"fallback", "'add'", "'count'"},
               [&] { (void)LaunchPlan::create(add, {.fallback = c.kernel("count")}); });
  check_throws(kInvalid, {"kernel of a plan", "empty"}, [] { (void)LaunchPlan::create(Kernel()); });
  check_throws(kInvalid, {"launch plan", "empty"}, [&] { LaunchPlan().launch(stream, m); });
  check_throws(kInvalid, {"the stream", "empty"}, [&] { with_shape.launch(Stream(), m, m, 4, 1.0F); });
  check_throws(kInvalid, {"the kernel", "empty"}, [&] { stream.launch(Kernel(), {}, m); });
  const auto typed = with_shape.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  check_throws(kInvalid, {"the stream", "empty"},
               [&] { typed(Stream(), m.tensor<float>(), m.tensor<float>(), 4, 1.0F); });
  decltype(typed) nothing;
  check_throws(kInvalid, {"empty typed handle"},
               [&] { nothing(stream, m.tensor<float>(), m.tensor<float>(), 4, 1.0F); });
}

void kernels_are_looked_up(Context& c) {
  const Module module = c.load(c.device());
  const Kernel add = find_kernel(module, "add");
  check_equal(add.name(), "add", "the name of a kernel");
  check_equal(to_string(add.signature()), "inout tensor<f32>, in tensor<f32>, i32, f32", "its signature");
  if (!c.can(kRuns)) return;  // the null device takes every name
  check_throws(kInvalid, {"'subtract'", "add", "count"}, [&] { (void)module.kernel("subtract"); });
  check_throws(kInvalid, {"'add'"}, [&] { (void)module.kernel("add", parse_signature("tensor, tensor, i32")); });
  check_throws(kInvalid, {"'add'"}, [&] { (void)module.kernel("add", parse_signature("tensor, tensor, i64, f32")); });
  check_throws(kInvalid, {"'add'"},
               [&] { (void)module.kernel("add", parse_signature("tensor<i32>, tensor, i32, f32")); });
  check_throws(kInvalid, {"the module", "empty"}, [] { (void)Module().kernel("add"); });
}

// B04: what a kernel was specialised for is looked at in every call.
class Guarded {
 public:
  static constexpr std::int32_t kMost = 128;

  explicit Guarded(Context& c)
      : device(c.open()),
        module(c.load(device)),
        stream(device.create_stream()),
        step(std::max(4U, device.info().tensor_alignment)),
        alignment(std::max(16U, 2 * step)),
        plain(find_kernel(module, "add")),
        special(
            module.kernel("add", parse_signature("out tensor<f32>, in tensor<f32> align=" + std::to_string(alignment) +
                                                 ", i32 range=0.." + std::to_string(kMost) + ", f32"))) {
    std::vector<float> values(1024);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    in = upload(device, stream, values);
    out = zeros<float>(device, stream, 1024);
    stream.synchronize(kLimit);
  }
  // Of `n` sums with 1, beginning at element `first` of the input.
  void check_result(Context& c, std::uint64_t first, std::size_t n, const std::string& path) const {
    if (!c.can(kRuns)) return stream.synchronize(kLimit);
    const auto sums = download<float>(stream, out, n + 1);
    for (std::size_t i = 0; i < n; ++i) check_equal(sums[i], static_cast<float>(first + i) + 1, path);
    check_equal(sums[n], 0.0F, path + ": nothing is written behind");
    stream.fill(out.address(), 0, 4, 1024);
  }
  std::uint64_t misses(Reason reason) const { return device.counters()[reason]; }

  Device device;
  Module module;
  Stream stream;
  std::uint32_t step;       // bytes that an argument may lie off and still be expressed
  std::uint32_t alignment;  // that the kernel was specialised for; its block has it
  Kernel plain, special;
  Memory in, out;
};

void misses_take_the_fallback(Context& c) {
  const Guarded g(c);
  const LaunchPlan plan = LaunchPlan::create(g.special, {.shape = LaunchShape{}, .fallback = g.plain});
  const LaunchPlan with_grid = LaunchPlan::create(g.special, {.fixed = {{3, 1.0F}}, .fallback = g.plain});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const auto typed_grid = with_grid.typed_grid<Tensor<float>, Tensor<const float>, std::int32_t>();
  const Tensor<float> out = g.out.tensor<float>();
  const Tensor<const float> in = g.in.tensor<const float>();
  const std::uint64_t first = g.step / 4;
  const Tensor<const float> off = g.in.tensor<const float>(first);

  typed(g.stream, out, in, 60, 1.0F);
  g.check_result(c, 0, 60, "no miss");
  check_equal(g.misses(Reason::kGuardAlignment), 0U, "misses so far");
  check_equal(g.device.counters().planned_launches, 1U, "planned launches");

  typed(g.stream, out, off, 60, 1.0F);
  g.check_result(c, first, 60, "misaligned, typed");
  typed_grid(g.stream, {}, out, off, 60);
  g.check_result(c, first, 60, "misaligned, typed with a grid and a fixed argument");
  plan.launch(g.stream, out, off, 60, 1.0F);
  g.check_result(c, first, 60, "misaligned, untyped");
  check_equal(g.misses(Reason::kGuardAlignment), 3U, "alignment misses");

  typed(g.stream, out, in, Guarded::kMost, 1.0F);
  g.check_result(c, 0, Guarded::kMost, "the last value of the range");
  typed(g.stream, out, in, Guarded::kMost + 1, 1.0F);
  g.check_result(c, 0, Guarded::kMost + 1, "above the range");
  typed(g.stream, out, in, -1, 1.0F);
  g.check_result(c, 0, 0, "below the range");
  check_equal(g.misses(Reason::kGuardRange), 2U, "range misses");

  check_equal(g.device.counters().planned_launches, 2U, "launches that took the fast path");
  check_equal(g.device.counters().general_launches, 5U, "launches that took the fallback");
}

void misses_without_a_fallback_are_refused(Context& c) {
  const Guarded g(c);
  const LaunchPlan plan = LaunchPlan::create(g.special, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  const Tensor<float> out = g.out.tensor<float>();
  const Tensor<const float> in = g.in.tensor<const float>(), off = g.in.tensor<const float>(g.step / 4);
  const std::string alignment = std::to_string(g.alignment);
  const std::uint64_t before = g.stream.submitted();
  check_throws(kInvalid, {"argument 1", "'add'", alignment}, [&] { typed(g.stream, out, off, 60, 1.0F); });
  check_throws(kInvalid, {"argument 1", "'add'", alignment}, [&] { plan.launch(g.stream, out, off, 60, 1.0F); });
  check_throws(kInvalid, {"argument 1", "'add'", alignment},
               [&] { g.stream.launch(g.special, {}, out, off, 60, 1.0F); });
  check_throws(kInvalid, {"argument 2", "129", "0 to 128"}, [&] { typed(g.stream, out, in, 129, 1.0F); });
  check_throws(kInvalid, {"argument 2", "-1", "0 to 128"}, [&] { g.stream.launch(g.special, {}, out, in, -1, 1.0F); });
  check_throws(kInvalid, {"argument 2", "129"}, [&] { (void)LaunchPlan::create(g.special, {.fixed = {{2, 129}}}); });
  check_equal(g.stream.submitted(), before, "submissions after refusals");
  typed(g.stream, out, in, 60, 1.0F);
  g.check_result(c, 0, 60, "a call that fits, afterwards");
}

// B04: a tensor of another element type is never read as this one.
void element_types_are_compared(Context& c) {
  const Guarded g(c);
  const Tensor<float> out = g.out.tensor<float>();
  const TensorArg ints{g.in.address(), DType::kI32}, unknown{g.in.address()};
  const std::uint64_t before = g.stream.submitted();
  const LaunchPlan plan = LaunchPlan::create(g.special, {.shape = LaunchShape{}});
  check_throws(kInvalid, {"argument 1", "i32", "f32"}, [&] { plan.launch(g.stream, out, ints, 60, 1.0F); });
  check_throws(kInvalid, {"argument 1", "i32", "f32"}, [&] { g.stream.launch(g.special, {}, out, ints, 60, 1.0F); });
  check_equal(g.misses(Reason::kGuardDtype), 1U, "element type misses of plans");
  check_throws(kInvalid, {"argument 1", "f32"},
               [&] { (void)plan.typed<Tensor<float>, Tensor<const std::int32_t>, std::int32_t, float>(); });
  check_equal(g.stream.submitted(), before, "submissions after refusals");
  plan.launch(g.stream, out, unknown, 60, 1.0F);
  g.check_result(c, 0, 60, "a tensor of unknown element type");
}

void the_null_address_passes(Context& c) {
  const Guarded g(c);
  const auto typed = LaunchPlan::create(g.special, {.shape = LaunchShape{}})
                         .typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  typed(g.stream, g.out.tensor<float>(), Tensor<const float>(), 0, 1.0F);
  g.stream.launch(g.special, {}, g.out.tensor<float>(), Tensor<const float>(), 0, 1.0F);
  g.stream.launch(g.plain, {}, g.out, g.device.allocate(0), 0, 1.0F);
  g.stream.synchronize(kLimit);
}

constexpr Test kTests[] = {
    {"wrong_count_B30", wrong_count},
    {"wrong_kinds", wrong_kinds},
    {"values_that_do_not_fit_B05", values_that_do_not_fit},
    {"plans_are_checked", plans_are_checked},
    {"kernels_are_looked_up", kernels_are_looked_up},
    {"misses_take_the_fallback_B04", misses_take_the_fallback},
    {"misses_without_a_fallback_are_refused_B04", misses_without_a_fallback_are_refused},
    {"element_types_are_compared_B04", element_types_are_compared},
    {"the_null_address_passes_B04", the_null_address_passes},
};

}  // namespace

const Suite kGuardsSuite{"guards", "what launches are refused for; specialised kernels and their fallback", kTests};

}  // namespace slipway::conformance
