// Signatures as text, and the names of kinds and element types.
#include "slipway/signature.h"

#include <array>
#include <charconv>
#include <utility>

#include "slipway/error.h"

namespace slipway {
namespace {

constexpr std::array<const char*, 15> kKindNames{"tensor", "i8",  "i16",  "i32", "i64", "u8",   "u16",  "u32",
                                                 "u64",    "f16", "bf16", "f32", "f64", "bool", "bytes"};
constexpr std::array<const char*, 14> kDTypeNames{"unknown", "bool", "i8",  "i16", "i32",  "i64", "u8",
                                                  "u16",     "u32",  "u64", "f16", "bf16", "f32", "f64"};

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Signature parse() {
    Signature signature;
    skip_spaces();
    if (at_ == text_.size()) return signature;
    for (;;) {
      signature.push_back(parameter());
      skip_spaces();
      if (at_ == text_.size()) return signature;
      expect(',');
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail(what, text_.substr(at_)); }
  // `where` is the part of the text that is meant.
  [[noreturn]] void fail(const std::string& what, std::string_view where) const {
    throw Error(ErrorCode::kInvalidArgument, "the signature '" + std::string(text_) + "' cannot be read at position " +
                                                 std::to_string(where.data() - text_.data()) + ": " + what);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  std::string_view word() {
    skip_spaces();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  T number() {
    skip_spaces();
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) fail("expected a whole number that fits its place");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  Parameter parameter() {
    Parameter p;
    std::string_view name = word();
    bool has_access = true;
    if (name == "in") p.access = Access::kIn;
    else if (name == "out") p.access = Access::kOut;
    else if (name == "inout") p.access = Access::kInOut;
    else has_access = false;
    if (has_access) name = word();
    p.kind = kind(name);
    if (has_access && p.kind != ArgKind::kTensor) fail("in, out and inout go with tensors only", name);
    if (p.kind == ArgKind::kTensor && accept('<')) {
      p.dtype = dtype(word());
      expect('>');
    }
    if (p.kind == ArgKind::kBytes) {
      expect('(');
      p.size_bytes = number<std::uint32_t>();
      if (accept(',')) p.align_bytes = number<std::uint32_t>();
      expect(')');
    }
    options(p);
    return p;
  }

  ArgKind kind(std::string_view name) const {
    for (std::size_t i = 0; i < kKindNames.size(); ++i) {
      if (name == kKindNames[i]) return static_cast<ArgKind>(i);
    }
    fail("'" + std::string(name) +
             "' is no argument kind; the kinds are tensor, i8 to i64, u8 to u64, f16, bf16, "
             "f32, f64, bool and bytes(N,ALIGN)",
         name);
  }
  DType dtype(std::string_view name) const {
    for (std::size_t i = 0; i < kDTypeNames.size(); ++i) {
      if (name == kDTypeNames[i]) return static_cast<DType>(i);
    }
    fail("'" + std::string(name) + "' is no element type", name);
  }

  void options(Parameter& p) {
    for (;;) {
      skip_spaces();
      if (at_ == text_.size() || text_[at_] == ',') return;
      const std::string_view name = word();
      if (name == "align" && p.kind == ArgKind::kTensor) {
        expect('=');
        p.pointer_alignment = number<std::uint32_t>();
      } else if (name == "range" && p.kind >= ArgKind::kI8 && p.kind <= ArgKind::kU64) {
        expect('=');
        p.min_value = number<std::int64_t>();
        expect('.');
        expect('.');
        p.max_value = number<std::int64_t>();
      } else {
        fail("'" + std::string(name) + "' does not belong here; tensors take align=N, integers range=A..B", name);
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const char* name_of(ArgKind kind) noexcept {
  const auto i = static_cast<std::size_t>(kind);
  return i < kKindNames.size() ? kKindNames[i] : "unknown";
}

const char* name_of(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kDTypeNames.size() ? kDTypeNames[i] : "unknown";
}

Signature parse_signature(std::string_view text) { return Parser(text).parse(); }

std::string to_string(const Signature& signature) {
  std::string text;
  for (const Parameter& p : signature) {
    if (!text.empty()) text += ", ";
    if (p.kind == ArgKind::kTensor) {
      text += p.access == Access::kIn ? "in " : p.access == Access::kOut ? "out " : "inout ";
    }
    text += name_of(p.kind);
    if (p.kind == ArgKind::kTensor && p.dtype != DType::kUnknown) text += std::string("<") + name_of(p.dtype) + ">";
    if (p.kind == ArgKind::kBytes)
      text += "(" + std::to_string(p.size_bytes) + "," + std::to_string(p.align_bytes) + ")";
    if (p.pointer_alignment != 1) text += " align=" + std::to_string(p.pointer_alignment);
    const Parameter any;
    if (p.min_value != any.min_value || p.max_value != any.max_value)
      text += " range=" + std::to_string(p.min_value) + ".." + std::to_string(p.max_value);
  }
  return text;
}

}  // namespace slipway
