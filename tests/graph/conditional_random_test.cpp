// Random programs of conditional nodes, nested and with gates anywhere, against what the host expects of them.
// SLIPWAY_PROGRAMS=N and SLIPWAY_SEED=S run more of them, or others.
#include <cstdlib>
#include <random>

#include "graph_fixture.h"

namespace slipway::graph_tests {
namespace {

std::uint32_t number_from(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

std::uint32_t pick(std::mt19937& random, std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); }

// A value that is logged, or a conditional node. Each of the latter has a cell that its parameter is put into before.
struct Part {
  enum Kind { kLog, kIf, kIfElse, kSwitch, kWhile } kind = kLog;
  std::uint32_t number = 0;  // of the source of what is logged, or of the cell
  std::vector<std::vector<Part>> bodies{};
};
using Parts = std::vector<Part>;

struct Program {
  static constexpr std::uint32_t kSources = 5;  // a parameter, and operations on it
  static constexpr std::uint32_t kMostCells = 12;
  Parts parts;
  std::uint32_t cells = 0;
};

Parts random_parts(std::mt19937& random, Program& program, int depth) {
  Parts parts(1 + pick(random, 3));
  for (Part& part : parts) {
    part.number = pick(random, Program::kSources);
    if (depth == 0 || program.cells == Program::kMostCells || pick(random, 3) == 0) continue;
    part.kind = static_cast<Part::Kind>(1 + pick(random, 4));
    part.number = program.cells++;
    const std::size_t bodies = part.kind == Part::kSwitch ? 1 + pick(random, 3) : part.kind == Part::kIfElse ? 2 : 1;
    for (std::size_t i = 0; i < bodies; ++i) part.bodies.push_back(random_parts(random, program, depth - 1));
  }
  return parts;
}

struct StepNumbers {
  std::int32_t value = 0;
  std::vector<std::int32_t> cells;
};

std::int32_t source_value(std::uint32_t source, std::int32_t value) {
  return source == 0 ? value : value * 10 + static_cast<std::int32_t>(source);
}

void expect(const Parts& parts, const StepNumbers& step, std::vector<std::int32_t>& log) {
  for (const Part& part : parts) {
    if (part.kind == Part::kLog) {
      log.push_back(source_value(part.number, step.value));
      continue;
    }
    const std::int32_t cell = step.cells[part.number];
    switch (part.kind) {
      case Part::kWhile:
        for (std::int32_t i = 0; i < cell; ++i) expect(part.bodies[0], step, log);
        break;
      case Part::kSwitch:
        if (static_cast<std::size_t>(cell) < part.bodies.size()) {
          expect(part.bodies[static_cast<std::size_t>(cell)], step, log);
        }
        break;
      default:
        if (cell != 0) expect(part.bodies[0], step, log);
        else if (part.kind == Part::kIfElse) expect(part.bodies[1], step, log);
    }
  }
}

class RandomConditionals : public GraphOn {
 protected:
  void emit(const Stream& s, Capture& capture, const Parts& parts) {
    for (const Part& part : parts) {
      if (part.kind == Part::kLog) {
        s.launch(module.kernel("append"), {}, list.data(), sources[part.number]);
        continue;
      }
      std::int32_t* const cell = &cells[part.number];
      s.launch(module.kernel("put"), {}, cell, wanted[part.number]);
      std::vector<GraphBody> bodies;
      for (const Parts& body : part.bodies) {
        bodies.push_back([&, is_loop = part.kind == Part::kWhile](const Stream& inner) {
          emit(inner, capture, body);
          if (is_loop) inner.launch(own.kernel("step_down"), {}, cell);
        });
      }
      switch (part.kind) {
        case Part::kIf: capture.if_node(s, cell, bodies[0]); break;
        case Part::kIfElse: capture.if_else_node(s, cell, bodies[0], bodies[1]); break;
        case Part::kSwitch: capture.switch_node(s, cell, bodies); break;
        default: capture.while_node(s, cell, bodies[0], 3); break;
      }
    }
  }

  Module own = device.load_table({kernel<&step_down>("step_down")});
  std::vector<std::int32_t> list = std::vector<std::int32_t>(1 << 20);
  std::vector<std::int32_t> cells = std::vector<std::int32_t>(Program::kMostCells);
  std::vector<ScalarParameter<std::int32_t>> wanted, sources;
};

TEST_P(RandomConditionals, RunAsTheHostExpects) {
  const std::uint32_t programs = number_from("SLIPWAY_PROGRAMS", 60), seed = number_from("SLIPWAY_SEED", 1);
  std::mt19937 random(seed);
  for (std::uint32_t p = 0; p < programs; ++p) {
    Program program;
    program.parts = random_parts(random, program, 4);
    Capture capture(stream);
    wanted.clear();
    for (std::uint32_t i = 0; i < program.cells; ++i) {
      wanted.push_back(capture.parameter<std::int32_t>("cell" + std::to_string(i)));
    }
    sources = {capture.parameter<std::int32_t>("value")};
    for (std::uint32_t i = 1; i < Program::kSources; ++i) {
      sources.push_back(
          capture
              .operation("op" + std::to_string(i), {sources[0]}, {OutputSpec::argument(ArgKind::kI32)},
                         [i](OperationCall& call) { call.set(0, source_value(i, call.input<std::int32_t>(0))); })
              .output<std::int32_t>(0));
    }
    emit(stream, capture, program.parts);
    InstantiateOptions options;
    options.depth = 1 + pick(random, 4);
    options.tier = pick(random, 2) == 0 ? Tier::kReadLate : Tier::kCut;
    const ExecutableGraph graph = capture.end().instantiate(options);
    StepValues values = graph.values();
    std::vector<std::int32_t> log;
    list[0] = 0;
    StepNumbers step;
    step.cells.resize(program.cells);
    for (std::int32_t i = 0; i < 12; ++i) {
      step.value = i;
      values.set(sources[0], i);
      for (std::uint32_t c = 0; c < program.cells; ++c) {
        step.cells[c] = static_cast<std::int32_t>(pick(random, 3));
        values.set(wanted[c], step.cells[c]);
      }
      graph.launch(stream, values);
      expect(program.parts, step, log);
    }
    stream.synchronize();
    ASSERT_EQ(std::vector<std::int32_t>(list.begin() + 1, list.begin() + 1 + list[0]), log)
        << "program " << p << " of seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomConditionals, ::testing::Values("cpu:inline", "cpu:workers=1", "cpu:workers=2"),
                         [](const auto& param) { return std::to_string(param.index); });

}  // namespace
}  // namespace slipway::graph_tests
