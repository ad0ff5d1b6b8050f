#include "harness.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace bench {
namespace {

cpu_set_t g_sets[3];  // by Sides::Side
bool g_chosen = false;

}  // namespace

void Sides::choose() noexcept {
  cpu_set_t& all = g_sets[kBoth];
  if (::sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  int side = kSubmitter;
  for (std::size_t p = 0; p < CPU_SETSIZE && side <= kWorker; ++p) {
    if (!CPU_ISSET(p, &all)) continue;
    CPU_ZERO(&g_sets[side]);
    CPU_SET(p, &g_sets[side]);
    ++side;
  }
  g_chosen = true;
  put_this_thread(kSubmitter);
}

bool Sides::chosen() noexcept { return g_chosen; }

unsigned Sides::worker() noexcept {
  unsigned p = 0;
  while (!CPU_ISSET(p, &g_sets[kWorker])) ++p;
  return p;
}

slipway::Device open_device(std::string uri) {
  if (Sides::chosen() && uri.find("inline") == uri.npos && uri != "null") {
    uri += (uri.find(':') == uri.npos ? ":affinity=" : ",affinity=") + std::to_string(Sides::worker());
  }
  return slipway::Device::open(uri);
}

void Sides::put_this_thread(Side side) noexcept {
  if (g_chosen) ::sched_setaffinity(0, sizeof g_sets[side], &g_sets[side]);
}

double quantile(std::vector<double> values, double which) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(which * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

Partner::Partner() : thread_([this] { main(); }) {}

Partner::~Partner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Partner::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  changed_.notify_all();
  while (!running_.load(std::memory_order_acquire)) std::this_thread::yield();
}

void Partner::join() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
}

void Partner::main() {
  Sides::put_this_thread(Sides::kWorker);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || work_; });
    if (stop_) return;
    lock.unlock();
    running_.store(true, std::memory_order_release);
    work_();
    lock.lock();
    running_.store(false, std::memory_order_relaxed);
    work_ = nullptr;
    changed_.notify_all();
  }
}

double ping_pong_ns(Partner& partner) {
  constexpr std::uint32_t kRounds = 2000;
  alignas(64) static std::atomic<std::uint32_t> turn;
  turn.store(0);
  const auto play = [](std::uint32_t mine) {
    for (std::uint32_t i = mine; i < 2 * kRounds; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) relax();
      turn.store(i + 1, std::memory_order_release);
    }
  };
  std::vector<double> samples;
  for (int repeat = 0; repeat < 5; ++repeat) {
    turn.store(0);
    partner.start([&] { play(1); });
    const std::int64_t start = now_ns();
    play(0);
    while (turn.load(std::memory_order_acquire) != 2 * kRounds) relax();
    samples.push_back(static_cast<double>(now_ns() - start) / (2.0 * kRounds));
    partner.join();
  }
  return median(std::move(samples));
}

void Rows::run(int rounds, Partner& partner) {
  for (int round = 0; round < rounds; ++round) {
    ping_pong_.push_back(ping_pong_ns(partner));
    for (Row& row : rows_) {
      // Workers of the row before spin for up to a millisecond after their last record.
      std::this_thread::sleep_for(std::chrono::microseconds(1500));
      row.turn();
      for (int batch = 0; batch < kBatches; ++batch) {
        const Sample sample = row.turn();
        row.host.push_back(sample.host_ns);
        if (sample.end_ns > 0) row.end.push_back(sample.end_ns);
      }
    }
  }
}

void Rows::keep(const std::string& text) {
  std::erase_if(rows_, [&](const Row& row) { return (row.group + ": " + row.name).find(text) == std::string::npos; });
}

const Row* Rows::find(const std::string& group, const std::string& name) const {
  for (const Row& row : rows_) {
    if (row.group == group && row.name == name) return &row;
  }
  return nullptr;
}

std::int64_t process_cpu_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace bench
