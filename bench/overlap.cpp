// bench/overlap: a step's time when its values are made while the replay runs, against the ideal of its own timeline
// and against every other order (goal 4). See README.md.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "program.h"
#include "slipway/slipway.h"

namespace {

using namespace bench;
using slipway::Device;
using slipway::Stream;

constexpr int kKernels = 20;  // of one replay
constexpr std::int64_t kKernel_ns = 20'000;
constexpr double kWork_ns = kKernels * kKernel_ns;
constexpr int kSteps = 12;  // of one turn

void busy(std::int64_t ns) {
  const std::int64_t end = now_ns() + ns;
  while (now_ns() < end) relax();
}

std::uint64_t g_wrong = 0, g_runs = 0;
// Takes its time, then looks at what it was given: directly, or in memory.
void plain(std::int64_t ns) {
  busy(ns);
  ++g_runs;
}
void gated(std::int64_t ns, std::int64_t step, const std::int64_t* expected) {
  busy(ns);
  ++g_runs;
  g_wrong += step != *expected;
}
void gated_in_memory(std::int64_t ns, const std::int64_t* step, const std::int64_t* expected) {
  busy(ns);
  ++g_runs;
  g_wrong += *step != *expected;
}
void count_step(std::int64_t* expected) { ++*expected; }

// Where in the work gates are, in percent, and how long the update of each takes, as a part of the work.
struct Shape {
  std::vector<int> gates;
  double update;  // of all groups together, by kWork_ns
  std::string name() const {
    std::string text = "gates at";
    for (const int g : gates) text += " " + std::to_string(g);
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, " %%, update %.2fx", update);
    return text + buffer;
  }
  std::int64_t update_ns() const {
    return static_cast<std::int64_t>(update * kWork_ns / static_cast<double>(gates.size()));
  }
  // One step alone: the update starts with the replay, and the tape is walked with waits at the gates.
  double ideal_ns() const {
    double at = 0, done = 0, ready = 0;
    for (const int gate : gates) {
      const double begins = kWork_ns * gate / 100;
      at += begins - done;
      done = begins;
      ready += static_cast<double>(update_ns());
      at = std::max(at, ready);
    }
    return at + kWork_ns - done;
  }
};

bool is_gate(const Shape& shape, int kernel) {
  return std::any_of(shape.gates.begin(), shape.gates.end(), [&](int g) { return kernel == g * kKernels / 100; });
}

class Steps {
 public:
  Steps(Shape shape, unsigned depth, slipway::Order order, bool in_memory)
      : shape_(std::move(shape)),
        in_memory_(in_memory),
        device_(open_device("cpu:workers=1")),
        stream_(device_.create_stream()) {
    module_ = device_.load_table({slipway::kernel<&plain>("plain"), slipway::kernel<&gated>("gated"),
                                  slipway::kernel<&gated_in_memory>("gated_in_memory"),
                                  slipway::kernel<&count_step>("count_step")});
    slipway::Capture capture(stream_, "bench");
    if (!in_memory_) value_ = capture.parameter<std::int64_t>("step");
    stream_.launch(module_.kernel("count_step"), {}, &expected_);
    for (int k = 0, gate = 0; k < kKernels; ++k) {
      if (!is_gate(shape_, k)) stream_.launch(module_.kernel("plain"), {}, kKernel_ns);
      else if (in_memory_) stream_.launch(module_.kernel("gated_in_memory"), {}, kKernel_ns, &slots_[0], &expected_);
      else launch_gated(capture, gate++);
    }
    graph_ = capture.end().instantiate({.depth = depth, .order = order});
    values_ = graph_.values();
  }

  // The ways to take a step.
  void in_one_call() {
    values_.set(value_, ++step_);
    graph_.launch(stream_, values_);
  }
  void host_sync() {
    stream_.synchronize();  // what the values depend on, in the worst case
    in_one_call();
  }
  // Static buffers: the values are made first, then copied in behind the last step, then the replay.
  void copied_in() {
    ++step_;
    for (std::size_t i = 0; i < shape_.gates.size(); ++i) busy(shape_.update_ns());
    stream_.copy_to_device(static_cast<slipway::DevicePtr>(reinterpret_cast<std::uintptr_t>(&slots_[0])), &step_,
                           sizeof step_);
    graph_.launch(stream_);
  }

  double turn(void (Steps::*way)()) {
    g_runs = g_wrong = 0;
    (this->*way)();  // so that the worker is awake
    stream_.synchronize();
    const std::int64_t start = now_ns();
    for (int i = 0; i < kSteps; ++i) (this->*way)();
    stream_.synchronize();
    const double took = static_cast<double>(now_ns() - start) / kSteps;
    prove(g_runs == kKernels * (kSteps + 1) && g_wrong == 0, "kernels with their step's value");
    return took;
  }

 private:
  // One operation for each gate, so that each has a gate of its own; they are evaluated in this order.
  void launch_gated(slipway::Capture& capture, int gate) {
    const std::int64_t cost = shape_.update_ns();
    const auto operation = capture.operation("plan" + std::to_string(gate), {value_},
                                             {slipway::OutputSpec::argument(slipway::ArgKind::kI64)},
                                             [cost, first = true](slipway::OperationCall& call) mutable {
                                               if (!std::exchange(first, false)) busy(cost);
                                               call.set(0, call.input<std::int64_t>(0));
                                             });
    stream_.launch(module_.kernel("gated"), {}, kKernel_ns, operation.output<std::int64_t>(0), &expected_);
  }

  Shape shape_;
  bool in_memory_;
  std::int64_t expected_ = 0, step_ = 0;
  std::int64_t slots_[2]{};
  Device device_;
  Stream stream_;
  slipway::Module module_;
  slipway::ScalarParameter<std::int64_t> value_;
  slipway::ExecutableGraph graph_;
  slipway::StepValues values_;
};

// Two copies of the graph over two buffers, in turns, by hand: the buffer of the next step is written while the
// replay of this one runs.
class DoubleBuffer {
 public:
  explicit DoubleBuffer(Shape shape)
      : shape_(std::move(shape)), device_(open_device("cpu:workers=1")), stream_(device_.create_stream()) {
    module_ =
        device_.load_table({slipway::kernel<&plain>("plain"), slipway::kernel<&gated_in_memory>("gated_in_memory"),
                            slipway::kernel<&count_step>("count_step")});
    for (int copy = 0; copy < 2; ++copy) {
      slipway::Capture capture(stream_, "bench");
      stream_.launch(module_.kernel("count_step"), {}, &expected_);
      for (int k = 0; k < kKernels; ++k) {
        if (is_gate(shape_, k))
          stream_.launch(module_.kernel("gated_in_memory"), {}, kKernel_ns, &slots_[copy], &expected_);
        else stream_.launch(module_.kernel("plain"), {}, kKernel_ns);
      }
      graphs_[copy] = capture.end().instantiate();
      done_[copy] = device_.create_event();
      stream_.mark(done_[copy]);
    }
  }
  double turn() {
    g_runs = g_wrong = 0;
    step();
    stream_.synchronize();
    const std::int64_t start = now_ns();
    for (int i = 0; i < kSteps; ++i) step();
    stream_.synchronize();
    const double took = static_cast<double>(now_ns() - start) / kSteps;
    prove(g_runs == kKernels * (kSteps + 1) && g_wrong == 0, "kernels with their step's value");
    return took;
  }

 private:
  void step() {
    const int copy = static_cast<int>(++step_ % 2);
    done_[copy].synchronize();
    for (std::size_t i = 0; i < shape_.gates.size(); ++i) busy(shape_.update_ns());
    slots_[copy] = step_;
    graphs_[copy].launch(stream_);
    stream_.mark(done_[copy]);
  }

  Shape shape_;
  std::int64_t expected_ = 0, step_ = 0;
  std::int64_t slots_[2]{};
  Device device_;
  Stream stream_;
  slipway::Module module_;
  slipway::ExecutableGraph graphs_[2];
  slipway::Event done_[2];
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes{{{0}, 0},  {{0}, 0.5},         {{50}, 0.25},    {{50}, 0.5},
                                          {{50}, 1}, {{50}, 2},          {{90}, 0.5},     {{90}, 0.9},
                                          {{90}, 2}, {{0, 50, 90}, 0.5}, {{0, 50, 90}, 1}};
  return kShapes;
}

constexpr const char* kAlone = "overlap, one step at a time";

void add(Rows& rows, Partner&, Report&) {
  for (const Shape& shape : shapes()) {
    const auto add_row = [&](const char* name, unsigned depth, slipway::Order order, bool memory,
                             void (Steps::*way)()) {
      auto steps = std::make_shared<Steps>(shape, depth, order, memory);
      rows.add(shape.name(), name, [steps, way] {
        const double took = steps->turn(way);
        return Sample{took, took};
      });
    };
    using slipway::Order;
    add_row("host sync, update first", 2, Order::kUpdateFirst, false, &Steps::host_sync);
    add_row(kAlone, 2, Order::kAuto, false, &Steps::host_sync);
    add_row("update first", 2, Order::kUpdateFirst, false, &Steps::in_one_call);
    add_row("overlap, depth 1", 1, Order::kAuto, false, &Steps::in_one_call);
    add_row("overlap, depth 2", 2, Order::kAuto, false, &Steps::in_one_call);
    add_row("static buffers, copied in", 2, Order::kAuto, true, &Steps::copied_in);
    auto by_hand = std::make_shared<DoubleBuffer>(shape);
    rows.add(shape.name(), "double buffer by hand", [by_hand] {
      const double took = by_hand->turn();
      return Sample{took, took};
    });
  }
}

void judge(const Rows& rows, Report& report) {
  std::printf("\nby the ideal of one step alone\n");
  double worst = 0;
  for (const Shape& shape : shapes()) {
    const Row* alone = rows.find(shape.name(), kAlone);
    if (!alone) continue;
    std::printf("  %-36s ideal %7.1f us", shape.name().c_str(), shape.ideal_ns() / 1000);
    for (const Row& row : rows.all()) {
      if (row.group == shape.name()) std::printf("  %.2f", row.end_ns() / shape.ideal_ns());
    }
    std::puts("");
    worst = std::max(worst, alone->end_ns() / shape.ideal_ns());
  }
  if (worst > 0)
    report.goals.push_back({"4", "a step by its ideal, the worst of all shapes", worst, 1.05, false, true, "x"});
}

}  // namespace

int main(int argc, char** argv) { return run_program({"bench/overlap", 5, add, judge}, argc, argv); }
