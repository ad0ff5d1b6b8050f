// The conformance suite: what every driver must do, shown through the public interface alone.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace slipway::conformance {

struct ConformanceOptions {
  std::string device = "cpu";  // URI
  std::string filter;          // only tests whose "suite.test" contains it
  bool list = false;           // print the names and run nothing
};

// What run_conformance() returns.
constexpr int kConforms = 0;
constexpr int kFails = 1;    // a test failed, passed though it was expected to fail, or the URI is bad
constexpr int kAbsent = 77;  // the device is not there; kFails when SLIPWAY_REQUIRE names its driver

// Prints one line per test and a summary. Never throws what a test throws.
int run_conformance(const ConformanceOptions& options, std::ostream& out);

// What the project's own tests run: all suites by name, and every driver's configurations.
std::vector<std::string> suite_names();
std::vector<std::string> configurations();

}  // namespace slipway::conformance
