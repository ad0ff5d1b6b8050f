// Kernels and small helpers of the API tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::api_tests {

// Passes when the call throws this code with each part in its message.
inline ::testing::AssertionResult refused(ErrorCode code, std::initializer_list<std::string_view> parts,
                                          const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != code) {
      return ::testing::AssertionFailure() << "not " << name_of(code) << " but " << error.what();
    }
    const std::string_view text = error.what();
    if (!text.starts_with(name_of(code)))
      return ::testing::AssertionFailure() << "does not begin with its code: " << text;
    for (const std::string_view part : parts) {
      if (text.find(part) == text.npos) return ::testing::AssertionFailure() << "lacks '" << part << "': " << text;
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "was not refused";
}

inline bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

inline void add_one(std::uint32_t* counter) { ++*counter; }
inline void append(std::uint32_t* log, std::uint32_t id) {
  log[1 + std::atomic_ref(log[0]).fetch_add(1, std::memory_order_relaxed)] = id;
}
inline void wait_for(std::atomic<bool>* flag) {
  while (!flag->load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// The URI of a parameterised test, as far as it may be part of a name.
inline std::string device_name(const ::testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

inline Module load(const Device& device) {
  return device.load_table({kernel<&add_one>("add_one"), kernel<&append>("append")});
}

inline PlanOptions one_block() {
  PlanOptions options;
  options.shape = LaunchShape{};
  return options;
}

}  // namespace slipway::api_tests
