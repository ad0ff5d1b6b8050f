// How everything here is timed: rows take turns, each gives one sample per turn, and only medians are kept. So all
// sides of a comparison meet the same moments of the machine, and stalls of a few milliseconds do not count.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "slipway/device.h"

namespace bench {

inline std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

double quantile(std::vector<double> values, double which);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// A benchmark that cannot show that its work was done ends the program.
inline void prove(bool done, const std::string& what) {
  if (!done) throw std::runtime_error("the work was not done: " + what);
}

// Which processors the two sides of every comparison run on. Left alone, the scheduler of the machine used here put a
// woken worker on its waker's processor while others were busy: then a batch was submitted first and run afterwards,
// and 40 us of scheduling were counted as 40 ns a launch.
class Sides {
 public:
  enum Side { kSubmitter, kWorker, kBoth };
  // Picks two of the processors this process may use, and puts the calling thread on the first. One processor: no
  // effect.
  static void choose() noexcept;
  static bool chosen() noexcept;
  static unsigned worker() noexcept;  // its processor; only when chosen
  static void put_this_thread(Side side) noexcept;
};
// A device whose workers are on the other side; for URIs of drivers with workers.
slipway::Device open_device(std::string uri);

// Threads that are started within it run on that side; what they are started by goes on as the submitter.
class StartsOn {
 public:
  explicit StartsOn(Sides::Side side) noexcept { Sides::put_this_thread(side); }
  ~StartsOn() { Sides::put_this_thread(Sides::kSubmitter); }
  StartsOn(const StartsOn&) = delete;
  StartsOn& operator=(const StartsOn&) = delete;
};

// A second thread that sleeps unless it is given something to do, so that it disturbs no other row.
class Partner {
 public:
  Partner();
  ~Partner();
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  void start(std::function<void()> work);  // returns once it runs
  void join();                             // waits until it is done

 private:
  void main();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::atomic<bool> running_{false};
  bool stop_ = false;
  std::thread thread_;
};

// One way of one cache line between this thread and the partner's processor, ns. Under 110 is "near".
double ping_pong_ns(Partner& partner);
constexpr double kNear_ns = 110;

// What one turn of a row took, in ns per item: on the submitting thread, and until all of it had run.
struct Sample {
  double host_ns = 0;
  double end_ns = 0;  // 0: not measured
};

struct Row {
  std::string group;
  std::string name;
  std::function<Sample()> turn;
  std::vector<double> host{}, end{};

  double host_ns() const { return median(host); }
  double end_ns() const { return median(end); }
  // The fastest tenth ends here: what a peer can do when nothing disturbs it.
  double undisturbed_end_ns() const { return quantile(end, 0.1); }
};

class Rows {
 public:
  void add(std::string group, std::string name, std::function<Sample()> turn) {
    rows_.push_back({std::move(group), std::move(name), std::move(turn)});
  }
  // Every row `rounds` times, in turns of one untimed and `kBatches` timed batches. Between two rows all spinning
  // threads get the time to park.
  void run(int rounds, Partner& partner);
  // Leaves only the rows whose group and name, with a colon between, contain `text`.
  void keep(const std::string& text);
  const Row* find(const std::string& group, const std::string& name) const;
  const std::vector<Row>& all() const noexcept { return rows_; }
  const std::vector<double>& ping_pong() const noexcept { return ping_pong_; }  // one per round

  static constexpr int kBatches = 5;

 private:
  std::vector<Row> rows_;
  std::vector<double> ping_pong_;
};

// One thread's share of the processors' time, ns.
std::int64_t process_cpu_ns() noexcept;

}  // namespace bench
