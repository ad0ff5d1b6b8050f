#include "simulator/world.h"

#include <utility>

#include "device/stream_impl.h"
#include "graph/executable.h"

namespace slipway::simulator {

World::World(const std::string& uri)
    : device(Device::open(uri)),
      simulation(device),
      module(
          device.load_table({kernel<&see>("see"), kernel<&see_word>("see_word"), kernel<&see_at>("see_at"),
                             kernel<&joined>("joined"), kernel<&nothing>("nothing"), kernel<&next_turns>("next_turns"),
                             kernel<&count_down>("count_down"), kernel<&fails>("fails")})) {}

World::~World() {
  graphs_.clear();  // notices that nothing more is published
  before = nullptr;
  check = nullptr;
  simulation.finish();
}

void Steps::recover() {
  try {
    graph.wait({graph.impl()->core->program().begun()});
  } catch (const Error&) {
    // Why it did not run.
  }
  graph.recover();
}

Stream World::stream(const std::string& name) {
  StreamOptions options;
  options.name = name;
  return device.create_stream(options);
}

Steps& World::captured(const std::string& name, const Work& work, const InstantiateOptions& options) {
  graphs_.push_back(std::make_unique<Steps>());
  Steps& steps = *graphs_.back();
  const Stream origin = stream("capturing " + name);
  Capture capture(origin, name);
  steps.value = capture.parameter<std::int64_t>("value");
  work(capture, origin, steps);
  steps.definition = capture.end();
  steps.graph = steps.definition.instantiate(options);
  steps.values = steps.graph.values();
  simulation.add_graph(steps.graph);
  return steps;
}

void World::note(const Stream& stream, Steps& steps) const {
  stream.launch(module.kernel("see"), {}, Argument::bytes_of(SeenBy{&steps.first}), steps.value);
}

void World::note_later(Capture& capture, const Stream& stream, Steps& steps, const std::string& operation) const {
  const Operation later =
      capture.operation(operation, {steps.value}, {OutputSpec::argument(ArgKind::kI64)},
                        [](OperationCall& call) { call.set(0, call.input<std::int64_t>(0) + 1000); });
  stream.launch(module.kernel("see"), {}, Argument::bytes_of(SeenBy{&steps.second}), later.output<std::int64_t>(0));
}

Steps& World::steps(const std::string& name, bool with_operation, const InstantiateOptions& options) {
  const auto work = [&](Capture& capture, const Stream& origin, Steps& steps) {
    origin.launch(module.kernel("nothing"), {}, static_cast<std::int32_t*>(nullptr));
    note(origin, steps);
    if (!with_operation) return;
    origin.launch(module.kernel("nothing"), {}, static_cast<std::int32_t*>(nullptr));
    note_later(capture, origin, steps, "later");
  };
  return captured(name, work, options);
}

Steps& World::forked(const std::string& name, const InstantiateOptions& options) {
  const Stream side = stream("side of " + name);
  const Event forks = device.create_event(), joins = device.create_event();
  const auto work = [&](Capture&, const Stream& origin, Steps& steps) {
    origin.mark(forks);
    side.wait(forks);
    note(side, steps);
    side.mark(joins);
    origin.wait(joins);
    origin.launch(module.kernel("joined"), {}, Argument::bytes_of(SeenBy{&steps.first}),
                  Argument::bytes_of(SeenBy{&steps.second}));
  };
  return captured(name, work, options);
}

namespace {
std::string listed(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += ' ' + std::to_string(value);
  return text.empty() ? " nothing" : text;
}
}  // namespace

std::string World::check_values() {
  std::string wrong;
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    Steps& steps = *graphs_[g];
    const std::uint64_t ended = simulation.checker().graphs()[g].ended;
    const std::size_t ran = ended - steps.ended;
    const auto compare_wanted = [&](const Seen& seen) {
      std::vector<std::int64_t> wanted;
      for (std::size_t i = 0; i < steps.expected.size(); ++i) {
        const std::vector<std::int64_t> of_step = seen.wanted(steps.ended + i + 1, steps.expected[i]);
        wanted.insert(wanted.end(), of_step.begin(), of_step.end());
      }
      if (seen.values == wanted && ran == steps.expected.size()) return;
      wrong = std::to_string(ran) + " steps of graph '" + simulation.checker().graphs()[g].name + "' behind step " +
              std::to_string(steps.ended) + " ran with" + listed(seen.values) + " instead of" + listed(wanted);
    };
    const auto compare = [&](const Seen& by, std::int64_t more) {
      if (by.wanted) return compare_wanted(by);
      const std::vector<std::int64_t>& seen = by.values;
      if (seen.empty() && (more != 0 || ran == 0)) return;
      const std::size_t per_step = ran == 0 ? 1 : seen.size() / ran;
      if (seen.size() != ran * per_step || per_step == 0 || ran != steps.expected.size()) {
        wrong = std::to_string(seen.size()) + " values were seen in " + std::to_string(ran) + " steps";
      }
      for (std::size_t i = 0; i < seen.size() && wrong.empty(); ++i) {
        const std::int64_t expected = steps.expected[i / per_step] + more;
        if (seen[i] == expected) continue;
        wrong = "step " + std::to_string(steps.ended + i / per_step + 1) + " of graph '" +
                simulation.checker().graphs()[g].name + "' ran with " + std::to_string(seen[i]) + " instead of " +
                std::to_string(expected);
      }
    };
    if (wrong.empty()) compare(steps.first, 0);
    if (wrong.empty()) compare(steps.second, 1000);
    steps.first.values.clear();
    steps.second.values.clear();
    steps.expected.clear();
    steps.ended = ended;
  }
  return wrong;
}

std::string World::run(Choices& choices) {
  if (before) before();
  std::string problem = simulation.run(choices);
  const std::string values = check_values();
  if (problem.empty() && count_steps) problem = values;
  if (problem.empty() && check) problem = check();
  if (!problem.empty() && problem.find("choices") == std::string::npos) problem += "\n  (" + choices.text() + ")";
  return problem;
}

void give_up(std::unique_ptr<World> world) {
  world->simulation.give_up();
  const Device device = world->device;
  world.reset();
  try {
    device.close(WaitLimit(0));
  } catch (const Error&) {
    // What stood for ever was discarded.
  }
}

std::string search(const MakeWorld& make, std::uint64_t schedules, std::uint64_t first_seed) {
  std::unique_ptr<World> world = make();
  Choices choices;
  for (std::uint64_t i = 0; i < schedules; ++i) {
    choices.seed(first_seed + i);
    std::string problem = world->run(choices);
    if (problem.empty()) continue;
    give_up(std::move(world));
    return problem;
  }
  return {};
}

std::uint64_t search_all(const MakeWorld& make, std::uint64_t most, std::string& problem) {
  std::unique_ptr<World> world = make();
  Choices choices;
  choices.list({});
  std::uint64_t count = 0;
  do {
    ++count;
    problem = world->run(choices);
    if (!problem.empty()) {
      give_up(std::move(world));
      return count;
    }
    if (count == most) {
      problem = "there are more than " + std::to_string(most) + " schedules";
      return count;
    }
  } while (choices.next());
  return count;
}

}  // namespace slipway::simulator
