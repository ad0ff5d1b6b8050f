// What the suites are written with.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::conformance {

// No wait of a test is longer.
constexpr WaitLimit kLimit{20'000};

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail(const std::string& sentence, std::source_location where = std::source_location::current());

inline void check(bool holds, const std::string& sentence,
                  std::source_location where = std::source_location::current()) {
  if (!holds) fail(sentence, where);
}

template <class T>
std::string show(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) text << static_cast<std::int64_t>(value);
  else if constexpr (sizeof(T) == 1 && std::is_integral_v<T>) text << static_cast<int>(value);
  else text << value;
  return text.str();
}
template <class T>
std::string show(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size() && i < 20; ++i) text += (i ? ", " : "") + show(values[i]);
  return text + (values.size() > 20 ? ", ...]" : "]");
}

template <class A, class B>
void check_equal(const A& got, const B& wanted, const std::string& what,
                 std::source_location where = std::source_location::current()) {
  if (!(got == static_cast<A>(wanted))) {
    fail(what + ": got " + show(got) + ", wanted " + show(static_cast<A>(wanted)), where);
  }
}

// The call must throw an Error of this code whose sentence has all these fragments.
Error check_throws(ErrorCode code, std::initializer_list<std::string_view> fragments, const std::function<void()>& call,
                   std::source_location where = std::source_location::current());

// Waits, at most kLimit, until `holds` says so.
void wait_until(const std::function<bool()>& holds, const std::string& what,
                std::source_location where = std::source_location::current());

// What a device must be able to do for a test to mean something there.
enum Need : unsigned {
  kRuns = 1,      // kernels run and memory keeps bytes
  kStores = 2,    // what was submitted can be looked at (null:store)
  kSees = 4,      // either of these: a test can see what arrived
  kThrowing = 8,  // kernels may throw
  kFaults = 16,   // the option fault_at
};

struct Row {
  const char* test;  // "suite.test"; a '*' at the end stands for any rest
  const char* reason;
};

// One driver, as the suite sees it.
struct Driver {
  const char* name;
  std::span<const char* const> configurations;
  Module (*load)(const Device& device);  // the standard kernels, see kernels.h
  unsigned (*supports)(const std::string& uri);
  std::span<const Row> unsupported;        // not run
  std::span<const Row> expected_failures;  // run, and must fail
};
extern const Driver kCpu, kNull, kOpenCl;

class Context {
 public:
  Context(const Driver& driver, std::string uri);

  bool can(Need need) const { return (supported_ & need) != 0; }
  const Driver& driver() const { return driver_; }
  const std::string& uri() const { return uri_; }

  // One device and its standard kernels for all tests that leave them as they were.
  const Device& device();
  Kernel kernel(std::string_view name);

  // A device of the test's own, with further options.
  Device open(const std::string& more = {}) const;
  Module load(const Device& device) const { return driver_.load(device); }

  // After a failure: the next test gets a new device.
  void forget();

 private:
  const Driver& driver_;
  std::string uri_;
  unsigned supported_;
  std::optional<Device> device_;
  std::optional<Module> module_;
};

// The kernel with the signature of its C++ form, or with another of the same kinds.
Kernel find_kernel(const Module& module, std::string_view name);

struct Test {
  const char* name;
  void (*run)(Context&);
  unsigned needs = 0;
};
struct Suite {
  const char* name;
  const char* description;
  std::span<const Test> tests;
};
extern const Suite kMemorySuite, kStreamsSuite, kEventsSuite, kLaunchesSuite, kGuardsSuite, kShapesSuite, kErrorsSuite,
    kRefusalsSuite, kLifetimeSuite, kGraphsSuite, kStepsSuite, kGridsSuite, kConditionalsSuite;

template <class T>
Memory upload(const Device& device, const Stream& stream, const std::vector<T>& values) {
  Memory memory = device.allocate(values.size() * sizeof(T));
  stream.copy_to_device(memory.address(), values.data(), values.size() * sizeof(T));
  return memory;
}
template <class T>
Memory zeros(const Device& device, const Stream& stream, std::size_t count) {
  return upload(device, stream, std::vector<T>(count));
}
template <class T>
std::vector<T> download(const Stream& stream, DevicePtr from, std::size_t count) {
  std::vector<T> values(count);
  stream.copy_to_host(values.data(), from, count * sizeof(T));
  stream.synchronize(kLimit);
  return values;
}
template <class T>
std::vector<T> download(const Stream& stream, const Memory& from, std::size_t count) {
  return download<T>(stream, from.address(), count);
}

// The log kernel's buffer: a count, then the ids.
Memory make_log(const Device& device, const Stream& stream, std::size_t room);
std::vector<std::uint32_t> read_log(const Stream& stream, const Memory& log);

}  // namespace slipway::conformance
