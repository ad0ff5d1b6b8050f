// B09: a prepared launch outlived the binary that it points into. B12: a replay used memory that was freed.
#include <optional>
#include <sstream>

#include "report.h"

namespace slipway::reports {
namespace {

using Launch = std::function<void(const Stream&)>;

struct Keeper {
  const char* what;
  // From a kernel to something that launches it and is all that keeps it.
  Launch (*make)(const Stream& stream, const Kernel& count, const Tensor<std::uint32_t>& to);
};

GraphDefinition capture_launch(const Stream& stream, const Kernel& count, const Tensor<std::uint32_t>& to) {
  Capture capture(stream);
  stream.launch(count, {}, to);
  return capture.end();
}

const Keeper kKeepers[] = {
    {"a kernel",
     [](const Stream&, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       return [=](const Stream& s) { s.launch(count, {}, to); };
     }},
    {"a plan",
     [](const Stream&, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       return [to, plan = LaunchPlan::create(count, {.shape = LaunchShape{}})](const Stream& s) { plan.launch(s, to); };
     }},
    {"a typed handle",
     [](const Stream&, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       const auto typed = LaunchPlan::create(count, {.shape = LaunchShape{}}).typed<Tensor<std::uint32_t>>();
       return [=](const Stream& s) { typed(s, to); };
     }},
    {"a typed handle with a grid",
     [](const Stream&, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       const auto typed = LaunchPlan::create(count, {}).typed_grid<Tensor<std::uint32_t>>();
       return [=](const Stream& s) { typed(s, {}, to); };
     }},
    {"a graph definition",
     [](const Stream& stream, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       return [d = capture_launch(stream, count, to)](const Stream& s) { d.instantiate().launch(s); };
     }},
    {"an executable graph",
     [](const Stream& stream, const Kernel& count, const Tensor<std::uint32_t>& to) -> Launch {
       return [g = capture_launch(stream, count, to).instantiate()](const Stream& s) { g.launch(s); };
     }},
};

// While anything can launch it a module stays, whatever else is loaded meanwhile; it goes when the last launch has run.
SLIPWAY_REPORT(B09_what_launches_keeps_its_module, kEvery) {
  const int others_to_load = c.driver().name == std::string("opencl") ? 3 : 50;
  for (const Keeper& keeper : kKeepers) {
    const Device device = c.open();
    const Stream stream = device.create_stream();
    const Memory cnt = zeros<std::uint32_t>(device, stream, 1);
    stream.synchronize(kLimit);
    const std::string what = keeper.what;
    Launch launch;
    {
      const Module module = c.load(device);
      launch = keeper.make(stream, find_kernel(module, "count"), cnt.tensor<std::uint32_t>());
    }
    std::vector<Module> others;
    for (int i = 0; i < others_to_load; ++i) others.push_back(c.load(device));
    for (int i = 0; i < 100; ++i) launch(stream);
    stream.synchronize(kLimit);
    check_equal(device.counters().modules_unloaded, 0U, what + ": modules unloaded while it lives");
    {
      testing::Hold hold(device);
      hold.hold(stream);
      launch(stream);
      launch = nullptr;
      others.push_back(c.load(device));
      check_equal(device.counters().modules_unloaded, 0U, what + ": modules unloaded before its last launch has run");
    }
    stream.synchronize(kLimit);
    device.synchronize(kLimit);
    check_equal(device.counters().modules_unloaded, 1U, what + ": modules unloaded after its last launch");
    if (c.can(kRuns)) check_equal(download<std::uint32_t>(stream, cnt, 1).front(), 101U, what + ": launches that ran");
  }
}

// A kernel that nothing but a plan's fallback refers to.
SLIPWAY_REPORT(B09_a_fallback_keeps_its_module, kEvery) {
  const Device device = c.open();
  const Stream stream = device.create_stream();
  const Memory out = device.allocate(64);
  auto plan = std::make_unique<LaunchPlan>();
  {
    const Module special = c.load(device), plain = c.load(device);
    *plan = LaunchPlan::create(special.kernel("put_i32", parse_signature("tensor, i32 range=0..9")),
                               {.shape = LaunchShape{}, .fallback = find_kernel(plain, "put_i32")});
  }
  check_equal(device.counters().modules_unloaded, 0U, "modules unloaded while the plan lives");
  plan->launch(stream, out.address(), 10);
  if (c.can(kRuns)) check_equal(download<std::int32_t>(stream, out, 1).front(), 10, "what the fallback wrote");
  plan.reset();
  stream.synchronize(kLimit);
  check_equal(device.counters().modules_unloaded, 2U, "modules unloaded after the plan");
}

struct Use {
  const char* what;  // as the error names it
  void (*submit)(Context& c, const Stream& stream, const Memory& watched, const Memory& other,
                 std::vector<float>& host);
};

const Use kUses[] = {
    {"argument 1 of kernel 'add'",
     [](Context& c, const Stream& s, const Memory& w, const Memory& o, std::vector<float>&) {
       s.launch(c.kernel("add"), {}, o, w.tensor<const float>(2), 4, 1.0F);
     }},
    {"argument 0 of kernel 'add'", [](Context& c, const Stream& s, const Memory& w, const Memory& o,
                                      std::vector<float>&) { s.launch(c.kernel("add"), {}, w, o, 4, 1.0F); }},
    {"the source of a copy", [](Context&, const Stream& s, const Memory& w, const Memory& o,
                                std::vector<float>&) { s.copy(o.address(), w.address(), 16); }},
    {"the destination of a copy", [](Context&, const Stream& s, const Memory& w, const Memory& o,
                                     std::vector<float>&) { s.copy(w.address(), o.address(), 16); }},
    {"the source of a copy", [](Context&, const Stream& s, const Memory& w, const Memory&,
                                std::vector<float>& host) { s.copy_to_host(host.data(), w.address(), 16); }},
    {"the destination of a copy", [](Context&, const Stream& s, const Memory& w, const Memory&,
                                     std::vector<float>& host) { s.copy_to_device(w.address(), host.data(), 16); }},
    {"the destination of a copy",
     [](Context&, const Stream& s, const Memory& w, const Memory&, std::vector<float>& host) {
       s.copy_to_device(w.address(), host.data(), 16384);  // staged
     }},
    {"the destination of a fill", [](Context&, const Stream& s, const Memory& w, const Memory&,
                                     std::vector<float>&) { s.fill(w.address(), 0, 4, 4); }},
};

// Each way in which captured work refers to memory: after it is freed, and its place is used again, nothing is
// replayed.
SLIPWAY_REPORT(B12_freed_memory_is_never_replayed, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  for (const Use& use : kUses) {
    std::optional<Memory> watched(device.allocate(16384));
    const Memory other = device.allocate(16384);
    std::vector<float> host(4096);
    Capture capture(stream, "watching");
    use.submit(c, stream, *watched, other, host);
    const GraphDefinition definition = capture.end();
    const ExecutableGraph graph = definition.instantiate();
    graph.launch(stream);
    stream.synchronize(kLimit);
    const DevicePtr place = watched->address();
    std::ostringstream address;
    address << "0x" << std::hex << static_cast<std::uint64_t>(place);
    watched.reset();
    std::vector<Memory> again;
    while (again.size() < 64 && (again.empty() || again.back().address() != place)) {
      again.push_back(device.allocate(16384));
      stream.fill(again.back().address(), 0x429A0000, 4, 4096);  // 77.0
    }
    stream.fill(other.address(), 0, 4, 4096);
    stream.synchronize(kLimit);
    host.assign(4096, 0);
    const std::uint64_t before = stream.submitted();
    for (const ExecutableGraph& g : {graph, definition.instantiate()}) {
      const Error error = check_throws(ErrorCode::kStaleAddress, {use.what, "'watching'", "16384 bytes", address.str()},
                                       [&] { g.launch(stream); });
      check(!error.submitted() && error.stable(), "a stale address is told before anything is submitted, and stays so");
    }
    check_equal(stream.submitted(), before, "submissions after refusals");
    if (!c.can(kRuns)) continue;
    check_equal(download<float>(stream, other, 4), std::vector<float>(4), "what a replay would have written");
    check_equal(host, std::vector<float>(4096), "what a replay would have copied");
    check_equal(download<float>(stream, again.back(), 4), std::vector<float>(4, 77), "what lies there now, perhaps");
  }
}

// The same uses, told where the memory lies now: they do what they would have done if they had been captured with it,
// and touch neither the old place nor what lies there now.
SLIPWAY_REPORT(B12_rebound_graphs_use_the_new_memory, kEvery) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const auto filled = [&](std::uint32_t pattern) {
    Memory memory = device.allocate(16384);
    stream.fill(memory.address(), pattern, 4, 4096);
    return memory;
  };
  for (const Use& use : kUses) {
    std::optional<Memory> watched(filled(0x3F800000));  // 1.0
    const Memory other = filled(0);
    std::vector<float> host(4096, 5), expected_host(4096, 5);
    Capture capture(stream, "moving");
    use.submit(c, stream, *watched, other, host);
    const GraphDefinition definition = capture.end();
    const ExecutableGraph graph = definition.instantiate(), left = definition.instantiate();
    graph.launch(stream);
    stream.synchronize(kLimit);
    const DevicePtr place = watched->address();
    watched.reset();
    std::vector<Memory> again;
    while (again.size() < 64 && (again.empty() || again.back().address() != place)) again.push_back(filled(0x429A0000));
    const Memory moved = filled(0x40400000), expected_moved = filled(0x40400000), expected_other = filled(0);  // 3.0
    stream.fill(other.address(), 0, 4, 4096);
    stream.synchronize(kLimit);
    host.assign(4096, 5);
    (void)check_throws(ErrorCode::kStaleAddress, {use.what}, [&] { graph.launch(stream); });
    graph.rebind(place, 16384, moved.address());
    check_equal(graph.counters().rebinds, std::uint64_t{1}, "rebinds");
    graph.launch(stream);
    use.submit(c, stream, expected_moved, expected_other, expected_host);
    stream.synchronize(kLimit);
    (void)check_throws(ErrorCode::kStaleAddress, {use.what}, [&] { left.launch(stream); });
    if (!c.can(kRuns)) continue;
    check_equal(download<float>(stream, moved, 4096), download<float>(stream, expected_moved, 4096), "the new memory");
    check_equal(download<float>(stream, other, 4096), download<float>(stream, expected_other, 4096), "the other side");
    check_equal(host, expected_host, "what came to the host");
    check_equal(download<float>(stream, again.back(), 4096), std::vector<float>(4096, 77),
                "what lies there now, perhaps");
  }
}

// Memory that stays where it is may get new contents, with no capture.
SLIPWAY_REPORT(B12_contents_may_change_in_place, kRunning) {
  const Device& device = c.device();
  const Stream stream = device.create_stream();
  const Memory weights = zeros<float>(device, stream, 4), out = zeros<float>(device, stream, 4);
  stream.synchronize(kLimit);
  Capture capture(stream);
  stream.launch(c.kernel("add"), {}, out, weights, 4, 0.5F);
  const ExecutableGraph graph = capture.end().instantiate();
  for (int i = 1; i <= 5; ++i) {
    const std::vector<float> values(4, static_cast<float>(i));
    stream.copy_to_device(weights.address(), values.data(), 16);
    (void)device.allocate(64);  // freed at once: watched by nobody
    graph.launch(stream);
    check_equal(download<float>(stream, out, 4), std::vector<float>(4, static_cast<float>(i) + 0.5F), "the sums");
  }
  check_equal(graph.counters().launches, std::uint64_t{5}, "launches of the one graph");
}

}  // namespace
}  // namespace slipway::reports
