// Reads JSON that others wrote: update plans and saved graphs. Every refusal says where in the text it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipway::internal {

class JsonDocument;

// One value of a document, which it must not outlive. What is asked of it and does not hold throws InvalidArgument.
class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kFloat, kString, kList, kObject };

  Kind kind() const noexcept { return kind_; }
  const JsonValue* find(std::string_view key) const;  // null when there is none, or this is no object
  const JsonValue& member(std::string_view key) const;
  const std::vector<std::pair<std::string, JsonValue>>& members() const;
  const std::vector<JsonValue>& items(std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  // A whole number from 0 up to below `end`.
  std::size_t index(std::size_t end) const;
  double number() const;
  bool boolean() const;
  const std::string& text() const;
  // Pairs of hexadecimal digits. The count of bytes is checked before any are made.
  std::vector<std::byte> bytes(std::size_t least, std::size_t most) const;

  // "WHAT cannot be read at line L, column C: SENTENCE"
  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  friend class JsonDocument;
  friend class JsonParser;
  const JsonValue& expect(Kind kind, const char* what) const;

  const JsonDocument* document_ = nullptr;
  std::size_t at_ = 0;
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::int64_t integer_ = 0;
  double float_ = 0;
  std::string text_;
  std::vector<JsonValue> items_;
  std::vector<std::pair<std::string, JsonValue>> members_;
};

struct JsonLimits {
  std::size_t text_bytes = std::size_t{1} << 30;
  std::size_t values = std::size_t{1} << 22;
  unsigned depth = 64;
};

class JsonDocument {
 public:
  // `what` is read, as errors call it ("the update plan"). The text must outlive the document.
  JsonDocument(std::string what, std::string_view text, const JsonLimits& limits = {});
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const JsonValue& root() const noexcept { return root_; }
  [[noreturn]] void fail(std::size_t at, const std::string& sentence) const;

 private:
  std::string what_;
  std::string_view text_;
  JsonValue root_;
};

// Appends bytes as pairs of hexadecimal digits, with quotes.
void append_json_bytes(std::string& out, const std::byte* bytes, std::size_t count);

}  // namespace slipway::internal
