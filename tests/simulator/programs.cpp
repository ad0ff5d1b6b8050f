// Programs that many schedules are run of. Each is what a few threads of a caller might do at once.
#include <utility>

#include "device/stream_impl.h"
#include "simulator/world.h"

namespace slipway::simulator {
namespace {

// Two steps launched open by one thread, and published by another in the other order.
std::unique_ptr<World> published_backwards(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
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

// Where launches block: one thread launches behind a step that another launched open and a third one publishes.
std::unique_ptr<World> waits_for_another() {
  auto world = std::make_unique<World>("sim:blocking");
  Steps& steps = world->steps("late", true);
  const auto open = std::make_shared<Step>();
  world->before = [open] { *open = {}; };
  World& w = *world;
  world->simulation.add_thread("opens", [&steps, open, on = w.stream("main")] { *open = steps.open(on); });
  world->simulation.add_thread("publishes", [&w, &steps, open] {
    w.simulation.await([&] { return open->number != 0; });
    steps.publish(*open, 1);
  });
  world->simulation.add_thread("launches", [&w, &steps, open, on = w.stream("another")] {
    w.simulation.await([&] { return open->number != 0; });
    steps.launch(on, 2);
    steps.publish(steps.open(on), 3);
  });
  return world;
}

// Two threads launch steps of these values, which are 10 and 20 more, on streams of their own.
void two_threads(World& world, Steps& steps, const std::vector<std::int64_t>& values = {0, 1}) {
  for (const std::int64_t thread : {1, 2}) {
    world.simulation.add_thread("launches " + std::to_string(thread),
                                [&steps, thread, values, on = world.stream("of " + std::to_string(thread))] {
                                  for (const std::int64_t value : values) steps.launch(on, thread * 10 + value);
                                });
  }
}

// Two threads launch steps of one graph.
std::unique_ptr<World> two_launch(const std::string& uri, const InstantiateOptions& options) {
  auto world = std::make_unique<World>(uri);
  Steps& steps = world->steps("shared", false, options);
  two_threads(*world, steps);
  return world;
}

// One thread runs ahead as far as the slots let it.
std::unique_ptr<World> runs_ahead(const std::string& uri, const InstantiateOptions& options) {
  auto world = std::make_unique<World>(uri);
  Steps& steps = world->steps("ahead", true, options);
  world->simulation.add_thread("launches", [&steps, on = world->stream("main")] {
    for (std::int64_t i = 1; i <= 4; ++i) steps.launch(on, i);
  });
  return world;
}

std::unique_ptr<World> branches(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
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

// A loop of no turn, one or two, step after step, whose body needs the value, and 1000 more; and a node behind it.
std::unique_ptr<World> loop(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  World& w = *world;
  const auto turns = [](std::uint64_t step) { return step % 3; };
  Steps& steps = w.captured("looping", [&w](Capture& capture, const Stream& on, Steps& s) {
    on.launch(w.module.kernel("next_turns"), {}, &s.turns, &s.counted);
    capture.while_node(on, &s.turns, [&](const Stream& body) {
      w.note(body, s);
      w.note_later(capture, body, s, "later");
      body.launch(w.module.kernel("count_down"), {}, &s.turns);
    });
    w.note(on, s);
  });
  steps.first.wanted = [turns](std::uint64_t step, std::int64_t value) {
    return std::vector<std::int64_t>(turns(step) + 1, value);
  };
  steps.second.wanted = [turns](std::uint64_t step, std::int64_t value) {
    return std::vector<std::int64_t>(turns(step), value + 1000);
  };
  two_threads(w, steps, {0, 0, 1});  // where updates are work, the second time only the gates
  return world;
}

// A body that two steps of three take, the only one that needs the value, and another with 1000 more that the third
// does. One slot: a step that takes none must not pass before it is published.
std::unique_ptr<World> taken_and_not(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  World& w = *world;
  const auto work = [&w](Capture& capture, const Stream& on, Steps& s) {
    on.launch(w.module.kernel("next_turns"), {}, &s.turns, &s.counted);
    capture.if_node(on, &s.turns, [&](const Stream& body) { w.note(body, s); });
    capture.if_else_node(
        on, &s.turns, [&](const Stream& body) { body.launch(w.module.kernel("count_down"), {}, &s.turns); },
        [&](const Stream& body) { w.note_later(capture, body, s, "later"); });
  };
  Steps& steps = w.captured("asking", work, {.depth = 1});
  steps.first.wanted = [](std::uint64_t step, std::int64_t value) {
    return std::vector<std::int64_t>(step % 3 != 0 ? 1 : 0, value);
  };
  steps.second.wanted = [](std::uint64_t step, std::int64_t value) {
    return std::vector<std::int64_t>(step % 3 == 0 ? 1 : 0, value + 1000);
  };
  two_threads(w, steps);
  return world;
}

// A graph with a value and an operation is launched in the capture of another, between nodes of its own.
std::unique_ptr<World> nested(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  World& w = *world;
  const auto inner = std::make_shared<ExecutableGraph>();
  Steps& steps = w.captured("outer", [&w, inner](Capture& capture, const Stream& on, Steps& s) {
    const Stream own = w.stream("capturing inner");
    Capture inside(own, "inner");
    Steps child;
    child.value = inside.parameter<std::int64_t>("value", -5);
    own.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{&s.first}), child.value);
    const Operation later =
        inside.operation("later", {child.value}, {OutputSpec::argument(ArgKind::kI64)},
                         [](OperationCall& call) { call.set(0, call.input<std::int64_t>(0) + 1000); });
    own.launch(w.module.kernel("see"), {}, Argument::bytes_of(SeenBy{&s.second}), later.output<std::int64_t>(0));
    *inner = inside.end().instantiate();
    w.note(on, s);
    inner->launch(on, inner->values());
    w.note_later(capture, on, s, "later too");
  });
  steps.more.push_back(steps.definition.parameter<std::int64_t>("inner/value"));
  const auto twice = [](std::int64_t more) {
    return [more](std::uint64_t, std::int64_t value) { return std::vector<std::int64_t>(2, value + more); };
  };
  steps.first.wanted = twice(0);
  steps.second.wanted = twice(1000);
  two_threads(w, steps);
  return world;
}

// What a step reads is elsewhere from its second step on, and back again; where it is not, there is -1. Another thread
// launches meanwhile: its steps read one place or the other, never half of each.
std::unique_ptr<World> rebound(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  World& w = *world;
  struct Places {
    Memory here, there;
  };
  const auto places = std::make_shared<Places>(Places{w.device.allocate(64), w.device.allocate(64)});
  const auto write = [](const Memory& memory, std::int64_t value) {
    auto* const at = reinterpret_cast<std::int64_t*>(memory.address());
    at[0] = at[1] = value;
  };
  write(places->here, 500);
  Steps& steps = w.captured("rebound", [&w, places](Capture&, const Stream& on, Steps& s) {
    const auto see_at = [&](std::uint64_t element) {
      on.launch(w.module.kernel("see_at"), {}, Argument::bytes_of(SeenBy{&s.second}),
                places->here.tensor<std::int64_t>(element));
    };
    see_at(0);
    w.note(on, s);
    see_at(1);
  });
  steps.second.wanted = [](std::uint64_t, std::int64_t) { return std::vector<std::int64_t>(2, 500); };
  w.simulation.add_thread("rebinds", [&steps, places, write, on = w.stream("main")] {
    const auto move = [&](const Memory& from, const Memory& to) {
      write(to, 500);
      steps.graph.rebind(from, to);
      write(from, -1);
    };
    steps.launch(on, 1);
    move(places->here, places->there);
    steps.launch(on, 2);
    move(places->there, places->here);
    steps.launch(on, 3);
  });
  w.simulation.add_thread("launches too", [&steps, on = w.stream("other")] {
    steps.launch(on, 11);
    steps.launch(on, 12);
  });
  return world;
}

// Each step takes one position from a generator, in the order of the launches, whatever thread they come from.
std::unique_ptr<World> draws(const std::string& uri) {
  auto world = std::make_unique<World>(uri);
  World& w = *world;
  const Generator generator(7);
  Steps& steps = w.captured("drawing", [&w, generator](Capture&, const Stream& on, Steps& s) {
    const RandomDraw draw = generator.take(on, 1);
    w.note(on, s);
    on.launch(w.module.kernel("see_word"), {}, Argument::bytes_of(SeenBy{&s.second}), draw.seed);
    on.launch(w.module.kernel("see_word"), {}, Argument::bytes_of(SeenBy{&s.second}), draw.offset);
  });
  steps.second.wanted = [](std::uint64_t step, std::int64_t) {
    return std::vector<std::int64_t>{7, static_cast<std::int64_t>(step) - 1};
  };
  two_threads(w, steps, {0, 0, 1});
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
      {"published backwards", [] { return published_backwards("sim:"); }},
      {"two threads launch", [] { return two_launch("sim:", {}); }},
      {"two threads launch, one slot", [] { return two_launch("sim:", {.depth = 1}); }},
      {"runs ahead", [] { return runs_ahead("sim:", {.depth = 2}); }},
      {"values first", [] { return two_launch("sim:", {.order = Order::kUpdateFirst}); }},
      {"blocking", [] { return two_launch("sim:blocking", {}); }},
      {"blocking, published late", [] { return published_backwards("sim:blocking"); }},
      {"blocking, behind an open step", waits_for_another},
      {"branches", [] { return branches("sim:"); }},
      {"cancelled", cancelled},
      {"events", events},
      {"updater", updater},
      {"resettable, runs ahead", [] { return runs_ahead("sim:gates=resettable", {}); }},
      {"resettable, two threads launch", [] { return two_launch("sim:gates=resettable", {}); }},
      {"resettable, two graphs", [] { return two_graphs("sim:gates=resettable"); }},
      {"resettable, two graphs, wait before", [] { return two_graphs("sim:gates=resettable,wait=before"); }},
      {"resettable, record first", [] { return two_graphs("sim:gates=resettable,record_first=1"); }},
      {"resettable, blocking", [] { return two_launch("sim:gates=resettable,blocking", {}); }},
      {"resettable, refused", [] { return refused("sim:gates=resettable"); }},
      {"resettable, record first, refused", [] { return refused("sim:gates=resettable,record_first=1"); }},
      {"resettable, while with a gate inside", [] { return loop("sim:gates=resettable"); }},
      {"resettable, if with a gate inside", [] { return taken_and_not("sim:gates=resettable"); }},
      {"counting, while with a value in its body", [] { return loop("sim:"); }},
      {"counting, if with a value in a body", [] { return taken_and_not("sim:"); }},
      {"nested graph with values", [] { return nested("sim:"); }},
      {"resettable, nested graph with values", [] { return nested("sim:gates=resettable"); }},
      {"cut tier, two threads", [] { return two_launch("sim:", {.tier = Tier::kCut}); }},
      {"cut tier, runs ahead", [] { return runs_ahead("sim:", {.depth = 2, .tier = Tier::kCut}); }},
      {"resettable, forked", [] { return branches("sim:gates=resettable"); }},
      {"rebound between steps", [] { return rebound("sim:"); }},
      {"resettable, rebound between steps", [] { return rebound("sim:gates=resettable"); }},
      {"random numbers", [] { return draws("sim:"); }},
      {"resettable, random numbers", [] { return draws("sim:gates=resettable"); }},
  };
  return all;
}

}  // namespace slipway::simulator
