// What the graph tests share: kernels, devices to run on, and a host value that a kernel waits for.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::graph_tests {

inline void add(const float* in, float* out, float c) { out[0] = in[0] + c; }
inline void put(std::int32_t* out, std::int32_t value) { out[0] = value; }
// Appends to a list whose first element is its length.
inline void append(std::int32_t* list, std::int32_t value) { list[++list[0]] = value; }
inline void count(const Block&, std::int32_t* counter) { ++counter[0]; }
inline void sum(std::int32_t* out, const std::int32_t* a, const std::int32_t* b) { out[0] = a[0] + b[0]; }
inline void step_down(std::int32_t* value) { --value[0]; }
inline void throws(std::int32_t*) { throw std::runtime_error("boom"); }
struct Flag {
  std::atomic<int>* value;
};
inline void raise_flag(Flag flag) { flag.value->store(1); }

inline Module load(const Device& device) {
  return device.load_table({kernel<&add>("add"), kernel<&put>("put"), kernel<&append>("append"),
                            kernel<&count>("count"), kernel<&throws>("throws"), kernel<&raise_flag>("raise_flag"),
                            kernel<&sum>("sum")});
}

class GraphOn : public ::testing::TestWithParam<std::string> {
 protected:
  GraphOn() : device(Device::open(GetParam())), stream(device.create_stream()), module(load(device)) {}

  bool is_inline() const { return device.info().workers == 0; }

  Device device;
  Stream stream;
  Module module;
};

inline bool becomes(const std::atomic<int>& flag, int value) {
  for (int i = 0; i < 5000; ++i) {
    if (flag.load() == value) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // bounded: a look, not a wait
  }
  return false;
}

template <class Call>
void expect_error(ErrorCode code, const std::string& words, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "expected " << name_of(code) << " with '" << words << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace slipway::graph_tests
