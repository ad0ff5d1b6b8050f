// What report tests are written with. Each is a function that runs on some of the conformance suite's devices, as a
// test of its own for each: Report.B06_products_beyond_32_bits/null_store.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness.h"
#include "kernels.h"
#include "support/require.h"

namespace slipway::reports {

using conformance::check;
using conformance::check_equal;
using conformance::check_throws;
using conformance::Context;
using conformance::download;
using conformance::find_kernel;
using conformance::kLimit;
using conformance::kRuns;
using conformance::kThrowing;
using conformance::upload;
using conformance::zeros;

enum Devices : unsigned {
  kWorker = 1,
  kInline = 2,
  kStore = 4,
  kOpenCl = 8,
  kRunning = kWorker | kInline | kOpenCl,
  kEvery = kRunning | kStore,
};

// The thread sanitizer sees no synchronisation inside an OpenCL implementation that was built without it.
#if defined(__SANITIZE_THREAD__)
constexpr unsigned kAvailable = kEvery & ~unsigned{kOpenCl};
#else
constexpr unsigned kAvailable = kEvery;
#endif

using Body = void (*)(Context&);

struct Place {
  unsigned bit;
  const char* suffix;
  const char* uri;
  const conformance::Driver* driver;
};

class ReportTest : public ::testing::Test {
 public:
  ReportTest(const Place& place, Body body) : place_(place), body_(body) {}

  void TestBody() override {
    try {
      (void)Device::open(place_.uri);
    } catch (const Error& error) {
      SLIPWAY_SKIP_OR_FAIL(place_.driver->name, error.what());
    }
    Context context(*place_.driver, place_.uri);
    body_(context);
  }

 private:
  Place place_;
  Body body_;
};

inline bool register_report(const char* name, unsigned devices, Body body, const char* file, int line) {
  const Place places[] = {{kWorker, "cpu_1", "cpu:workers=1", &conformance::kCpu},
                          {kInline, "cpu_inline", "cpu:inline", &conformance::kCpu},
                          {kStore, "null_store", "null:store", &conformance::kNull},
                          {kOpenCl, "opencl", "opencl:memory=svm", &conformance::kOpenCl}};
  for (const Place& place : places) {
    if ((devices & kAvailable & place.bit) == 0) continue;
    const std::string full = std::string(name) + "/" + place.suffix;
    ::testing::RegisterTest("Report", full.c_str(), nullptr, nullptr, file, line,
                            [place, body]() -> ::testing::Test* { return new ReportTest(place, body); });
  }
  return true;
}

}  // namespace slipway::reports

// Defines the test `name` for each of `devices`; its body sees `Context& c`.
#define SLIPWAY_REPORT(name, devices)                                                                     \
  static void name(::slipway::conformance::Context& c);                                                   \
  [[maybe_unused]] static const bool registered_##name =                                                  \
      ::slipway::reports::register_report(#name, ::slipway::reports::devices, &name, __FILE__, __LINE__); \
  static void name(::slipway::conformance::Context& c)
