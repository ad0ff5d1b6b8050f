// B04: a fast launch skipped the checks of what its kernel was specialised for.
#include <algorithm>

#include "report.h"

namespace slipway::reports {
namespace {

using FloatSums = TypedLaunch<Tensor<float>, Tensor<const float>, std::int32_t, float>;

// Every alignment that memory has, against every place in it, after the plan was used often.
SLIPWAY_REPORT(B04_alignment_is_looked_at_in_every_call, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Kernel plain = find_kernel(module, "add");
  constexpr std::int32_t kCount = 60;
  std::vector<float> values(256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Memory in = upload(device, stream, values), out = zeros<float>(device, stream, 256);
  const std::uint32_t step = std::max(4U, device.info().tensor_alignment);
  const std::uint32_t most = std::min(64U, device.info().memory_alignment);
  check(step < most, "this device has places that are aligned differently");
  for (std::uint32_t alignment = 2 * step; alignment <= most; alignment *= 2) {
    const std::string text = std::to_string(alignment);
    const Kernel special =
        module.kernel("add", parse_signature("out tensor<f32>, in tensor<f32> align=" + text + ", i32, f32"));
    const LaunchPlan plan = LaunchPlan::create(special, {.shape = LaunchShape{}, .fallback = plain});
    const LaunchPlan strict = LaunchPlan::create(special, {.shape = LaunchShape{}});
    const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
    const auto typed_grid = LaunchPlan::create(special, {.fallback = plain})
                                .typed_grid<Tensor<float>, Tensor<const float>, std::int32_t, float>();
    const FloatSums refusing = strict.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
    for (int i = 0; i < 10; ++i) typed(stream, out.tensor<float>(), in.tensor<const float>(), kCount, 1.0F);
    for (std::uint32_t off = 0; off <= 2 * alignment; off += step) {
      const Tensor<const float> from = in.tensor<const float>(off / 4);
      const bool misses = off % alignment != 0;
      const std::uint64_t before = device.counters()[Reason::kGuardAlignment];
      const auto ran = [&](const char* path) {
        if (!c.can(kRuns)) return;
        const std::vector<float> sums = download<float>(stream, out, kCount + 1);
        for (std::size_t i = 0; i < kCount; ++i)
          check_equal(sums[i], static_cast<float>(off / 4 + i) + 1, std::string(path) + " at " + std::to_string(off));
        stream.fill(out.address(), 0, 4, 256);
      };
      typed(stream, out.tensor<float>(), from, kCount, 1.0F);
      ran("typed");
      typed_grid(stream, {}, out.tensor<float>(), from, kCount, 1.0F);
      ran("typed with a grid");
      plan.launch(stream, out, from, kCount, 1.0F);
      ran("untyped");
      check_equal(device.counters()[Reason::kGuardAlignment] - before, misses ? 3U : 0U,
                  "misses of alignment " + text + " at " + std::to_string(off));
      if (!misses) continue;
      const std::uint64_t submitted = stream.submitted();
      check_throws(ErrorCode::kInvalidArgument, {"argument 1", "'add'", text},
                   [&] { refusing(stream, out.tensor<float>(), from, kCount, 1.0F); });
      check_throws(ErrorCode::kInvalidArgument, {"argument 1", "'add'", text},
                   [&] { stream.launch(special, {}, out, from, kCount, 1.0F); });
      check_equal(stream.submitted(), submitted, "submissions after refusals");
    }
  }
  stream.synchronize(kLimit);
}

// A kernel that reads f32 never gets another element type, known by name, whatever path it takes.
SLIPWAY_REPORT(B04_element_types_are_compared, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Kernel add = find_kernel(module, "add");
  const LaunchPlan plan = LaunchPlan::create(add, {.shape = LaunchShape{}});
  const LaunchPlan with_grid = LaunchPlan::create(add, {});
  const Memory in = upload(device, stream, std::vector<std::int32_t>(4, 1)), out = zeros<float>(device, stream, 4);
  for (int i = 0; i < 10; ++i) plan.launch(stream, out.tensor<float>(), TensorArg{in.address()}, 0, 1.0F);
  stream.fill(out.address(), 0, 4, 4);
  stream.synchronize(kLimit);
  std::uint64_t misses = 0;
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                            DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF64}) {
    const TensorArg other{in.address(), dtype};
    const Argument arguments[] = {out.tensor<float>(), other, 4, 1.0F};
    const std::uint64_t before = stream.submitted();
    for (const auto& call : {std::function<void()>([&] { plan.launch_arguments(stream, std::nullopt, arguments); }),
                             std::function<void()>([&] { with_grid.launch_arguments(stream, Extent{}, arguments); }),
                             std::function<void()>([&] { stream.launch_arguments(add, {}, arguments); })}) {
      check_throws(ErrorCode::kInvalidArgument, {"argument 1", "'add'", name_of(dtype), "f32"}, call);
    }
    misses += 2;
    check_equal(device.counters()[Reason::kGuardDtype], misses, "element type misses of plans");
    check_equal(stream.submitted(), before, "submissions after refusals");
  }
  check_throws(ErrorCode::kInvalidArgument, {"argument 1", "f32", "i32"},
               [&] { (void)plan.typed<Tensor<float>, Tensor<const std::int32_t>, std::int32_t, float>(); });
  if (c.can(kRuns)) check_equal(download<float>(stream, out, 4), std::vector<float>(4), "what was written");
}

// Ranges of every integer kind, on both sides of both ends, as the kind is signed or not.
SLIPWAY_REPORT(B04_ranges_are_looked_at_in_every_call, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  struct Case {
    const char* kind;
    std::int64_t low, high;
    std::vector<std::int64_t> inside, outside;
  };
  const Case cases[] = {
      {"i8", -5, 100, {-5, 0, 100}, {-128, -6, 101, 127}},
      {"u8", 2, 200, {2, 128, 200}, {0, 1, 201, 255}},
      {"i16", -300, 300, {-300, 300}, {-32768, -301, 301, 32767}},
      {"u16", 1, 40000, {1, 32768, 40000}, {0, 40001, 65535}},
      {"i32", 0, 4096, {0, 4096}, {INT32_MIN, -1, 4097, INT32_MAX}},
      {"u32", 5, 3000000000, {5, 2147483648, 3000000000}, {0, 4, 3000000001, 4294967295}},
      {"i64", -1, INT64_MAX - 1, {-1, INT64_MAX - 1}, {INT64_MIN, -2, INT64_MAX}},
      {"u64", 1, std::int64_t{1} << 62, {1, std::int64_t{1} << 62}, {0, (std::int64_t{1} << 62) + 1, INT64_MAX}},
  };
  std::uint64_t misses = 0;
  for (const Case& k : cases) {
    const std::string name = std::string("put_") + k.kind;
    const Kernel plain = find_kernel(module, name);
    const Kernel special =
        module.kernel(name, parse_signature("tensor, " + std::string(k.kind) + " range=" + std::to_string(k.low) +
                                            ".." + std::to_string(k.high)));
    const LaunchPlan plan = LaunchPlan::create(special, {.shape = LaunchShape{}, .fallback = plain});
    const LaunchPlan with_grid = LaunchPlan::create(special, {.fallback = plain});
    const auto launch = [&](std::int64_t value) {
      const Argument arguments[] = {out.address(), value};
      plan.launch_arguments(stream, std::nullopt, arguments);
      with_grid.launch_arguments(stream, Extent{}, arguments);
    };
    for (int round = 0; round < 3; ++round) {
      for (const std::int64_t value : k.inside) launch(value);
      check_equal(device.counters()[Reason::kGuardRange], misses, name + ": misses of values inside");
      for (const std::int64_t value : k.outside) launch(value);
      misses += 2 * k.outside.size();
      check_equal(device.counters()[Reason::kGuardRange], misses, name + ": misses of values outside");
    }
    for (const std::int64_t value : k.outside) {
      check_throws(ErrorCode::kInvalidArgument, {"argument 1", name, std::to_string(value)},
                   [&] { stream.launch(special, {}, out.address(), value); });
    }
  }
  stream.synchronize(kLimit);
}

// An empty tensor has no address, and that is no miss.
SLIPWAY_REPORT(B04_empty_tensors_pass, kEvery) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Kernel special =
      module.kernel("add", parse_signature("out tensor<f32> align=16, in tensor<f32> align=64, i32, f32"));
  const LaunchPlan plan = LaunchPlan::create(special, {.shape = LaunchShape{}});
  const auto typed = plan.typed<Tensor<float>, Tensor<const float>, std::int32_t, float>();
  for (int i = 0; i < 3; ++i) {
    typed(stream, Tensor<float>(), Tensor<const float>(), 0, 1.0F);
    plan.launch(stream, device.allocate(0), kNullDevicePtr, 0, 1.0F);
    stream.launch(special, {}, device.allocate(0), kNullDevicePtr, 0, 1.0F);
  }
  stream.synchronize(kLimit);
  check_equal(device.counters()[Reason::kGuardAlignment], 0U, "misses");
}

}  // namespace
}  // namespace slipway::reports
