#include "graph.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>

#include "slipway/slipway.h"

namespace slipway::tool {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kInvalidArgument, "the file '" + path + "' cannot be opened; check its name");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

GraphDefinition::Format format_of(const std::string& name) {
  if (name == "json") return GraphDefinition::Format::kJson;
  return name == "graphviz" ? GraphDefinition::Format::kGraphviz : GraphDefinition::Format::kText;
}

}  // namespace

void add_graph(CLI::App& app, GraphOptions& o) {
  CLI::App* sub = app.add_subcommand("graph", "Show a graph that save_graph() wrote, and replay it");
  sub->add_option("file", o.file, "The saved graph")->required();
  sub->add_option("--device", o.device, "Device URI; null needs no kernels and runs none")->capture_default_str();
  sub->add_option("--library", o.library, "A shared library of C functions that has its kernels (cpu)");
  sub->add_option("--source", o.source, "A source file in the device's language that has its kernels (opencl)");
  sub->add_option("--format", o.format, "How it is shown")
      ->check(CLI::IsMember({"text", "json", "graphviz"}))
      ->capture_default_str();
  sub->add_option("--steps", o.steps, "Replays, with the values that it was saved with")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  sub->add_flag("--check", o.check, "Compare a replay with its nodes one at a time; exit status 1 when they differ");
}

int graph(const GraphOptions& options) {
  const Device device = Device::open(options.device);
  LoadOptions load;
  load.stand_ins = true;
  if (!options.library.empty()) load.modules.push_back(device.load_library(options.library));
  if (!options.source.empty()) load.modules.push_back(device.load_source(read_file(options.source)));
  const LoadedGraph loaded = load_graph(device, read_file(options.file), load);
  fmt::print("{}", loaded.definition.dump(format_of(options.format)));
  fmt::print("# made by {} on {}, {} memory blocks\n", loaded.made_by, loaded.device, loaded.memory.size());
  for (const std::string& note : loaded.notes) fmt::print("# {}\n", note);
  if (options.steps == 0 && !options.check) return 0;
  const Stream stream = device.create_stream();
  const ExecutableGraph executable = loaded.definition.instantiate();
  const StepValues values = executable.values();
  for (unsigned i = 0; i < options.steps; ++i) executable.launch(stream, values);
  stream.synchronize();
  fmt::print("# {} steps replayed on {}\n", executable.counters().launches, options.device);
  if (!options.check) return 0;
  const SelfCheckResult result = self_check(executable, stream, values);
  for (const std::string& note : result.notes) fmt::print("# {}\n", note);
  fmt::print("# {}\n", result.equal ? "a replay does what its nodes do one at a time" : result.difference);
  return result.equal ? 0 : 1;
}

}  // namespace slipway::tool
