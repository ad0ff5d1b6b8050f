// `slipway conform`: runs the conformance suite on one device.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace slipway::tool {

struct ConformOptions {
  std::string device = "cpu";
  std::string filter;
  bool list = false;
};

void add_conform(CLI::App& app, ConformOptions& options);
int conform(const ConformOptions& options);  // the exit status

}  // namespace slipway::tool
