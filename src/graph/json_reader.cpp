#include "graph/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "slipway/error.h"

namespace slipway::internal {
namespace {

constexpr std::array<const char*, 7> kKindNames{"null",     "a bool", "an integer", "a float",
                                                "a string", "a list", "an object"};

const char* name_of_kind(JsonValue::Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  }
}

}  // namespace

class JsonParser {
 public:
  JsonParser(const JsonDocument& document, std::string_view text, const JsonLimits& limits)
      : document_(document), text_(text), limits_(limits) {}

  JsonValue parse() {
    JsonValue value = next(0);
    skip_spaces();
    if (at_ != text_.size()) fail("there is something behind its end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const { document_.fail(at_, sentence); }
  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    skip_spaces();
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  bool accept_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  JsonValue next(unsigned depth) {
    skip_spaces();
    if (++values_ > limits_.values) fail("it has more than " + std::to_string(limits_.values) + " values");
    if (depth > limits_.depth)
      fail("lists and objects are nested more than " + std::to_string(limits_.depth) + " deep");
    JsonValue value;
    value.document_ = &document_;
    value.at_ = at_;
    if (accept('{')) {
      object(value, depth);
    } else if (accept('[')) {
      list(value, depth);
    } else if (peek() == '"') {
      value.kind_ = JsonValue::Kind::kString;
      value.text_ = string();
    } else if (accept_word("true") || accept_word("false")) {
      value.kind_ = JsonValue::Kind::kBool;
      value.bool_ = text_[at_ - 2] == 'u';
    } else if (!accept_word("null")) {
      number(value);
    }
    return value;
  }

  void object(JsonValue& value, unsigned depth) {
    value.kind_ = JsonValue::Kind::kObject;
    if (accept('}')) return;
    do {
      skip_spaces();
      if (peek() != '"') fail("expected the name of a member, in quotes");
      std::string key = string();
      if (!accept(':')) fail("expected ':' behind the name of a member");
      value.members_.emplace_back(std::move(key), next(depth + 1));
    } while (accept(','));
    if (!accept('}')) fail("expected ',' or '}' in an object");
    std::vector<std::string_view> names;
    for (const auto& [name, member] : value.members_) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) value.fail("this object has the member '" + std::string(*twice) + "' twice");
  }

  void list(JsonValue& value, unsigned depth) {
    value.kind_ = JsonValue::Kind::kList;
    if (accept(']')) return;
    do value.items_.push_back(next(depth + 1));
    while (accept(','));
    if (!accept(']')) fail("expected ',' or ']' in a list");
  }

  std::uint32_t unicode() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) fail("expected four hexadecimal digits behind \\u");
      code = code * 16 + static_cast<std::uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const std::size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (which != std::string_view::npos) {
      out += kMeant[which];
      ++at_;
      return;
    }
    if (!accept_word("u")) fail("a string has an escape that JSON does not know");
    std::uint32_t code = unicode();
    if (code >= 0xD800 && code < 0xDC00 && accept_word("\\u")) {
      const std::uint32_t low = unicode();
      if (low < 0xDC00 || low > 0xDFFF) fail("a string has half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xD800 && code <= 0xDFFF) {
      fail("a string has half of a surrogate pair");
    }
    append_utf8(out, code);
  }

  std::string string() {
    std::string out;
    for (++at_;;) {
      const std::size_t end = text_.find_first_of("\"\\", at_);
      if (end == std::string_view::npos) fail("a string does not end");
      const std::string_view part = text_.substr(at_, end - at_);
      if (std::any_of(part.begin(), part.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
        fail("a string has a control character; write it as an escape");
      out += part;
      at_ = end + 1;
      if (text_[end] == '"') return out;
      escape(out);
    }
  }

  bool digits() {
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ != begin;
  }

  void number(JsonValue& value) {
    const std::size_t begin = at_;
    (void)accept_word("-");
    const bool zero = peek() == '0';
    const std::size_t first = at_;
    bool fits = digits() && !(zero && at_ - first > 1), whole = true;
    if (accept_word(".")) whole = false, fits = fits && digits();
    if (accept_word("e") || accept_word("E")) {
      whole = false;
      if (!accept_word("+")) (void)accept_word("-");
      fits = fits && digits();
    }
    const char *from = text_.data() + begin, *to = text_.data() + at_;
    if (!fits) at_ = begin, fail("expected a value");
    if (whole) {
      value.kind_ = JsonValue::Kind::kInteger;
      if (std::from_chars(from, to, value.integer_).ec == std::errc{}) return;
      at_ = begin;
      fail("an integer does not fit 64 signed bits");
    }
    value.kind_ = JsonValue::Kind::kFloat;
    if (std::from_chars(from, to, value.float_).ec != std::errc{}) at_ = begin, fail("a number is beyond a double");
  }

  const JsonDocument& document_;
  std::string_view text_;
  JsonLimits limits_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

JsonDocument::JsonDocument(std::string what, std::string_view text, const JsonLimits& limits)
    : what_(std::move(what)), text_(text) {
  if (text.size() > limits.text_bytes) {
    throw Error(ErrorCode::kInvalidArgument, what_ + " has " + std::to_string(text.size()) + " bytes; at most " +
                                                 std::to_string(limits.text_bytes) + " are read");
  }
  root_ = JsonParser(*this, text, limits).parse();
}

void JsonDocument::fail(std::size_t at, const std::string& sentence) const {
  const std::string_view before = text_.substr(0, at);
  const std::size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw Error(ErrorCode::kInvalidArgument, what_ + " cannot be read at line " +
                                               std::to_string(std::count(before.begin(), before.end(), '\n') + 1) +
                                               ", column " + std::to_string(at - line_begin + 1) + ": " + sentence);
}

void JsonValue::fail(const std::string& sentence) const { document_->fail(at_, sentence); }

const JsonValue& JsonValue::expect(Kind kind, const char* what) const {
  if (kind_ != kind) fail(std::string("expected ") + what + ", found " + name_of_kind(kind_));
  return *this;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto it = std::find_if(members_.begin(), members_.end(), [&](const auto& m) { return m.first == key; });
  return it == members_.end() ? nullptr : &it->second;
}

const JsonValue& JsonValue::member(std::string_view key) const {
  (void)members();
  const JsonValue* found = find(key);
  if (!found) fail("this object lacks the member '" + std::string(key) + "'");
  return *found;
}

const std::vector<std::pair<std::string, JsonValue>>& JsonValue::members() const {
  return expect(Kind::kObject, "an object").members_;
}

const std::vector<JsonValue>& JsonValue::items(std::size_t most) const {
  const auto& list = expect(Kind::kList, "a list").items_;
  if (list.size() > most)
    fail("a list has " + std::to_string(list.size()) + " items; at most " + std::to_string(most) + " belong here");
  return list;
}

std::int64_t JsonValue::integer(std::int64_t least, std::int64_t most) const {
  const std::int64_t value = expect(Kind::kInteger, "an integer").integer_;
  if (value < least || value > most) {
    fail("expected an integer from " + std::to_string(least) + " to " + std::to_string(most) + ", found " +
         std::to_string(value));
  }
  return value;
}

std::size_t JsonValue::index(std::size_t end) const {
  const std::int64_t value = expect(Kind::kInteger, "an integer").integer_;
  if (value < 0 || static_cast<std::uint64_t>(value) >= end)
    fail("there is no number " + std::to_string(value) + " among " + std::to_string(end));
  return static_cast<std::size_t>(value);
}

double JsonValue::number() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(integer_);
  return expect(Kind::kFloat, "a number").float_;
}

bool JsonValue::boolean() const { return expect(Kind::kBool, "a bool").bool_; }
const std::string& JsonValue::text() const { return expect(Kind::kString, "a string").text_; }

std::vector<std::byte> JsonValue::bytes(std::size_t least, std::size_t most) const {
  const std::string& digits = text();
  const std::size_t count = digits.size() / 2;
  if (digits.size() % 2 != 0 || count < least || count > most) {
    fail("expected " + std::to_string(least) + (most != least ? " to " + std::to_string(most) : std::string()) +
         " bytes as pairs of hexadecimal digits, found " + std::to_string(digits.size()) + " characters");
  }
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) fail("byte " + std::to_string(i) + " is no pair of hexadecimal digits");
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return out;
}

void append_json_bytes(std::string& out, const std::byte* bytes, std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  out += '"';
}

}  // namespace slipway::internal
