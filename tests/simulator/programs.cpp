// Programs that many schedules are run of. Each is what a few threads of a caller might do at once.
#include <utility>

#include "device/stream_impl.h"
#include "simulator/world.h"

namespace slipway::simulator {
namespace {

// Two steps launched open by one thread, and published by another in the other order.
std::unique_ptr<World> published_backwards() {
  auto world = std::make_unique<World>("sim:");
  Steps& steps = world->steps("late", true);
  struct Shared {
    Step first, second;
  };
  const auto shared = std::make_shared<Shared>();
  world->before = [shared] { *shared = {}; };
  World& w = *world;
  world->simulation.add_thread("launches", [&steps, shared, on = w.stream("main")] {
    shared->first = steps.open(on);
    shared->second = steps.open(on);
  });
  world->simulation.add_thread("publishes", [&w, &steps, shared] {
    w.simulation.await([&] { return shared->second.number != 0; });
    steps.publish(shared->second, static_cast<std::int64_t>(shared->second.number));
    steps.publish(shared->first, static_cast<std::int64_t>(shared->first.number));
  });
  return world;
}

// Two threads launch steps of one graph on streams of their own.
std::unique_ptr<World> two_launch(const std::string& uri, const InstantiateOptions& options) {
  auto world = std::make_unique<World>(uri);
  Steps& steps = world->steps("shared", false, options);
  for (const std::int64_t thread : {1, 2}) {
    world->simulation.add_thread("launches " + std::to_string(thread),
                                 [&steps, thread, on = world->stream("of " + std::to_string(thread))] {
                                   steps.launch(on, thread * 10);
                                   steps.launch(on, thread * 10 + 1);
                                 });
  }
  return world;
}

// One thread runs ahead as far as the slots let it.
std::unique_ptr<World> runs_ahead(const std::string& uri, unsigned depth) {
  auto world = std::make_unique<World>(uri);
  Steps& steps = world->steps("ahead", true, {.depth = depth});
  world->simulation.add_thread("launches", [&steps, on = world->stream("main")] {
    for (std::int64_t i = 1; i <= 4; ++i) steps.launch(on, i);
  });
  return world;
}

std::unique_ptr<World> branches() {
  auto world = std::make_unique<World>("sim:");
  Steps& steps = world->forked("forked");
  world->simulation.add_thread("launches", [&steps, on = world->stream("main")] {
    for (std::int64_t i = 1; i <= 3; ++i) steps.launch(on, i);
  });
  return world;
}

// A step is cancelled while another thread publishes it; then the graph goes on.
std::unique_ptr<World> cancelled() {
  auto world = std::make_unique<World>("sim:");
  world->count_steps = false;
  Steps& steps = world->steps("cancelled", true);
  struct Shared {
    Step step;
    int ended = 0;
  };
  const auto shared = std::make_shared<Shared>();
  world->before = [shared] { *shared = {}; };
  World& w = *world;
  world->simulation.add_thread("publishes", [&w, &steps, shared, on = w.stream("main")] {
    shared->step = steps.open(on);
    try {
      steps.publish(shared->step, 1);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
    }
    w.simulation.await([&] { return shared->ended == 1; });
    steps.recover();
    steps.launch(on, 2);
  });
  world->simulation.add_thread("cancels", [&w, &steps, shared] {
    w.simulation.await([&] { return shared->step.number != 0; });
    steps.graph.cancel(shared->step, "a test");
    shared->ended = 1;
  });
  return world;
}

// Two streams that wait for each other's events, with a host function between.
std::unique_ptr<World> events() {
  auto world = std::make_unique<World>("sim:");
  const auto seen = std::make_shared<Seen>();
  const Stream a = world->stream("a"), b = world->stream("b");
  const Event there = world->device.create_event(), back = world->device.create_event();
  const Kernel see_kernel = world->module.kernel("see");
  const auto note = [seen, see_kernel](const Stream& on, std::int64_t value) {
    on.launch(see_kernel, {}, Argument::bytes_of(SeenBy{seen.get()}), value);
  };
  world->simulation.add_thread("submits", [seen, a, b, there, back, note] {
    note(a, 1);
    a.mark(there);
    b.wait(there);
    note(b, 2);
    b.host_function([seen] { seen->values.push_back(3); }, "three");
    b.mark(back);
    a.wait(back);
    note(a, 4);
    back.synchronize();
  });
  world->check = [seen] {
    const bool right = seen->values == std::vector<std::int64_t>{1, 2, 3, 4};
    seen->values.clear();
    return right ? "" : "the streams ran in another order than their events say";
  };
  return world;
}

std::unique_ptr<World> updater() {
  auto world = std::make_unique<World>("sim:");
  Steps& steps = world->steps("updated", true, {.updater = true});
  world->simulation.add_thread("launches", [&steps, on = world->stream("main")] {
    for (std::int64_t i = 1; i <= 3; ++i) steps.launch(on, i);
  });
  return world;
}

// Two graphs, each launched by a thread of its own: they share the device's update stream.
std::unique_ptr<World> two_graphs(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  for (const std::string name : {"one", "two"}) {
    Steps& steps = world->steps(name, true);
    world->simulation.add_thread("launches " + name, [&steps, on = world->stream("of " + name)] {
      steps.launch(on, 7);
      steps.launch(on, 7);  // unchanged: only the gates
      steps.launch(on, 8);
    });
  }
  return world;
}

// The device refuses to rewrite something, at whatever point of a step; then the graph goes on.
std::unique_ptr<World> refused(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  world->count_steps = false;
  Steps& steps = world->steps("refused", true);
  internal::SimControl& control = *internal::sim_control(world->device.impl()->driver());
  world->before = [&control, n = std::uint64_t{0}]() mutable { control.refuse_rewrite(n++ % 4); };
  world->simulation.add_thread("launches", [&steps, on = world->stream("main"), value = std::int64_t{0}]() mutable {
    try {
      for (int i = 0; i < 3; ++i) steps.launch(on, ++value);
      on.synchronize();
    } catch (const Error& error) {
      // What the device said, or that the stream of updates has failed.
      if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kFailedPrecondition) throw;
    }
    steps.recover();
    steps.launch(on, ++value);
    on.synchronize();
  });
  return world;
}

}  // namespace

std::unique_ptr<World> two_on_one_stream() {
  auto world = std::make_unique<World>("sim:gates=resettable");
  const Stream on = world->stream("main");
  for (const std::string name : {"one", "two"}) {
    Steps& steps = world->steps(name, false);
    world->simulation.add_thread("launches " + name, [&steps, on] {
      steps.launch(on, 1);
      steps.launch(on, 2);
    });
  }
  return world;
}

const std::vector<Program>& programs() {
  static const std::vector<Program> all{
      {"published backwards", published_backwards},
      {"two threads launch", [] { return two_launch("sim:", {}); }},
      {"two threads launch, one slot", [] { return two_launch("sim:", {.depth = 1}); }},
      {"runs ahead", [] { return runs_ahead("sim:", 2); }},
      {"values first", [] { return two_launch("sim:", {.order = Order::kUpdateFirst}); }},
      {"blocking", [] { return two_launch("sim:blocking", {}); }},
      {"branches", branches},
      {"cancelled", cancelled},
      {"events", events},
      {"updater", updater},
      {"resettable, runs ahead", [] { return runs_ahead("sim:gates=resettable", 1); }},
      {"resettable, two threads launch", [] { return two_launch("sim:gates=resettable", {}); }},
      {"resettable, two graphs", [] { return two_graphs("sim:gates=resettable"); }},
      {"resettable, two graphs, wait before", [] { return two_graphs("sim:gates=resettable,wait=before"); }},
      {"resettable, record first", [] { return two_graphs("sim:gates=resettable,record_first=1"); }},
      {"resettable, blocking", [] { return two_launch("sim:gates=resettable,blocking", {}); }},
      {"resettable, refused", [] { return refused("sim:gates=resettable"); }},
      {"resettable, record first, refused", [] { return refused("sim:gates=resettable,record_first=1"); }},
  };
  return all;
}

}  // namespace slipway::simulator
