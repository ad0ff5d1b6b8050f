// Reading the text of grid expressions.
#include <algorithm>
#include <charconv>
#include <string>

#include "launch/grid_rule.h"
#include "slipway/error.h"

namespace slipway::internal {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool begins_name(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> names) : text_(text), end_(text.size()), names_(names) {}

  GridPrograms parse() {
    GridPrograms programs;
    strip_tuple();
    std::size_t dimensions = 0;
    do {
      if (dimensions > 0 && at_end()) break;  // the comma of a tuple of one
      if (dimensions == programs.size()) fail(at_, "a grid has at most three dimensions");
      program_ = &programs[dimensions++];
      sum();
    } while (accept(','));
    if (!at_end()) fail(at_, "expected an operator, a comma or the end, found " + found());
    for (; dimensions < programs.size(); ++dimensions) {
      program_ = &programs[dimensions];
      emit({.op = GridOp::kConstant, .value = 1});
    }
    return programs;
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& reason) const {
    std::string shown(text_);  // what a sentence cannot contain
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    throw Error(ErrorCode::kInvalidArgument,
                "the grid '" + shown + "' cannot be read at position " + std::to_string(position) + ": " + reason);
  }
  std::string found() const {
    if (at_ >= end_) return at_ < text_.size() ? "the end of the tuple" : "the end";
    const char c = text_[at_];
    if (c > ' ' && c <= '~') return std::string("'") + c + "'";
    return "a byte of value " + std::to_string(static_cast<unsigned char>(c));
  }

  void skip_spaces() noexcept {
    while (at_ < end_ && is_space(text_[at_])) ++at_;
  }
  bool at_end() noexcept {
    skip_spaces();
    return at_ == end_;
  }
  bool accept(char c) noexcept {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // "(a, b)" as a whole is a, b; "(a) * (b)" is not such a text, and in "(a)" it makes no difference.
  void strip_tuple() noexcept {
    while (end_ > 0 && is_space(text_[end_ - 1])) --end_;
    if (at_end() || text_[at_] != '(') return;
    std::size_t depth = 0;
    for (std::size_t i = at_; i < end_; ++i) {
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) {
        if (i + 1 != end_) return;
        ++at_;
        --end_;
        return;
      }
    }
  }

  void emit(GridInstruction instruction) {
    GridFailure failure;
    if (!program_->add(instruction, failure)) fail(instruction.position, describe(failure));
  }
  void emit(GridOp op, std::size_t position) { emit({.op = op, .position = static_cast<std::uint16_t>(position)}); }

  void sum() {
    product();
    while (!at_end() && (text_[at_] == '+' || text_[at_] == '-')) {
      const std::size_t position = at_++;
      product();
      emit(text_[position] == '+' ? GridOp::kAdd : GridOp::kSubtract, position);
    }
  }

  void product() {
    operand();
    while (!at_end() && (text_[at_] == '*' || text_[at_] == '/' || text_[at_] == '%')) {
      const std::size_t position = at_++;
      const char c = text_[position];
      if (c == '/' && at_ < end_ && text_[at_] == '/') ++at_;
      operand();
      emit(c == '*' ? GridOp::kMultiply : c == '/' ? GridOp::kDivide : GridOp::kRemainder, position);
    }
  }

  void operand() {
    if (at_end()) fail(at_, "expected an integer, a name or '(', found " + found());
    const std::size_t position = at_;
    if (++nesting_ > kMaxGridNesting) {
      fail(position, "parentheses, functions and signs nest deeper than " + std::to_string(kMaxGridNesting));
    }
    const char c = text_[at_];
    if (c == '-' || c == '+') {
      ++at_;
      operand();
      if (c == '-') emit(GridOp::kNegate, position);
    } else if (c == '(') {
      ++at_;
      sum();
      close(position);
    } else if (is_digit(c)) {
      integer();
    } else if (begins_name(c)) {
      name();
    } else {
      fail(position, "expected an integer, a name or '(', found " + found());
    }
    --nesting_;
  }

  void close(std::size_t opened_at) {
    if (!accept(')')) {
      fail(at_, "expected ')' for the '(' at position " + std::to_string(opened_at) + ", found " + found());
    }
  }

  void integer() {
    const std::size_t position = at_;
    while (at_ < end_ && is_digit(text_[at_])) ++at_;
    GridInstruction constant{.op = GridOp::kConstant, .position = static_cast<std::uint16_t>(position)};
    // Other languages read 010 as eight.
    if (text_[position] == '0' && at_ - position > 1) fail(position, "an integer does not begin with 0");
    const auto [end, error] = std::from_chars(text_.data() + position, text_.data() + at_, constant.value);
    if (error != std::errc{}) fail(position, "the integer is above 9223372036854775807");
    emit(constant);
  }

  void name() {
    const std::size_t position = at_;
    while (at_ < end_ && (begins_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(position, at_ - position);
    const std::size_t opened_at = (skip_spaces(), at_);
    if (accept('(')) return function(name, position, opened_at);
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) {
      std::string all;
      for (const std::string& n : names_) all += (all.empty() ? "" : ", ") + n;
      fail(position, "'" + std::string(name) + "' is none of the kernel's parameters (" + all + ")");
    }
    emit({.op = GridOp::kArgument,
          .position = static_cast<std::uint16_t>(position),
          .source = static_cast<std::uint32_t>(it - names_.begin())});
  }

  void function(std::string_view name, std::size_t position, std::size_t opened_at) {
    const bool is_cdiv = name == "cdiv";
    const GridOp op = is_cdiv ? GridOp::kCeilDivide : name == "min" ? GridOp::kMin : GridOp::kMax;
    if (!is_cdiv && name != "min" && name != "max") {
      fail(position, "'" + std::string(name) + "' is no function; there are cdiv, min and max");
    }
    std::size_t arguments = 0;
    do {
      sum();
      if (++arguments > 1) emit(op, position);
    } while (accept(','));
    close(opened_at);
    if (arguments < 2 || (is_cdiv && arguments > 2)) {
      fail(position, std::string(name) + " takes two arguments" + (is_cdiv ? "" : " or more") + ", and has " +
                         std::to_string(arguments));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t end_;
  std::span<const std::string> names_;
  GridProgram* program_ = nullptr;
  int nesting_ = 0;
};

void check_names(std::span<const std::string> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (name.empty()) continue;  // nothing refers to it
    const bool good = begins_name(name.front()) &&
                      std::all_of(name.begin(), name.end(), [](char c) { return begins_name(c) || is_digit(c); });
    if (!good) {
      throw Error(ErrorCode::kInvalidArgument, "name " + std::to_string(i) + " of the parameters of a grid is '" +
                                                   name + "', which no text can contain; use letters, digits and _");
    }
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw Error(ErrorCode::kInvalidArgument, "the parameters of a grid have the name '" + name +
                                                   "' twice, the second time at " + std::to_string(i) +
                                                   "; give each its own");
    }
  }
}

}  // namespace

GridPrograms parse_grid(std::string_view text, std::span<const std::string> names) {
  check_names(names);
  if (text.size() > kMaxGridText) {
    throw Error(ErrorCode::kInvalidArgument, "the text of a grid has " + std::to_string(text.size()) +
                                                 " characters; the limit is " + std::to_string(kMaxGridText) +
                                                 ", so shorten it or give a function");
  }
  return Parser(text, names).parse();
}

}  // namespace slipway::internal
