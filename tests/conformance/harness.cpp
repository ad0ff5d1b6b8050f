#include "harness.h"

#include <array>
#include <cstdlib>
#include <exception>
#include <thread>

#include "conformance.h"
#include "kernels.h"

namespace slipway::conformance {
namespace {

constexpr std::array kDrivers{&kNull, &kCpu, &kOpenCl};
constexpr std::array kSuites{&kMemorySuite, &kStreamsSuite, &kEventsSuite,      &kLaunchesSuite, &kGuardsSuite,
                             &kShapesSuite, &kErrorsSuite,  &kRefusalsSuite,    &kLifetimeSuite, &kGraphsSuite,
                             &kStepsSuite,  &kGridsSuite,   &kConditionalsSuite};

struct Totals {
  int passed = 0, failed = 0, not_run = 0, failed_as_expected = 0;
};

const char* find_row(std::span<const Row> rows, const std::string& test) {
  for (const Row& row : rows) {
    const std::string_view pattern = row.test;
    const bool open_ended = pattern.ends_with('*');
    if (open_ended ? test.starts_with(pattern.substr(0, pattern.size() - 1)) : test == pattern) return row.reason;
  }
  return nullptr;
}

// Rows about tests that do not exist would hide nothing and mislead.
void check_rows(const Driver& driver, std::ostream& out, Totals& totals) {
  for (const auto& rows : {driver.unsupported, driver.expected_failures}) {
    for (const Row& row : rows) {
      bool found = false;
      for (const Suite* suite : kSuites) {
        for (const Test& test : suite->tests)
          found = found || find_row({&row, 1}, std::string(suite->name) + "." + test.name);
      }
      if (found) continue;
      ++totals.failed;
      out << "FAILED  " << driver.name << " has a row for '" << row.test << "', which is no test\n";
    }
  }
}

const char* missing(unsigned needs, unsigned supported) {
  if ((needs & ~supported) == 0) return nullptr;
  const unsigned lacks = needs & ~supported;
  if ((lacks & kRuns) != 0) return "the device runs no kernels";
  if ((lacks & kThrowing) != 0) return "its kernels cannot throw";
  if ((lacks & kFaults) != 0) return "a fault cannot be brought about";
  if ((lacks & kStores) != 0) return "what was submitted is not kept to be looked at (null:store does)";
  return "what arrives cannot be looked at";
}

bool is_required(std::string_view driver) {
  const char* list = std::getenv("SLIPWAY_REQUIRE");
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == driver) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

// What went wrong, or an empty text.
std::string run_test(const Test& test, Context& context) {
  try {
    test.run(context);
    return {};
  } catch (const std::exception& e) {
    return *e.what() ? e.what() : "an exception without a text";
  } catch (...) {
    return "something that is not a std::exception was thrown";
  }
}

void run_suite(const Suite& suite, Context& context, const std::string& filter, std::ostream& out, Totals& totals) {
  for (const Test& test : suite.tests) {
    const std::string name = std::string(suite.name) + "." + test.name;
    if (name.find(filter) == std::string::npos) continue;
    const char* reason = find_row(context.driver().unsupported, name);
    if (!reason) reason = missing(test.needs, context.driver().supports(context.uri()));
    if (reason) {
      ++totals.not_run;
      out << "     -  " << name << ": not run, " << reason << '\n';
      continue;
    }
    const char* expected = find_row(context.driver().expected_failures, name);
    const std::string problem = run_test(test, context);
    if (!problem.empty()) context.forget();
    if (problem.empty() != (expected == nullptr)) {
      ++totals.failed;
      out << "FAILED  " << name << ": "
          << (expected ? "it passed, but is expected to fail (" + std::string(expected) + "); take the row away"
                       : problem)
          << std::endl;
    } else if (expected) {
      ++totals.failed_as_expected;
      out << "    xf  " << name << ": " << expected << std::endl;
    } else {
      ++totals.passed;
      out << "    ok  " << name << std::endl;
    }
  }
}

}  // namespace

void fail(const std::string& sentence, std::source_location where) {
  std::string file = where.file_name();
  file = file.substr(file.rfind('/') + 1);
  throw Failure(file + ":" + std::to_string(where.line()) + ": " + sentence);
}

Error check_throws(ErrorCode code, std::initializer_list<std::string_view> fragments, const std::function<void()>& call,
                   std::source_location where) {
  try {
    call();
  } catch (const Error& e) {
    const std::string_view what = e.what();
    check(e.code() == code, std::string("the error is not ") + name_of(code) + ": " + e.what(), where);
    for (const std::string_view fragment : fragments) {
      check(what.find(fragment) != std::string_view::npos,
            "the error does not say '" + std::string(fragment) + "': " + e.what(), where);
    }
    return e;
  }
  fail(std::string("nothing was thrown where ") + name_of(code) + " was due", where);
}

void wait_until(const std::function<bool()>& holds, const std::string& what, std::source_location where) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) fail("this did not come about in time: " + what, where);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Context::Context(const Driver& driver, std::string uri)
    : driver_(driver), uri_(std::move(uri)), supported_(driver.supports(uri_)) {}

Device Context::open(const std::string& more) const {
  const bool has_options = uri_.find(':') != std::string::npos;
  const std::string limit =
      more.find("wait_limit_ms") == std::string::npos && uri_.find("wait_limit_ms") == std::string::npos
          ? "wait_limit_ms=20000"
          : "";
  std::string options = more;
  if (!limit.empty()) options += (options.empty() ? "" : ",") + limit;
  return Device::open(options.empty() ? uri_ : uri_ + (has_options ? "," : ":") + options);
}

const Device& Context::device() {
  if (!device_) device_ = open();
  return *device_;
}

Kernel Context::kernel(std::string_view name) {
  if (!module_) module_ = load(device());
  return find_kernel(*module_, name);
}

void Context::forget() {
  module_.reset();
  device_.reset();
}

Kernel find_kernel(const Module& module, std::string_view name) {
  return module.kernel(name, signature_of(standard_kernel(name)));
}

Memory make_log(const Device& device, const Stream& stream, std::size_t room) {
  return zeros<std::uint32_t>(device, stream, room + 1);
}

std::vector<std::uint32_t> read_log(const Stream& stream, const Memory& log) {
  std::vector<std::uint32_t> ids = download<std::uint32_t>(stream, log, log.size_bytes() / 4);
  const std::size_t count = ids.front();
  check(count < ids.size(), "the log ran over: " + std::to_string(count) + " ids");
  ids.erase(ids.begin());
  ids.resize(count);
  return ids;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const Suite* suite : kSuites) names.emplace_back(suite->name);
  return names;
}

std::vector<std::string> configurations() {
  std::vector<std::string> all;
  for (const Driver* driver : kDrivers)
    all.insert(all.end(), driver->configurations.begin(), driver->configurations.end());
  return all;
}

int run_conformance(const ConformanceOptions& options, std::ostream& out) {
  if (options.list) {
    for (const Suite* suite : kSuites) {
      out << suite->name << ": " << suite->description << '\n';
      for (const Test& test : suite->tests) out << "  " << suite->name << '.' << test.name << '\n';
    }
    return kConforms;
  }
  const std::string name = options.device.substr(0, options.device.find(':'));
  const Driver* driver = nullptr;
  for (const Driver* d : kDrivers) {
    if (name == d->name) driver = d;
  }
  if (!driver) {
    out << "the conformance suite knows no driver '" << name << "'\n";
    return kFails;
  }
  try {
    (void)Device::open(options.device);
  } catch (const Error& e) {
    bool built_in = false;
    for (const DriverStatus& status : list_drivers()) built_in = built_in || status.name == name;
    const bool absent = !built_in || e.code() == ErrorCode::kUnavailable || e.code() == ErrorCode::kUnsupported;
    out << (absent && !is_required(name) ? "skipped: " : "FAILED: ") << options.device << ": " << e.what() << '\n';
    return absent && !is_required(name) ? kAbsent : kFails;
  }
  Totals totals;
  Context context(*driver, options.device);
  check_rows(*driver, out, totals);
  for (const Suite* suite : kSuites) run_suite(*suite, context, options.filter, out, totals);
  context.forget();
  out << options.device << ": " << totals.passed << " passed, " << totals.failed << " failed, " << totals.not_run
      << " not run, " << totals.failed_as_expected << " failed as expected\n";
  const bool nothing = totals.passed + totals.failed + totals.not_run + totals.failed_as_expected == 0;
  if (nothing) out << "FAILED: no test has '" << options.filter << "' in its name\n";
  return totals.failed == 0 && !nothing ? kConforms : kFails;
}

}  // namespace slipway::conformance
