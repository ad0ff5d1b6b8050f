// Goal 8: what a device costs while nothing is submitted, and how soon it runs again.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "cases.h"
#include "suites.h"

namespace bench {
namespace {

std::atomic<std::int64_t> g_ran_at{0};

void note_time() { g_ran_at.store(now_ns(), std::memory_order_release); }

// From `wake` to the moment at which the sleeper runs.
template <class Wake>
double wake_up_ns(Wake&& wake) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the sleeper sleeps
  g_ran_at.store(0);
  const std::int64_t start = now_ns();
  wake();
  while (g_ran_at.load(std::memory_order_acquire) == 0) relax();
  return static_cast<double>(g_ran_at.load() - start);
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

void measure_at_rest(Report& report, int wake_ups) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<bool> stop{false};
  Sides::put_this_thread(Sides::kWorker);  // for the threads that are started here
  std::thread sleeper([&] {
    while (!stop.load()) {
      while (word.load(std::memory_order_acquire) == 0) futex(word, FUTEX_WAIT_PRIVATE, 0);
      word.store(0);
      note_time();
    }
  });
  Sides::put_this_thread(Sides::kSubmitter);
  const auto wake_raw = [&] {
    word.store(1, std::memory_order_release);
    futex(word, FUTEX_WAKE_PRIVATE, 1);
  };

  // 50 us: parked long before the next wake-up.
  const slipway::Device device = open_device("cpu:spin_us=50");
  const slipway::Stream stream = device.create_stream();
  const slipway::Module module = device.load_table({slipway::kernel<&note_time>("note_time")});
  slipway::PlanOptions options;
  options.shape.emplace();
  const auto launch = slipway::LaunchPlan::create(module.kernel("note_time"), options).typed<>();
  launch(stream);
  stream.synchronize();

  std::vector<double> raw, ours;
  for (int i = 0; i < wake_ups; ++i) {
    raw.push_back(wake_up_ns(wake_raw));
    ours.push_back(wake_up_ns([&] { launch(stream); }));
  }
  stream.synchronize();
  stop.store(true);
  wake_raw();
  sleeper.join();
  const double raw_us = median(std::move(raw)) / 1000, our_us = median(std::move(ours)) / 1000;

  // A device as it is opened by default, used a moment ago, with streams open.
  const slipway::Device idle = slipway::Device::open("cpu");
  std::vector<slipway::Stream> streams;
  const slipway::Kernel kernel = idle.load_table({slipway::kernel<&note_time>("note_time")}).kernel("note_time");
  for (int i = 0; i < 4; ++i) {
    streams.push_back(idle.create_stream());
    streams.back().launch(kernel, slipway::LaunchShape{});
    streams.back().synchronize();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // beyond the spin budget of 1 ms
  const std::int64_t cpu = process_cpu_ns(), start = now_ns();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double percent = 100.0 * static_cast<double>(process_cpu_ns() - cpu) / static_cast<double>(now_ns() - start);

  std::printf(
      "\nat rest\n  wake-up, raw futex      %8.1f us\n  wake-up, parked device  %8.1f us\n"
      "  processor time, idle    %8.3f %%\n",
      raw_us, our_us, percent);
  report.figures.push_back({"at rest", "wake-up, raw futex", "us", raw_us});
  report.figures.push_back({"at rest", "wake-up, parked device", "us", our_us});
  report.figures.push_back({"at rest", "processor time when idle", "%", percent});
  report.goals.push_back({"8", "wake-up from parked, by a raw futex", our_us / raw_us, 1.1, false, true, "x"});
  // The resolution: one context switch of any thread in the second.
  report.goals.push_back({"8", "processor time when idle (0 when rounded to 0.1 %)", percent, 0.05, false, false, "%"});
}

}  // namespace bench
