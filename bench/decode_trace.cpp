// Goal 7 as far as plans go: one decode step of 32 layers, 420 launches of kernels with 4 to 19 arguments, onto a
// device that is busy T us per kernel. Whatever a step takes beyond 420 T is time in which the device had nothing to
// do.
#include <array>
#include <cstdio>
#include <limits>
#include <map>

#include "cases.h"
#include "command_object.h"
#include "suites.h"

namespace bench {
namespace {

// Arguments of the kernels of one layer: norm, q, k and v, rope, cache, attention, output, sum, norm, gate and up,
// down, sum; and behind the last layer: norm, output, sampling, bookkeeping.
constexpr std::array<int, 13> kLayer{5, 6, 6, 6, 9, 12, 19, 6, 4, 5, 15, 6, 4};
constexpr std::array<int, 4> kTail{5, 6, 12, 4};
constexpr int kLayers = 32;
constexpr std::size_t kLaunches = kLayer.size() * kLayers + kTail.size();
static_assert(kLaunches == 420);

std::vector<int> trace() {
  std::vector<int> counts;
  for (int layer = 0; layer < kLayers; ++layer) counts.insert(counts.end(), kLayer.begin(), kLayer.end());
  counts.insert(counts.end(), kTail.begin(), kTail.end());
  return counts;
}

void wait_busy(int busy_us) {
  const std::int64_t until = now_ns() + busy_us * 1000;
  if (busy_us > 0) {
    while (now_ns() < until) relax();
  }
}

// The trace on a timed device of Slipway's.
class TimedDevice {
 public:
  explicit TimedDevice(int busy_us)
      : device_(open_device("null:busy_us=" + std::to_string(busy_us))), stream_(device_.create_stream()) {
    add<4>(), add<5>(), add<6>(), add<9>(), add<12>(), add<15>(), add<19>();
    for (const int n : trace()) order_.push_back(cases_.at(n).get());
  }

  void step(Way way) {
    const std::uint64_t before = stream_.completed();
    for (const Case* c : order_) c->launch(way, 1);
    stream_.synchronize();
    prove(stream_.completed() - before >= kLaunches, "a step on the timed device");
  }
  void replay() {
    if (!graph_) {
      slipway::Capture capture(stream_);
      for (const Case* c : order_) c->launch(Way::kTyped, 1);
      graph_ = capture.end().instantiate();
    }
    const std::uint64_t before = stream_.completed();
    graph_.launch(stream_);
    stream_.synchronize();
    prove(stream_.completed() > before, "a replayed step on the timed device");
  }
  // What the device takes when everything was submitted beforehand, ns.
  double alone() {
    slipway::testing::Hold hold(device_);
    hold.hold(stream_);
    for (const Case* c : order_) c->launch(Way::kTyped, 1);
    const std::int64_t start = now_ns();
    hold.release();
    stream_.synchronize();
    return static_cast<double>(now_ns() - start);
  }

 private:
  template <int kArguments>
  void add() {
    auto made = make_case<kArguments>();
    made->prepare(device_, stream_);
    cases_[kArguments] = std::move(made);
  }
  slipway::Device device_;
  slipway::Stream stream_;
  slipway::ExecutableGraph graph_;
  std::map<int, std::unique_ptr<Case>> cases_;
  std::vector<const Case*> order_;
};

class GenericCommands {
 public:
  explicit GenericCommands(int busy_us)
      : kernel_(std::make_shared<const CommandQueue::Kernel>(
            [busy_us](const std::vector<CommandQueue::Value>&) { wait_busy(busy_us); })) {}

  void step() {
    const std::uint64_t before = queue_.completed();
    for (const int n : order_) {
      std::vector<CommandQueue::Value> arguments;
      arguments.reserve(static_cast<std::size_t>(n));
      for (int i = 0; i < n; ++i) {
        if (i < 3) arguments.emplace_back(static_cast<void*>(&memory_));
        else arguments.emplace_back(i);
      }
      queue_.launch(kernel_, std::move(arguments));
    }
    queue_.synchronize();
    prove(queue_.completed() - before == kLaunches, "a step of generic commands");
  }

 private:
  std::vector<int> order_ = trace();
  float memory_ = 0;
  std::shared_ptr<const CommandQueue::Kernel> kernel_;
  CommandQueue queue_;
};

}  // namespace

void measure_device_idle_time(Report& report, int steps) {
  constexpr std::array<int, 5> kBusy_us{0, 2, 5, 10, 20};
  const std::array<const char*, 8> names{"device alone",  "generic command object", "general path", "planned untyped",
                                         "planned typed", "finalized call site",    "replay",       "OpenCL by hand"};
  constexpr std::size_t kSite = 5;
  std::vector<std::array<double, 5>> idle_ms(names.size());
  std::puts(
      "\nidle time of the device in a decode step of 420 launches, ms (busy T us per kernel; a quarter of the "
      "steps\nhad less, which other programs disturb least)");
  for (std::size_t t = 0; t < kBusy_us.size(); ++t) {
    const double busy_ns = 1000.0 * kBusy_us[t] * static_cast<double>(kLaunches);
    TimedDevice device(kBusy_us[t]);
    Sides::put_this_thread(Sides::kWorker);  // for the thread that this starts
    GenericCommands generic(kBusy_us[t]);
    Sides::put_this_thread(Sides::kSubmitter);
    std::array<std::vector<double>, 7> samples;
    for (int step = 0; step < steps; ++step) {
      for (std::size_t side = 0; side < samples.size(); ++side) {
        double took_ns = 0;
        for (int turn = 0; turn < 2; ++turn) {  // the first one has the worker look around, as in a row of steps
          const std::int64_t start = now_ns();
          took_ns = 0;
          switch (side) {
            case 0: took_ns = device.alone(); break;
            case 1: generic.step(); break;
            case 2: device.step(Way::kGeneral); break;
            case 3: device.step(Way::kPlanned); break;
            case 4: device.step(Way::kTyped); break;
            case kSite: device.step(Way::kSite); break;
            default: device.replay(); break;
          }
          if (side != 0) took_ns = static_cast<double>(now_ns() - start);
        }
        samples[side].push_back((took_ns - busy_ns) / 1e6);
        std::this_thread::sleep_for(std::chrono::microseconds(1500));  // a worker of one side parks before the next
      }
    }
    for (std::size_t side = 0; side < samples.size(); ++side)
      idle_ms[side][t] = quantile(std::move(samples[side]), 0.25);
    idle_ms.back()[t] = opencl_idle_ms(trace(), kBusy_us[t], steps);
  }

  std::printf("%-24s", "T");
  for (const int t : kBusy_us) std::printf("%10d", t);
  std::puts("   idle under 1 % of the step, beyond the device alone, from T =");
  // A device that loses its processor to other programs is idle whoever feeds it: such a T is not judged. Looking at
  // the clock takes a kernel up to 150 ns longer than T.
  const auto disturbed = [&](std::size_t t) {
    return kBusy_us[t] == 0 || idle_ms[0][t] > 0.42 * (0.05 * kBusy_us[t] + 0.15);
  };
  for (std::size_t side = 0; side < names.size(); ++side) {
    if (side + 1 == names.size() && idle_ms[side][0] < -0.5) continue;  // no OpenCL device
    std::printf("%-24s", names[side]);
    int reached = 0, judged = 0;
    for (std::size_t t = 0; t < kBusy_us.size(); ++t) {
      std::printf("%10.3f", idle_ms[side][t]);
      report.figures.push_back({"device idle time, T = " + std::to_string(kBusy_us[t]) + " us", names[side],
                                "ms per step", idle_ms[side][t]});
      if (disturbed(t)) continue;
      ++judged;
      const double step_ms = idle_ms[side][t] + 0.42 * kBusy_us[t];
      if (reached == 0 && idle_ms[side][t] - idle_ms[0][t] < 0.01 * step_ms) reached = kBusy_us[t];
    }
    if (side == 0) std::puts("");
    else if (judged == 0) std::puts("   not judged: the device alone was disturbed at every T");
    else if (reached == 0) std::puts("   not reached");
    else std::printf("   %d us\n", reached);
    if (side == kSite) {
      report.goals.push_back({"7", "T at which finalized call sites leave the device no idle time",
                              reached == 0 ? std::numeric_limits<double>::infinity() : reached, 2, false, true, "us",
                              disturbed(1)});
    }
  }
}

}  // namespace bench
