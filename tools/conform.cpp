#include "conform.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "conformance.h"

namespace slipway::tool {

void add_conform(CLI::App& app, ConformOptions& options) {
  CLI::App* sub = app.add_subcommand("conform", "Run the conformance suite that every driver has to pass");
  sub->add_option("--device", options.device, "Device URI; see `slipway devices`")->capture_default_str();
  sub->add_option("--filter", options.filter, "Only tests with this text in their name, SUITE.TEST");
  sub->add_flag("--list", options.list, "List suites and tests");
}

int conform(const ConformOptions& options) {
  conformance::ConformanceOptions run;
  run.device = options.device;
  run.filter = options.filter;
  run.list = options.list;
  return conformance::run_conformance(run, std::cout);
}

}  // namespace slipway::tool
