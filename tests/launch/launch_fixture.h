// Kernels and a device for the tests of call sites, selectors and hooks.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "slipway/slipway.h"
#include "slipway/testing.h"

namespace slipway::launch_tests {

inline void add(std::uint32_t* out, std::uint32_t by) { *out += by; }
inline void add_hundred(std::uint32_t* out, std::uint32_t by) { *out += 100 * by; }
inline void add_per_block(const Block& block, std::uint32_t* out, std::uint32_t by) {
  *out += by;
  (void)block;
}

constexpr const char* kAligned = "inout tensor<u32> align=16, u32";
constexpr const char* kSmall = "inout tensor<u32>, u32 range=0..10";

inline std::string uri_name(const ::testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

inline ::testing::AssertionResult fails(ErrorCode code, std::initializer_list<std::string_view> parts,
                                        const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (error.code() != code) return ::testing::AssertionFailure() << "not " << name_of(code) << " but " << text;
    for (const std::string_view part : parts) {
      if (text.find(part) == text.npos) return ::testing::AssertionFailure() << "lacks '" << part << "': " << text;
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "did not fail";
}

class LaunchTest : public ::testing::TestWithParam<const char*> {
 protected:
  LaunchTest() : device(Device::open(GetParam())), stream(device.create_stream()), memory(device.allocate(64)) {
    module = device.load_table(
        {kernel<&add>("add"), kernel<&add_hundred>("add_hundred"), kernel<&add_per_block>("add_per_block")});
    for (std::uint32_t i = 0; i < 16; ++i) word(i) = 0;
  }

  std::uint32_t& word(std::uint32_t i) { return reinterpret_cast<std::uint32_t*>(memory.address())[i]; }
  Tensor<std::uint32_t> tensor(std::uint32_t i = 0) const { return memory.tensor<std::uint32_t>(i); }
  // What was added to a word since the last time.
  std::uint32_t added(std::uint32_t i = 0) {
    stream.synchronize();
    return std::exchange(word(i), 0);
  }

  static PlanOptions one_block() {
    PlanOptions options;
    options.shape = LaunchShape{};
    return options;
  }
  Candidate candidate(const char* name, const char* signature = nullptr) const {
    return {signature ? module.kernel(name, parse_signature(signature)) : module.kernel(name), one_block()};
  }
  KernelSelector two() const { return KernelSelector::create("two", {candidate("add"), candidate("add_hundred")}); }

  Device device;
  Stream stream;
  Memory memory;
  Module module;
};

}  // namespace slipway::launch_tests
