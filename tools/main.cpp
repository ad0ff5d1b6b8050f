// The `slipway` command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "decode.h"
#include "graph.h"
#include "slipway/slipway.h"
#if defined(SLIPWAY_HAVE_CONFORMANCE)
#include "conform.h"
#endif

namespace {

void add_decode(CLI::App& app, slipway::tool::DecodeOptions& o) {
  CLI::App* sub = app.add_subcommand("decode", "Decode text with a LLaMA model, in one mode or in all of them");
  sub->add_option("--model", o.model, "Model file in llama2.c's format; a synthetic model when not given");
  sub->add_option("--tokenizer", o.tokenizer, "Its tokenizer file; a synthetic one when not given");
  sub->add_option("--prompt", o.prompt, "Text to go on from");
  sub->add_option("--steps", o.steps, "Steps to run at most, the prompt's included")->capture_default_str();
  sub->add_option("--temperature", o.temperature, "0 always takes the likeliest token")->capture_default_str();
  sub->add_option("--top-p", o.top_p, "With a temperature: draw from the likeliest tokens of this total probability")
      ->capture_default_str();
  sub->add_option("--seed", o.seed, "Of sampling, and of the synthetic model")->capture_default_str();
  sub->add_option("--device", o.device, "Device URI; see `slipway devices`")->capture_default_str();
  sub->add_option(
         "--mode", o.mode,
         "direct (no Slipway), general, planned, graph, overlap, or all: one table, exit status 1 if a text differs")
      ->capture_default_str();
  sub->add_option("--rounds", o.rounds, "Runs per mode, of which medians are shown; 0: what a few seconds allow")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  sub->add_option("--synthetic", o.synthetic,
                  "Extents of the synthetic model: dim hidden layers heads kv_heads vocab context")
      ->expected(7)
      ->delimiter(',');
  sub->add_option("--trace", o.trace,
                  "Write the timeline of one run more to this file, for ui.perfetto.dev; needs one mode");
  sub->add_flag("--json", o.json, "Print one JSON object instead of text and table");
}

int print_devices() {
  for (const slipway::DriverStatus& driver : slipway::list_drivers()) {
    fmt::print("{:<8} {}{}\n", driver.name, driver.available ? "" : "not available: ", driver.detail);
    std::string_view rest = driver.options;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      fmt::print("           {}\n", rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  fmt::print("\nA device URI is a driver's name, or NAME:OPTION,OPTION=VALUE,... as in cpu:workers=2\n");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Slipway: planned launches, and replay with updates that overlap it"};
  app.set_version_flag("--version", std::string("slipway ") + slipway::runtime_version_string());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  slipway decode --mode all\n"
      "  slipway decode --model stories260K.bin --tokenizer tok512.bin --temperature 0 --mode planned\n"
      "  slipway graph saved.json --device null\n"
      "  slipway devices");
  slipway::tool::DecodeOptions decode;
  add_decode(app, decode);
  slipway::tool::GraphOptions graph;
  slipway::tool::add_graph(app, graph);
  app.add_subcommand("devices", "List the drivers, what they find here, and the options of their URIs");
#if defined(SLIPWAY_HAVE_CONFORMANCE)
  slipway::tool::ConformOptions conform;
  slipway::tool::add_conform(app, conform);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // help and the version are no errors; all others have one status
  }
  if (app.got_subcommand("decode")) return slipway::tool::decode(decode);
  if (app.got_subcommand("graph")) return slipway::tool::graph(graph);
#if defined(SLIPWAY_HAVE_CONFORMANCE)
  if (app.got_subcommand("conform")) return slipway::tool::conform(conform);
#endif
  return print_devices();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "slipway: {}\n", error.what());
    return 2;
  }
}
