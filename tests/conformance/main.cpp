// slipway_conformance_tests --device URI [--suite NAME]   what ctest runs, one configuration and suite at a time
// slipway_conformance_tests --registered SUITES URIS      are these all there are? Lists separated by ';'
#include <cstring>
#include <iostream>

#include "conformance.h"

namespace {

std::string join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ";") + name;
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace slipway::conformance;
  if (argc == 4 && std::strcmp(argv[1], "--registered") == 0) {
    const std::string suites = join(suite_names()), uris = join(configurations());
    if (suites == argv[2] && uris == argv[3]) return 0;
    std::cout << "tests/conformance/CMakeLists.txt registers other suites or configurations than there are:\n"
              << suites << '\n'
              << uris << '\n';
    return 1;
  }
  ConformanceOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) options.device = argv[i + 1];
    else if (std::strcmp(argv[i], "--suite") == 0) options.filter = std::string(argv[i + 1]) + ".";
    else if (std::strcmp(argv[i], "--filter") == 0) options.filter = argv[i + 1];
  }
  return run_conformance(options, std::cout);
}
