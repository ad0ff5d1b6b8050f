// Device URIs: "driver" or "driver:option,option=value,...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace slipway::internal {

class Uri {
 public:
  static Result<Uri> parse(std::string_view text);

  const std::string& text() const noexcept { return text_; }
  const std::string& driver() const noexcept { return driver_; }

  // InvalidArgument naming the first option that is not among `known`, and those that are.
  Status allow_only(std::initializer_list<std::string_view> known) const;

  // Options without a value, such as "inline". A value other than 0 or 1 is refused.
  Result<bool> flag(std::string_view name) const;
  // A whole number in [min, max], or `fallback` when the option is not given.
  Result<std::int64_t> number(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max) const;
  // One of `names`, the first where the option is not given: its place among them.
  Result<std::size_t> choice(std::string_view name, std::initializer_list<std::string_view> names) const;
  std::optional<std::string> text(std::string_view name) const;

 private:
  std::string text_;
  std::string driver_;
  std::vector<std::pair<std::string, std::optional<std::string>>> options_;
};

}  // namespace slipway::internal
