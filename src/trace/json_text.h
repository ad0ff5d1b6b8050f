// Text as JSON wants it.
#pragma once

#include <string>
#include <string_view>

namespace slipway::internal {

// Appends a JSON string with its quotes. What is not UTF-8 becomes U+FFFD, one for each byte that fits nowhere.
void append_json_string(std::string& out, std::string_view text);

}  // namespace slipway::internal
