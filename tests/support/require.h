// What a test needs from the machine, and what happens where that is missing: the test is skipped with one
// clear line, or fails when SLIPWAY_REQUIRE (a list separated by commas, as CI sets it) names the need.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace slipway::test {

inline bool is_required(std::string_view need) {
  const char* list = std::getenv("SLIPWAY_REQUIRE");
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == need) return true;
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return false;
}

// The path of a file of the test data ($SLIPWAY_DATA, else ../shared/data beside the source tree), or empty.
inline std::string find_data_file(const std::string& name) {
  const char* given = std::getenv("SLIPWAY_DATA");
  const std::filesystem::path folder =
      given && *given ? std::filesystem::path(given) : std::filesystem::path(SLIPWAY_SOURCE_DIR) / "../shared/data";
  std::error_code ignored;
  const std::filesystem::path file = folder / name;
  return std::filesystem::is_regular_file(file, ignored) ? file.lexically_normal().string() : std::string();
}

}  // namespace slipway::test

// Ends the test. Use it in the test's own body (or SetUp), as it returns.
#define SLIPWAY_SKIP_OR_FAIL(need, reason)                                                                   \
  do {                                                                                                       \
    if (slipway::test::is_required(need)) FAIL() << "required, but missing: " << (need) << ": " << (reason); \
    GTEST_SKIP() << "skipped: " << (need) << ": " << (reason);                                               \
  } while (false)
