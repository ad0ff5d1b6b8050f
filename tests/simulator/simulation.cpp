#include "simulator/simulation.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "device/stream_impl.h"
#include "graph/executable.h"

namespace slipway::simulator {

using internal::Lane;
using internal::SimulatedWait;
using internal::t_simulated;

namespace {

internal::SimControl& control_of(const Device& device) {
  internal::SimControl* const control = internal::sim_control(device.impl()->driver());
  if (!control) throw std::logic_error("a simulation needs a device of the driver sim");
  return *control;
}

constexpr std::uint64_t kMostTurns = 100'000;  // of one schedule: far more than any has

}  // namespace

Simulation::Simulation(const Device& device) : device_(device), control_(control_of(device)) { control_.observe(this); }

Simulation::~Simulation() {
  t_simulated = nullptr;
  if (!giving_up_) control_.observe(nullptr);  // else its streams stand for ever: closing the device discards them
}

Simulation::Thread& Simulation::new_thread(std::string name, std::function<void()> body) {
  auto thread = std::make_unique<Thread>();
  thread->name = std::move(name);
  thread->body = std::move(body);
  thread->number = ++last_number_;
  Thread* const t = thread.get();
  thread->fiber = std::make_unique<Fiber>([this, t] {
    for (;;) {
      try {
        t->body();
      } catch (const std::exception& error) {
        t->failure = error.what();
      }
      t->running = false;
      if (t->daemon) return;
      t->fiber->leave();  // until the next schedule
    }
  });
  threads_.push_back(std::move(thread));
  return *t;
}

void Simulation::add_thread(std::string name, std::function<void()> body) {
  new_thread(std::move(name), std::move(body));
}

void Simulation::start(std::function<void()> body, const char* name) {
  Thread& thread = new_thread(name, std::move(body));
  thread.daemon = true;
  thread.running = true;
}

void Simulation::add_graph(const ExecutableGraph& graph) {
  const internal::DefinitionImpl& definition = graph.impl()->core->definition();
  checker_.add(graph.impl()->core->program(), definition.name,
               static_cast<std::uint32_t>(definition.operations.size()) + 1,
               static_cast<std::uint32_t>(definition.serial.groups.size()));
}

// --- What threads call ---

bool Simulation::sleep(const SimulatedWait& wait, bool (*ready)(const void*), const void* context,
                       std::int64_t deadline_ns) {
  if (ready(context)) return true;
  if (!current_) {
    if (problem_.empty())
      problem_ = std::string("a stream slept for a ") + wait.what + ", which would hold up a worker";
    return true;
  }
  Thread& thread = *current_;
  if (std::string_view(wait.what) != "lock") checker_.sleeps(thread.number, wait.what);
  thread.sleeps = true;
  thread.timed_out = false;
  thread.wait = wait;
  thread.ready = ready;
  thread.context = context;
  thread.deadline_ns = deadline_ns;
  thread.fiber->leave();
  return !thread.timed_out;
}

void Simulation::point(const char* what, const void* object, std::uint64_t step, std::uint32_t gate) {
  if (!current_) return;
  checker_.point(what, object, step, gate, current_->number);
  if (!giving_up_) current_->fiber->leave();
}

void Simulation::locked(const void* lock, bool held) {
  if (held) locks_.emplace_back(lock, current_);
  else std::erase_if(locks_, [&](const auto& l) { return l.first == lock; });
}

void Simulation::tell(const internal::WalkEvent& event) {
  if (event.what == internal::WalkEvent::What::kBlocks) {
    std::erase_if(standing_, [&](const StandingLane& s) { return s.lane == event.lane; });
    standing_.push_back({event.lane, event.object, event.step});
  }
  checker_.tell(event);
}

// --- Scheduling ---

bool Simulation::can_go_on(Thread& thread) {
  if (!thread.running) return false;
  if (!thread.sleeps) return true;
  if (!thread.ready(thread.context)) return false;
  thread.sleeps = false;
  return true;
}

void Simulation::collect() {
  actors_.clear();
  for (auto& thread : threads_) {
    if (can_go_on(*thread)) actors_.push_back({thread.get(), nullptr});
  }
  ready_.clear();
  control_.engine().list_ready(ready_);
  // In the order of their addresses they would differ from run to run: they come as they became ready.
  for (Lane* lane : ready_) actors_.push_back({nullptr, lane});
  if (control_.engine().host_thread().has_posted()) actors_.push_back({nullptr, nullptr});
}

// Nobody can go on: the first of those that wait for a time gets it.
bool Simulation::pass_time() {
  if (!time_passes_) return false;
  Thread* first = nullptr;
  for (auto& thread : threads_) {
    if (!thread->running || !thread->sleeps || thread->deadline_ns == internal::kNoDeadline) continue;
    if (!first || thread->deadline_ns < first->deadline_ns) first = thread.get();
  }
  if (!first) return false;
  time_ns_ = std::max(time_ns_, first->deadline_ns);
  first->sleeps = false;
  first->timed_out = true;
  return true;
}

void Simulation::loop(Choices& choices) {
  for (std::uint64_t turn = 0; problem_.empty() && checker_.problem().empty(); ++turn) {
    collect();
    if (actors_.empty()) {
      if (!unfinished() || !pass_time()) return;
      continue;
    }
    if (turn == kMostTurns) {
      problem_ = "it goes on for ever: " + std::to_string(turn) + " turns";
      return;
    }
    ++turns_;
    const Actor actor = actors_[choices.choose(static_cast<std::uint32_t>(actors_.size()))];
    if (actor.thread) {
      current_ = actor.thread;
      actor.thread->fiber->resume();
      current_ = nullptr;
      if (actor.thread->daemon && actor.thread->fiber->ended()) forget(*actor.thread);
    } else if (actor.lane) {
      control_.engine().run_turn(*actor.lane);
    } else {
      control_.engine().host_thread().run_next();
    }
  }
}

// A daemon that has ended: what it ended with is told, as it would have ended the process.
void Simulation::forget(const Thread& thread) {
  if (problem_.empty() && !thread.failure.empty()) {
    problem_ = "thread '" + thread.name + "' threw: " + thread.failure;
  }
  std::erase_if(threads_, [&](const auto& t) { return t.get() == &thread; });
}

bool Simulation::unfinished() {
  for (const auto& thread : threads_) {
    if (thread->running && !thread->daemon) return true;
  }
  bool any = false;
  control_.engine().for_each_lane([&](const Lane& lane) { any = any || lane.has_work(); });
  return any;
}

const std::string& Simulation::run(Choices& choices) {
  problem_.clear();
  for (auto& thread : threads_) {
    if (!thread->daemon) thread->running = true;
    thread->failure.clear();
  }
  SimulatedThreads* const outer = std::exchange(t_simulated, this);
  loop(choices);
  if (problem_.empty()) problem_ = checker_.problem();
  if (problem_.empty()) {
    if (unfinished()) problem_ = explain();
    else checker_.drained();
  }
  if (problem_.empty()) problem_ = checker_.problem();
  for (const auto& thread : threads_) {
    if (problem_.empty() && !thread->failure.empty()) {
      problem_ = "thread '" + thread->name + "' was told: " + thread->failure;
    }
  }
  t_simulated = outer;
  if (!problem_.empty()) problem_ += "\n  (" + choices.text() + ")";
  return problem_;
}

void Simulation::give_up() {
  SimulatedThreads* const outer = std::exchange(t_simulated, this);
  giving_up_ = true;
  checker_.forget_problem();
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    bool any = false;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = *threads_[i];
      if (!thread.running || (thread.daemon && thread.sleeps)) continue;
      if (thread.sleeps && !can_go_on(thread)) {
        if (std::string_view(thread.wait.what) == "lock") continue;
        thread.sleeps = false;
        thread.timed_out = true;
        time_ns_ = std::max(time_ns_, thread.deadline_ns == internal::kNoDeadline ? 0 : thread.deadline_ns);
      }
      any = true;
      current_ = &thread;
      thread.fiber->resume();
      current_ = nullptr;
    }
    if (!any) break;
  }
  t_simulated = outer;
}

void Simulation::finish() {
  SimulatedThreads* const outer = std::exchange(t_simulated, this);
  for (auto& thread : threads_) {
    if (!thread->daemon && !thread->running) thread->body = nullptr;
  }
  for (bool any = true; any;) {
    any = false;
    for (std::size_t i = threads_.size(); i-- > 0;) {
      if (!threads_[i]->daemon || !can_go_on(*threads_[i])) continue;
      any = true;
      current_ = threads_[i].get();
      current_->fiber->resume();
      if (current_->fiber->ended()) forget(*current_);
      current_ = nullptr;
      break;
    }
  }
  t_simulated = outer;
}

// --- Words ---

std::string Simulation::name_of(const Lane& lane) const {
  for (const auto& stream : device_.impl()->streams()) {
    if (&stream->driver_stream().sink() == &lane) return "stream '" + stream->name() + "'";
  }
  const auto& updates = device_.impl()->updates().stream;
  if (updates && &updates->sink() == &lane) return "the update stream";
  return "the stream of a branch";
}

const Lane* Simulation::lane_with(const internal::ReplayProgram* program, std::uint64_t step) {
  const Lane* found = nullptr;
  control_.engine().for_each_lane([&](const Lane& lane) {
    std::uint64_t at = lane.read_position.load(std::memory_order_relaxed);
    for (const std::uint64_t end = lane.published(); at != end;) {
      const internal::RecordHeader& header = lane.at(at);
      if (header.kind == internal::RecordKind::kReplay) {
        const auto& replay = internal::record_cast<internal::ReplayRecord>(header);
        if (replay.program == program && replay.step == step && replay.branch == 0) found = &lane;
      }
      at += header.size_bytes;
    }
  });
  return found;
}

// Who could bring a progress to that count, and what it is, in words.
bool Simulation::holder_of(const void* progress, std::uint64_t count, Actor& to, std::string& words) {
  for (Checker::Graph& graph : checker_.graphs()) {
    internal::ReplayProgram& program = *graph.program;
    const std::string of = " of graph '" + graph.name + "'";
    if (progress == &program.done()) {
      words = "for step " + std::to_string(count) + of + " to end";
      to.lane = const_cast<Lane*>(lane_with(&program, count));
      if (!to.lane) words += ", which is in no stream";
      return true;
    }
    if (progress == &program.sides()) {
      words = "for the branches of step " + std::to_string(count) + of;
      return true;
    }
    for (std::uint32_t i = 0; i < program.layout().gate_count; ++i) {
      const bool resettable = program.layout().resettable && progress == &program.event(i).progress();
      if (progress != &program.gate(i) && !resettable) continue;
      const std::uint64_t step = resettable ? graph.running : count;
      words = "at gate " + std::to_string(i) + of + " in step " + std::to_string(step);
      if (resettable) {
        const auto& updates = device_.impl()->updates().stream;
        if (updates) to.lane = const_cast<Lane*>(static_cast<const Lane*>(&updates->sink()));
        if (to.lane && !to.lane->has_work()) {
          words += ", which no update in the update stream sets";
          to.lane = nullptr;
        }
        if (to.lane) return true;
      }
      const std::uint64_t owner = graph.launched_by[step % graph.launched_by.size()];
      for (auto& thread : threads_) {
        if (thread->number != owner) continue;
        words += ", which thread '" + thread->name + "' launched" + (thread->running ? "" : " and which has ended");
        if (thread->running) to.thread = thread.get();
      }
      return true;
    }
  }
  bool found = false;
  control_.engine().for_each_lane([&](Lane& lane) {
    if (progress != &lane.progress() && progress != static_cast<const internal::Ring*>(&lane)) return;
    words = (progress == &lane.progress() ? "for a mark in " : "for room in ") + name_of(lane);
    to.lane = &lane;
    found = true;
  });
  if (!found) words = "for something that nobody here brings";
  return found;
}

bool Simulation::next_in_cycle(const Actor& from, Actor& to, std::string& words) {
  std::string what;
  if (from.lane) {
    const auto standing =
        std::find_if(standing_.begin(), standing_.end(), [&](const StandingLane& s) { return s.lane == from.lane; });
    words = name_of(*from.lane) + " waits ";
    if (standing == standing_.end()) {
      words += "for a host function";
      return false;
    }
    (void)holder_of(standing->progress, standing->count, to, what);
    words += what;
    return to.lane || to.thread;
  }
  words = "thread '" + from.thread->name + "' waits ";
  const std::string_view kind = from.thread->wait.what;
  if (kind == "lock") {
    words += "for a lock";
    for (const auto& [lock, holder] : locks_) {
      if (lock != from.thread->wait.object || !holder) continue;
      words += " that thread '" + holder->name + "' holds";
      to.thread = holder;
    }
    return to.thread != nullptr;
  }
  if (kind != "progress") {
    words += "for a condition of its own";
    return false;
  }
  (void)holder_of(from.thread->wait.object, from.thread->wait.number, to, what);
  words += what;
  return to.lane || to.thread;
}

std::string Simulation::explain() {
  std::vector<Actor> starts;
  for (auto& thread : threads_) {
    if (thread->running && !thread->daemon) starts.push_back({thread.get(), nullptr});
  }
  control_.engine().for_each_lane([&](Lane& lane) {
    if (lane.has_work()) starts.push_back({nullptr, &lane});
  });
  std::string best;
  for (const Actor& start : starts) {
    std::vector<Actor> seen;
    std::string chain;
    Actor at = start;
    for (;;) {
      const auto same = [&](const Actor& a) { return a.thread == at.thread && a.lane == at.lane; };
      if (const auto it = std::find_if(seen.begin(), seen.end(), same); it != seen.end()) {
        // Only what is in the cycle.
        std::string words, cycle;
        for (auto member = it; member != seen.end(); ++member) {
          Actor ignored;
          (void)next_in_cycle(*member, ignored, words);
          cycle += (cycle.empty() ? "" : "; ") + words;
        }
        // Whoever published instead may wait for one of them.
        for (auto& thread : threads_) {
          const auto is_this = [&](const Actor& a) { return a.thread == thread.get(); };
          if (!thread->running || thread->daemon || std::any_of(it, seen.end(), is_this)) continue;
          Actor ignored;
          (void)next_in_cycle({thread.get(), nullptr}, ignored, words);
          cycle += "; beside it " + words;
        }
        return "deadlock, a cycle: " + cycle;
      }
      seen.push_back(at);
      Actor next;
      std::string words;
      const bool goes_on = next_in_cycle(at, next, words);
      chain += (chain.empty() ? "" : "; ") + words;
      if (!goes_on) break;
      at = next;
    }
    if (best.empty() || chain.size() > best.size()) best = chain;
  }
  return "deadlock: " + best;
}

}  // namespace slipway::simulator
