// `slipway graph`: shows a saved graph, and replays it.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace slipway::tool {

struct GraphOptions {
  std::string file;
  std::string device = "null";
  std::string library;
  std::string source;
  std::string format = "text";
  unsigned steps = 1;
  bool check = false;
};

void add_graph(CLI::App& app, GraphOptions& options);
int graph(const GraphOptions& options);  // the exit status

}  // namespace slipway::tool
