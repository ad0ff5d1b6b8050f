#include "base/uri.h"

#include <algorithm>
#include <charconv>

namespace slipway::internal {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace

Result<Uri> Uri::parse(std::string_view text) {
  Uri uri;
  uri.text_ = text;
  const std::size_t colon = text.find(':');
  uri.driver_ = text.substr(0, colon);
  if (uri.driver_.empty()) {
    return Status(ErrorCode::kInvalidArgument,
                  "the device URI " + quoted(text) + " names no driver; write for example 'cpu' or 'cpu:workers=2'");
  }
  if (colon == std::string_view::npos) return uri;
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = option.find('=');
    std::string name(option.substr(0, equals));
    if (name.empty()) {
      return Status(ErrorCode::kInvalidArgument, "the device URI " + quoted(text) +
                                                     " has an option without a name; options are NAME or NAME=VALUE, "
                                                     "separated by commas");
    }
    const bool twice = std::any_of(uri.options_.begin(), uri.options_.end(), [&](auto& o) { return o.first == name; });
    if (twice) {
      return Status(ErrorCode::kInvalidArgument,
                    "the device URI " + quoted(text) + " gives the option " + quoted(name) + " twice; give it once");
    }
    std::optional<std::string> value;
    if (equals != std::string_view::npos) value = std::string(option.substr(equals + 1));
    uri.options_.emplace_back(std::move(name), std::move(value));
  }
  return uri;
}

Status Uri::allow_only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : options_) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
    return Status(ErrorCode::kInvalidArgument, "the device URI " + quoted(text_) + " has the unknown option " +
                                                   quoted(name) + "; " + driver_ + " knows: " + list);
  }
  return {};
}

Result<bool> Uri::flag(std::string_view name) const {
  for (const auto& [key, value] : options_) {
    if (key != name) continue;
    if (!value || *value == "1") return true;
    if (*value == "0") return false;
    return Status(ErrorCode::kInvalidArgument, "the option " + quoted(name) + " of the device URI " + quoted(text_) +
                                                   " has the value " + quoted(*value) +
                                                   "; it takes no value, or 0 or 1");
  }
  return false;
}

Result<std::int64_t> Uri::number(std::string_view name, std::int64_t fallback, std::int64_t min,
                                 std::int64_t max) const {
  const std::optional<std::string> given = text(name);
  if (!given) return fallback;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc{} || end != given->data() + given->size() || value < min || value > max) {
    return Status(ErrorCode::kInvalidArgument, "the option " + quoted(name) + " of the device URI " + quoted(text_) +
                                                   " has the value " + quoted(*given) +
                                                   "; it takes a whole number from " + std::to_string(min) + " to " +
                                                   std::to_string(max));
  }
  return value;
}

Result<std::size_t> Uri::choice(std::string_view name, std::initializer_list<std::string_view> names) const {
  const std::optional<std::string> given = text(name);
  if (!given) return std::size_t{0};
  std::string all;
  for (const std::string_view& known : names) {
    if (*given == known) return static_cast<std::size_t>(&known - names.begin());
    all += (all.empty() ? "" : &known + 1 == names.end() ? " or " : ", ") + std::string(known);
  }
  return Status(ErrorCode::kInvalidArgument, "the option " + quoted(name) + " of the device URI " + quoted(text_) +
                                                 " has the value " + quoted(*given) + "; it takes " + all);
}

std::optional<std::string> Uri::text(std::string_view name) const {
  for (const auto& [key, value] : options_) {
    if (key == name) return value ? *value : std::string();
  }
  return std::nullopt;
}

}  // namespace slipway::internal
