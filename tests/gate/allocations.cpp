// A steady launch allocates nothing: malloc and its kin are replaced for the whole process, so that calls from
// libslipway and from operator new are counted too, on every thread.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

#include "gate/workload.h"

namespace {

std::atomic<bool> g_counting{false};
std::atomic<unsigned long> g_calls{0};

void note() noexcept {
  if (g_counting.load(std::memory_order_relaxed)) g_calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// glibc lets a program bring its own; its originals stay reachable under these names.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

[[gnu::visibility("default")]] void* malloc(std::size_t n) {
  note();
  return __libc_malloc(n);
}
[[gnu::visibility("default")]] void* calloc(std::size_t n, std::size_t m) {
  note();
  return __libc_calloc(n, m);
}
[[gnu::visibility("default")]] void* realloc(void* p, std::size_t n) {
  note();
  return __libc_realloc(p, n);
}
[[gnu::visibility("default")]] void* memalign(std::size_t a, std::size_t n) {
  note();
  return __libc_memalign(a, n);
}
[[gnu::visibility("default")]] void* aligned_alloc(std::size_t a, std::size_t n) {
  note();
  return __libc_memalign(a, n);
}
[[gnu::visibility("default")]] int posix_memalign(void** p, std::size_t a, std::size_t n) {
  note();
  *p = __libc_memalign(a, n);
  return *p ? 0 : ENOMEM;
}
[[gnu::visibility("default")]] void free(void* p) {
  if (p) note();
  __libc_free(p);
}
}

namespace {

constexpr int kLaunches = 10'000;
bool g_ok = true;

void expect(bool right, const char* where, const char* what, unsigned long value) {
  if (right) return;
  std::printf("%s: %s: %lu\n", where, what, value);
  g_ok = false;
}

template <class Launch>
void steady(const char* name, const char* uri, bool held, Launch&& launch) {
  // Room for all launches of the general path's size, so that a held stream takes them.
  const gate::Workload w(uri, 2U << 20);
  for (int i = 0; i < 1000; ++i) launch(w);
  w.stream.synchronize();
  const std::uint64_t before = gate::g_runs;
  {
    slipway::testing::Hold hold(w.device);
    if (held) w.hold(hold);
    g_calls.store(0);
    g_counting.store(true);
    for (int i = 0; i < kLaunches; ++i) launch(w);
    g_counting.store(false);
    const std::string where = std::string(name) + " on " + uri + (held ? ", held" : "");
    expect(g_calls.load() == 0, where.c_str(), "calls of malloc or free in 10,000 steady launches", g_calls.load());
  }
  w.stream.synchronize();
  const std::uint64_t ran = gate::g_runs - before;
  expect(ran == (w.device.info().runs_kernels ? kLaunches : 0), name, "kernels that ran", ran);
  expect(w.stream.submitted() == w.stream.completed(), name, "submitted", w.stream.submitted());
}

// The values of a step from the inputs of a call: numbers, a list and a string.
void steady_plan() {
  struct Bytes {
    std::int64_t values[4];
  };
  using slipway::UpdateSource;
  using slipway::UpdateValue;
  const auto device = slipway::Device::open("cpu:inline");
  const auto stream = device.create_stream();
  slipway::Capture capture(stream);
  const auto n = capture.parameter<std::int32_t>("n");
  const auto scale = capture.parameter<float>("scale");
  const auto list = capture.parameter<Bytes>("list"), text = capture.parameter<Bytes>("text");
  (void)capture.operation("plan", {n, scale, list, text}, {slipway::OutputSpec::argument(slipway::ArgKind::kI32)},
                          [](slipway::OperationCall& call) { call.set(0, call.input<std::int32_t>(0)); });
  stream.fill(device.allocate(64).address(), 0, 4, 16);
  const auto definition = capture.end();
  auto values = definition.instantiate().values();
  const slipway::UpdatePlan plan(std::vector<slipway::UpdateEntry>{
      {"plan",
       {{"n", UpdateSource::input(0)},
        {"scale", UpdateSource::input(0)},
        {"list", UpdateSource::list({UpdateSource::input(1), UpdateSource::constant(4)})},
        {"text", UpdateSource::input(2)}}}});
  const slipway::BoundUpdatePlan update = plan.bind(definition);
  const UpdateValue inputs[] = {7, UpdateValue::list({1, 2, UpdateValue::list({3.5})}),
                                "a string that lies in its memory"};
  g_calls.store(0);
  g_counting.store(true);
  for (int i = 0; i < kLaunches; ++i) g_ok = update.resolve(inputs, values) && g_ok;
  g_counting.store(false);
  expect(g_calls.load() == 0, "an update plan", "calls of malloc or free in 10,000 steps", g_calls.load());
}

}  // namespace

int main() {
  {
    g_counting.store(true);  // the instrument itself: it must see the library's allocations
    const gate::Workload w("cpu");
    g_counting.store(false);
    expect(g_calls.load() > 10, "the instrument", "allocations seen while a device was opened", g_calls.load());
  }
  const auto typed = [](const gate::Workload& w) { w.launch_typed(); };
  const auto site = [](const gate::Workload& w) { w.launch_site(); };
  const auto planned = [](const gate::Workload& w) { w.launch_planned(); };
  const auto general = [](const gate::Workload& w) { w.launch_general(); };
  const auto expression = [](const gate::Workload& w) { w.launch_expression(); };
  const auto function = [](const gate::Workload& w) { w.launch_function(); };
  for (const char* uri : {"cpu", "cpu:spin_us=0", "cpu:inline", "null"}) {
    for (const bool held : {true, false}) {
      steady("typed", uri, held, typed);
      steady("site", uri, held, site);
      steady("planned", uri, held, planned);
      steady("general", uri, held, general);
      steady("grid expression", uri, held, expression);
      steady("grid function", uri, held, function);
    }
  }
  steady_plan();
  if (g_ok) std::puts("no steady launch allocated");
  return g_ok ? 0 : 1;
}
