// Grids that a plan computes from its arguments.
#include <limits>

#include "harness.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

using Words = std::vector<std::uint32_t>;
using Out = Tensor<std::uint32_t>;

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
const std::vector<std::string> kNames{"out", "n", "seed"};

// The kernel `scratch`, launched by plans whose grid is ceil(seed / 4) x n; each block leaves a sum that tells n, seed
// and its place.
class Probe {
 public:
  explicit Probe(Context& c)
      : device(c.open()),
        module(c.load(device)),
        kernel(find_kernel(module, "scratch")),
        stream(device.create_stream()),
        memory(zeros<std::uint32_t>(device, stream, kRoom)),
        out(memory.tensor<std::uint32_t>()),
        context_(c) {
    stream.synchronize(kLimit);
    (void)testing::take_stored(device);
  }

  static GridRule expression() { return GridRule::expression("(cdiv(seed, 4), n)", kNames); }
  static GridRule function() {
    return GridRule::function([](const GridArguments& a) { return Extent{(a[2] + 3) / 4, a[1], 1}; });
  }
  LaunchPlan plan(const GridRule& rule, PlanOptions options = {}) const {
    options.grid = rule;
    options.shared_bytes = 64;
    return LaunchPlan::create(kernel, options);
  }

  // The last launch had n and seed, and the grid that follows from them.
  void check_ran(std::uint32_t n, std::uint32_t seed, const std::string& what) {
    const std::uint32_t x = (seed + 3) / 4, blocks = x * n;
    if (context_.can(kStores)) {
      stream.synchronize(kLimit);
      int launches = 0;
      for (const testing::StoredWork& work : testing::take_stored(device)) {
        if (work.kind != testing::StoredWork::Kind::kLaunch) continue;
        ++launches;
        check(work.grid == Dim3{x, n, 1}, what + ": the grid is " + show(work.grid.x) + " x " + show(work.grid.y));
        check_equal(work.shared_bytes, 64U, what + ": shared bytes");
      }
      check_equal(launches, 1, what + ": launches");
    }
    if (!context_.can(kRuns)) return;
    Words wanted(kRoom);
    for (std::uint32_t b = 0; b < blocks; ++b) wanted[b] = n * seed + (b + 1) * (n * (n - 1) / 2);
    check_equal(download<std::uint32_t>(stream, memory, kRoom), wanted, what);
    stream.fill(memory.address(), 0, 4, kRoom);
  }

 private:
  static constexpr std::size_t kRoom = 40;

 public:
  Device device;
  Module module;
  Kernel kernel;
  Stream stream;
  Memory memory;
  Out out;

 private:
  Context& context_;
};

void computed_grids_arrive(Context& c) {
  Probe probe(c);
  for (const bool by_function : {false, true}) {
    const GridRule rule = by_function ? Probe::function() : Probe::expression();
    const std::string by = by_function ? "function, " : "expression, ";
    const LaunchPlan plan = probe.plan(rule), fixed_n = probe.plan(rule, {.fixed = {{1, 2}}}),
                     fixed_seed = probe.plan(rule, {.fixed = {{2, 9}}});
    const auto typed = plan.typed<Out, std::uint32_t, std::uint32_t>();
    const auto typed_n = fixed_n.typed<Out, std::uint32_t>();
    check(!plan.has_static_shape() && !plan.takes_grid(), "what the plan says of its grid");
    for (const std::uint32_t seed : {1U, 4U, 5U, 40U}) {
      typed(probe.stream, probe.out, 3, seed);
      probe.check_ran(3, seed, by + "typed");
      plan.launch(probe.stream, probe.out, 2, seed);
      probe.check_ran(2, seed, by + "untyped");
      typed_n(probe.stream, probe.out, seed);
      probe.check_ran(2, seed, by + "typed, n fixed");
      fixed_n.launch(probe.stream, probe.out, seed);
      probe.check_ran(2, seed, by + "untyped, n fixed");
    }
    fixed_seed.launch(probe.stream, probe.out, 3);
    probe.check_ran(3, 9, by + "seed fixed");
  }
}

void rules_without_run_time_arguments_are_static(Context& c) {
  Probe probe(c);
  const LaunchPlan literal = probe.plan(GridRule::expression("(2 + 1, 2)", {}));
  const LaunchPlan fixed = probe.plan(Probe::expression(), {.fixed = {{1, 2}, {2, 12}}});
  check(literal.has_static_shape() && !literal.takes_grid() && fixed.has_static_shape(), "static shapes");
  literal.launch(probe.stream, probe.out, 2, 12);
  probe.check_ran(2, 12, "three literals");
  literal.typed<Out, std::uint32_t, std::uint32_t>()(probe.stream, probe.out, 2, 12);
  probe.check_ran(2, 12, "three literals, typed");
  fixed.typed<Out>()(probe.stream, probe.out);
  probe.check_ran(2, 12, "fixed arguments");
  // What is static is checked when the plan is made, as any shape is.
  const auto message = [](const std::function<void()>& call) {
    return std::string(check_throws(kInvalid, {"grid.y"}, call).what());
  };
  const std::int64_t above = std::int64_t{probe.device.info().max_grid.y} + 1;
  check_equal(message([&] { (void)probe.plan(GridRule::expression("1, " + std::to_string(above), {})); }), message([&] {
                (void)LaunchPlan::create(probe.kernel, {.shape = LaunchShape{.grid = {1, above, 1}}});
              }),
              "the sentence");
}

// A plan whose block and scratch are the least: its record has room for the grid nevertheless.
void plain_launches_carry_their_grid(Context& c) {
  const Device device = c.open();
  const Module module = c.load(device);
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(9 * 4 * 64);
  Extent grid;
  const auto typed = LaunchPlan::create(find_kernel(module, "index"),
                                        {.grid = GridRule::function([&grid](const GridArguments&) { return grid; })})
                         .typed<Out>();
  for (const Extent& next : {Extent{5, 3, 2}, Extent{1, 1, 1}, Extent{1, 7, 1}}) {
    grid = next;
    const auto blocks = static_cast<std::size_t>(grid.x * grid.y * grid.z);
    (void)testing::take_stored(device);
    stream.fill(out.address(), 0, 4, 9 * 64);
    typed(stream, out.tensor<std::uint32_t>());
    stream.synchronize(kLimit);
    if (c.can(kStores)) check_equal(testing::take_stored(device).back().total_blocks, blocks, "blocks stored");
    if (!c.can(kRuns)) continue;
    const Words words = download<std::uint32_t>(stream, out, 9 * 64);
    for (std::size_t b = 0; b < 64; ++b) {
      const Words seen(words.begin() + static_cast<std::ptrdiff_t>(9 * b + 3),
                       words.begin() + static_cast<std::ptrdiff_t>(9 * b + 6));
      const Words wanted{static_cast<std::uint32_t>(grid.x), static_cast<std::uint32_t>(grid.y),
                         static_cast<std::uint32_t>(grid.z)};
      check_equal(seen, b < blocks ? wanted : Words(3), "the grid that block " + show(b) + " saw");
    }
  }
}

// Nothing is submitted, and the next call is a new one.
void a_bad_grid_refuses_one_call(Context& c) {
  Probe probe(c);
  const LaunchPlan by_expression = probe.plan(GridRule::expression("cdiv(seed, 4) + 0 // n, n", kNames));
  const LaunchPlan by_function = probe.plan(GridRule::function([](const GridArguments& a) {
    if (a[1] == 0) throw std::runtime_error("n is 0");
    return Extent{(a[2] + 3) / 4, a[1], 1};
  }));
  struct Case {
    const LaunchPlan& plan;
    std::initializer_list<std::string_view> parts;
  };
  for (const Case& k :
       {Case{by_expression, {"'cdiv(seed, 4) + 0 // n, n'", "'scratch'", "position 18", "0 / 0", "n = 0", "seed = 8"}},
        Case{by_function, {"'scratch'", "n is 0"}}}) {
    const auto typed = k.plan.typed<Out, std::uint32_t, std::uint32_t>();
    const std::uint64_t before = probe.stream.submitted();
    for (int i = 0; i < 3; ++i) {
      for (const Error& error :
           {check_throws(kInvalid, k.parts, [&] { typed(probe.stream, probe.out, 0, 8); }),
            check_throws(kInvalid, k.parts, [&] { k.plan.launch(probe.stream, probe.out, 0, 8); })}) {
        check(!error.stable() && !error.submitted(), "a bad grid is neither stable nor submitted");
      }
    }
    check_equal(probe.stream.submitted(), before, "submissions of refused calls");
    typed(probe.stream, probe.out, 2, 8);
    probe.check_ran(2, 8, "the next call");
    k.plan.launch(probe.stream, probe.out, 1, 8);
    probe.check_ran(1, 8, "the next untyped call");
  }
}

// The same verdicts as on a grid that was given: limits, negative values, zeros.
void computed_grids_are_checked_as_given_ones(Context& c) {
  Probe probe(c);
  const std::vector<std::string> names{"out", "v"};
  const Kernel put = find_kernel(probe.module, "put_i64");
  const auto given = LaunchPlan::create(put).typed_grid<Tensor<std::int64_t>, std::int64_t>();
  const Memory memory = probe.device.allocate(8);
  const auto to = memory.tensor<std::int64_t>();
  for (int d = 0; d < 3; ++d) {
    const Dim3 limit = probe.device.info().max_grid;
    const std::int64_t most = d == 0 ? limit.x : d == 1 ? limit.y : limit.z;
    const std::string text = d == 0 ? "v" : d == 1 ? "1, v" : "1, 1, v";
    const LaunchPlan plans[] = {LaunchPlan::create(put, {.grid = GridRule::expression(text, names)}),
                                LaunchPlan::create(put, {.grid = GridRule::function([d](const GridArguments& a) {
                                                           Extent e;
                                                           (d == 0 ? e.x : d == 1 ? e.y : e.z) = a[1];
                                                           return e;
                                                         })})};
    for (const LaunchPlan& plan : plans) {
      const auto typed = plan.typed<Tensor<std::int64_t>, std::int64_t>();
      for (const std::int64_t v :
           {most + 1, std::int64_t{-1}, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1,
            std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
        if (v >= 0 && v <= most) continue;
        Extent grid;
        (d == 0 ? grid.x : d == 1 ? grid.y : grid.z) = v;
        const auto message = [&](const std::function<void()>& call) {
          return std::string(check_throws(kInvalid, {"'put_i64'", std::to_string(v)}, call).what());
        };
        const std::string wanted = message([&] { given(probe.stream, grid, to, v); });
        check_equal(message([&] { typed(probe.stream, to, v); }), wanted, "typed");
        check_equal(message([&] { plan.launch(probe.stream, to, v); }), wanted, "untyped");
      }
      const std::uint64_t before = probe.stream.submitted(), empty = probe.device.counters().empty_launches;
      typed(probe.stream, to, 0);
      plan.launch(probe.stream, to, std::int64_t{0});
      check_equal(probe.stream.submitted(), before, "submissions of empty launches");
      check_equal(probe.device.counters().empty_launches, empty + 2, "empty launches counted");
    }
  }
  probe.stream.synchronize(kLimit);
}

// A missed guard takes the fallback, with the grid of the call.
void missed_guards_keep_the_grid(Context& c) {
  Probe probe(c);
  const Kernel special = probe.module.kernel("scratch", parse_signature("out tensor<u32>, u32, u32 range=0..8"));
  for (const GridRule& rule : {Probe::expression(), Probe::function()}) {
    const LaunchPlan plan = LaunchPlan::create(special, {.grid = rule, .shared_bytes = 64, .fallback = probe.kernel});
    const auto typed = plan.typed<Out, std::uint32_t, std::uint32_t>();
    const std::uint64_t misses = probe.device.counters()[Reason::kGuardRange];
    typed(probe.stream, probe.out, 2, 8);
    probe.check_ran(2, 8, "no miss");
    typed(probe.stream, probe.out, 2, 9);
    probe.check_ran(2, 9, "a miss");
    plan.launch(probe.stream, probe.out, 3, 17);
    probe.check_ran(3, 17, "a miss, untyped");
    check_equal(probe.device.counters()[Reason::kGuardRange], misses + 2, "range misses");
    plan.launch(probe.stream, TensorArg{probe.memory.address(), DType::kF32}, 3, 5);
    probe.check_ran(3, 5, "another element type");
  }
}

void plans_with_rules_are_checked(Context& c) {
  Probe probe(c);
  check_throws(kInvalid, {"'scratch'", "static shape and a grid rule"},
               [&] { (void)LaunchPlan::create(probe.kernel, {.shape = LaunchShape{}, .grid = Probe::expression()}); });
  check_throws(kInvalid, {"position 4", "'out', argument 0 of kernel 'scratch'", "tensor"},
               [&] { (void)probe.plan(GridRule::expression("n + out", kNames)); });
  check_throws(kInvalid, {"2 parameters", "'scratch' has 3"}, [&] {
    (void)probe.plan(GridRule::expression("n", {"out", "n"}));
  });
  check_throws(kInvalid, {"divides by zero", "n = 0"}, [&] {
    (void)probe.plan(GridRule::expression("4 / n", kNames), {.fixed = {{1, 0}}});
  });
  const LaunchPlan plan = probe.plan(Probe::expression());
  check_throws(kInvalid, {"'scratch'", "computes its grid", "use typed()"},
               [&] { (void)plan.typed_grid<Out, std::uint32_t, std::uint32_t>(); });
  const Argument arguments[] = {probe.out, 1, 4};
  check_throws(kInvalid, {"'scratch'", "computes its grid", "leave it out"},
               [&] { plan.launch_arguments(probe.stream, Extent{}, arguments); });
  check(LaunchPlan::create(probe.kernel, {.shared_bytes = 64}).takes_grid(),
        "a plan without shape and rule takes a grid");
  plan.launch_arguments(probe.stream, std::nullopt, arguments);
  probe.check_ran(1, 4, "after refusals");
}

// A captured launch has the grid of its capture, and no parameter of the graph can reach a rule.
void captured_launches_keep_their_grid(Context& c) {
  Probe probe(c);
  for (const GridRule& rule : {Probe::expression(), Probe::function()}) {
    const LaunchPlan plan = probe.plan(rule);
    const auto typed = plan.typed<Out, std::uint32_t, std::uint32_t>();
    Capture capture(probe.stream);
    const auto seed = capture.parameter<std::uint32_t>("seed", 8);
    check_throws(kInvalid, {"argument 2", "'scratch'", "a graph's parameter"},
                 [&] { plan.launch(probe.stream, probe.out, 2, seed); });
    check_throws(kInvalid, {"argument 2", "'scratch'", "a graph's parameter"}, [&] {
      (void)probe.plan(rule, {.fixed = {{2, seed}}});
    });
    typed(probe.stream, probe.out, 2, 10);
    const GraphDefinition definition = capture.end();
    const ExecutableGraph graph = definition.instantiate();
    for (int i = 0; i < 2; ++i) {
      graph.launch(probe.stream);
      probe.check_ran(2, 10, "a replay");
    }
    typed(probe.stream, probe.out, 3, 4);
    probe.check_ran(3, 4, "a launch behind the capture");
  }
}

constexpr Test kTests[] = {
    {"computed_grids_arrive", computed_grids_arrive},
    {"plain_launches_carry_their_grid", plain_launches_carry_their_grid},
    {"rules_without_run_time_arguments_are_static", rules_without_run_time_arguments_are_static},
    {"a_bad_grid_refuses_one_call", a_bad_grid_refuses_one_call},
    {"computed_grids_are_checked_as_given_ones", computed_grids_are_checked_as_given_ones},
    {"missed_guards_keep_the_grid", missed_guards_keep_the_grid},
    {"plans_with_rules_are_checked", plans_with_rules_are_checked},
    {"captured_launches_keep_their_grid", captured_launches_keep_their_grid},
};

}  // namespace

const Suite kGridsSuite{"grids", "grids that plans compute from their arguments", kTests};

}  // namespace slipway::conformance
