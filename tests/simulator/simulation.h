// Runs a program of simulated threads and the streams of a simulated device in one schedule after another.
//
// At each turn one of those that can go on does: a thread up to the next place where it sleeps or others may run, a
// stream by one record or graph node, or a host function. Who it is, `Choices` says. When nobody can go on and
// something is unfinished, that is a deadlock, and is told in words. Objects are used again by the next schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/simulated.h"
#include "drivers/sim/sim_driver.h"
#include "simulator/checker.h"
#include "simulator/choices.h"
#include "simulator/fiber.h"
#include "slipway/slipway.h"

namespace slipway::simulator {

class Simulation final : public internal::SimulatedThreads, public internal::SimObserver {
 public:
  explicit Simulation(const Device& device);
  ~Simulation();

  void add_thread(std::string name, std::function<void()> body);
  void add_graph(const ExecutableGraph& graph);
  // In simulated time waits end, once nothing else can happen. Off, they never do.
  void let_time_pass(bool passes) { time_passes_ = passes; }

  // One schedule, until nobody can go on. Empty: all went well; else what went wrong, with the choices.
  const std::string& run(Choices& choices);
  // After a deadlock: whoever sleeps is told that the time is over. Nothing can be run afterwards.
  void give_up();
  // What its threads hold is dropped, and threads of the library's own come to their ends.
  void finish();

  // --- By threads of the simulation ---
  // Lets the others go on until this holds.
  template <class Ready>
  void await(const Ready& ready) {
    sleep(
        {"condition", nullptr, 0}, [](const void* r) { return (*static_cast<const Ready*>(r))(); }, &ready,
        internal::kNoDeadline);
  }
  void pause() { point("pause", nullptr, 0, 0); }

  Checker& checker() noexcept { return checker_; }
  std::uint64_t turns() const noexcept { return turns_; }
  std::int64_t time_ns() const noexcept { return time_ns_; }

  // --- SimulatedThreads ---
  bool sleep(const internal::SimulatedWait& wait, bool (*ready)(const void*), const void* context,
             std::int64_t deadline_ns) override;
  std::int64_t now_ns() override { return time_ns_; }
  void start(std::function<void()> body, const char* name) override;
  void point(const char* what, const void* object, std::uint64_t step, std::uint32_t gate) override;
  void locked(const void* lock, bool held) override;
  // --- SimObserver ---
  void tell(const internal::WalkEvent& event) override;

 private:
  struct Thread {
    std::string name;
    std::function<void()> body;
    std::unique_ptr<Fiber> fiber;
    std::uint64_t number = 0;
    bool daemon = false;   // nobody waits for its end
    bool running = false;  // its body has begun and not ended
    bool sleeps = false;
    bool timed_out = false;
    internal::SimulatedWait wait;
    bool (*ready)(const void*) = nullptr;
    const void* context = nullptr;
    std::int64_t deadline_ns = 0;
    std::string failure;
  };
  struct StandingLane {
    const internal::Lane* lane;
    const void* progress;
    std::uint64_t count;
  };
  struct Actor {  // a thread, a lane, or for neither the next host function
    Thread* thread = nullptr;
    internal::Lane* lane = nullptr;
  };

  Thread& new_thread(std::string name, std::function<void()> body);
  bool can_go_on(Thread& thread);
  void collect();
  bool pass_time();
  void loop(Choices& choices);
  void forget(const Thread& thread);
  bool unfinished();
  // The words of a deadlock.
  std::string explain();
  std::string name_of(const internal::Lane& lane) const;
  bool next_in_cycle(const Actor& from, Actor& to, std::string& words);
  const internal::Lane* lane_with(const internal::ReplayProgram* program, std::uint64_t step);
  bool holder_of(const void* progress, std::uint64_t count, Actor& to, std::string& words);

  Device device_;
  internal::SimControl& control_;
  Checker checker_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint64_t last_number_ = 0;  // no thread has an earlier one's
  std::vector<Actor> actors_;
  std::vector<internal::Lane*> ready_;
  std::vector<StandingLane> standing_;
  std::vector<std::pair<const void*, Thread*>> locks_;
  Thread* current_ = nullptr;
  std::string problem_;
  std::uint64_t turns_ = 0;
  std::int64_t time_ns_ = 1;
  bool time_passes_ = false;
  bool giving_up_ = false;
};

}  // namespace slipway::simulator
