// Grid rules: what texts mean and which are refused, evaluation beside a reference, rules bound to plans.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "grid_fixture.h"
#include "slipway/error.h"

namespace slipway::internal {
namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kLeast = INT64_MIN, kMost = INT64_MAX;

std::string message_of(const std::function<void()>& call, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_FALSE(error.stable());
    EXPECT_FALSE(error.submitted());
    return error.what();
  }
  return "nothing was refused";
}

void expect_refused(const std::string& label, std::initializer_list<std::string_view> parts,
                    const std::function<void()>& call, ErrorCode code = ErrorCode::kInvalidArgument) {
  const std::string message = message_of(call, code);
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << label << " lacks '" << part << "': " << message;
  }
}

const Names kNames{"n", "m", "out"};
constexpr std::string_view kSignature = "i64, i64, tensor";

Extent evaluate(const std::string& text, std::int64_t n = 0, std::int64_t m = 0) {
  return Bound(GridRule::expression(text, kNames), kSignature)({n, m, DevicePtr{64}});
}

std::vector<std::int64_t> list(const Extent& e) { return {e.x, e.y, e.z}; }
using List = std::vector<std::int64_t>;

// --- What texts mean ---

TEST(GridExpression, DimensionsLeftOutAreOneAndTuplesAreLists) {
  EXPECT_EQ(list(evaluate("n", 5)), (List{5, 1, 1}));
  EXPECT_EQ(list(evaluate("n, m", 5, 6)), (List{5, 6, 1}));
  EXPECT_EQ(list(evaluate("n, m, n - m", 5, 6)), (List{5, 6, -1}));
  for (const char* text : {"(n,)", "n,", "(n)", " ( n , ) ", "((n))", "((n),)", "(\tn\r\n)"}) {
    EXPECT_EQ(list(evaluate(text, 5)), (List{5, 1, 1})) << text;
  }
  EXPECT_EQ(list(evaluate("(n, m)", 5, 6)), (List{5, 6, 1}));
  EXPECT_EQ(list(evaluate("(n, m, 3,)", 5, 6)), (List{5, 6, 3}));
  EXPECT_EQ(list(evaluate("(n + 1) * (m), 2", 5, 6)), (List{36, 2, 1})) << "parentheses that are no tuple";
  EXPECT_EQ(list(evaluate("(n), (m)", 5, 6)), (List{5, 6, 1}));
}

struct Meaning {
  const char* text;
  std::int64_t n, m, result;
};

// The results are what Python says for the same text, with // for / and math.ceil for cdiv.
constexpr Meaning kMeanings[] = {
    {"n + m * 2", 3, 4, 11},
    {"(n + m) * 2", 3, 4, 14},
    {"n - m - 1", 3, 4, -2},
    {"n * m // 5 * 2", 3, 4, 4},
    {"100 / n / m", 3, 4, 8},
    {"n // m", 7, 2, 3},
    {"n // m", -7, 2, -4},
    {"n // m", 7, -2, -4},
    {"n // m", -7, -2, 3},
    {"n // m", -8, 2, -4},
    {"n / m", -7, 2, -4},
    {"n % m", 7, 2, 1},
    {"n % m", -7, 2, 1},
    {"n % m", 7, -2, -1},
    {"n % m", -7, -2, -1},
    {"n % m", -8, 2, 0},
    {"n % m", kLeast, -1, 0},
    {"n % m", kLeast, kMost, kMost - 1},
    {"cdiv(n, m)", 7, 2, 4},
    {"cdiv(n, m)", 8, 2, 4},
    {"cdiv(n, m)", -7, 2, -3},
    {"cdiv(n, m)", 7, -2, -3},
    {"cdiv(n, m)", -7, -2, 4},
    {"cdiv(n, m)", kMost, kMost, 1},
    {"cdiv(n, m)", kMost, 2, (kMost - 1) / 2 + 1},
    {"cdiv(n, 128)", 0, 0, 0},
    {"cdiv(n, 128)", 1, 0, 1},
    {"cdiv(n, 128)", 128, 0, 1},
    {"cdiv(n, 128)", 129, 0, 2},
    {"-(-n // m)", 7, 2, 4},
    {"-(-n//m)", 8, 2, 4},
    {"-n // m", 7, 2, -4},
    {"- -n", 7, 0, 7},
    {"-+-n", 7, 0, 7},
    {"n - -m", 7, 2, 9},
    {"n--m", 7, 2, 9},
    {"2 * -n", 7, 0, -14},
    {"-n % m", 7, 4, 1},
    {"min(n, m)", 3, 4, 3},
    {"max(n, m)", 3, 4, 4},
    {"min(n, m, -1, 2)", 3, 4, -1},
    {"max(n, m, min(9, m * 3, 10))", 3, 4, 9},
    {"min (n, m)", 3, 4, 3},
    {"(n + 63) // 64 * ((m + 15) // 16)", 100, 33, 6},
    {"9223372036854775807 + n", kLeast, 0, -1},
    {"-9223372036854775807 - n", 1, 0, kLeast},
    {"n", kMost, 0, kMost},
    {"n", kLeast, 0, kLeast},
    {"5 - n", 3, 0, 2},
    {"5 // n", 2, 0, 2},
    {"0", 0, 0, 0},
};

TEST(GridExpression, MeansWhatGeneratedPythonMeans) {
  for (const Meaning& meaning : kMeanings) {
    EXPECT_EQ(evaluate(meaning.text, meaning.n, meaning.m).x, meaning.result)
        << meaning.text << " with n = " << meaning.n << ", m = " << meaning.m;
  }
}

TEST(GridExpression, IsConstantWithoutNamesOnly) {
  const auto constant = [](const char* text) { return GridRule::expression(text, kNames).constant(); };
  ASSERT_TRUE(constant("4, 2 + 3, cdiv(9, 2)"));
  EXPECT_EQ(list(*constant("4, 2 + 3, cdiv(9, 2)")), (List{4, 5, 5}));
  EXPECT_EQ(list(*constant("-(-9 // 2) - 7 % 4, max(1, 2, 3)")), (List{2, 3, 1}));
  EXPECT_FALSE(constant("4, n"));
  EXPECT_FALSE(constant("n - n"));
  EXPECT_FALSE(constant("1, 1, 0 * m"));
  EXPECT_FALSE(GridRule::function([](const GridArguments&) { return Extent{}; }).constant());
}

// --- What is refused ---

struct Refusal {
  std::string text;
  std::size_t position;
  const char* reason;
};

TEST(GridExpression, RefusesBadTextsWithPositionAndReason) {
  const Refusal refusals[] = {
      {"", 0, "found the end"},
      {"  ", 0, "found the end"},
      {"()", 1, "found the end of the tuple"},
      {",", 0, "found ','"},
      {"n,,m", 2, "found ','"},
      {"n, m, 1, 2", 9, "at most three"},
      {"(n, m, 1, 2)", 10, "at most three"},
      {"n m", 2, "found 'm'"},
      {"1.5", 1, "found '.'"},
      {"n +", 3, "found the end"},
      {"n + * m", 4, "found '*'"},
      {"n ** 2", 3, "found '*'"},
      {"n /// m", 4, "found '/'"},
      {"n < m", 2, "found '<'"},
      {"n & m", 2, "found '&'"},
      {"n[0]", 1, "found '['"},
      {"0x10", 1, "found 'x'"},
      {"010", 0, "begin with 0"},
      {"00", 0, "begin with 0"},
      {"1_000", 1, "found '_'"},
      {"n + 9223372036854775808", 4, "above 9223372036854775807"},
      {"99999999999999999999999999", 0, "above 9223372036854775807"},
      {"k", 0, "'k' is none of the kernel's parameters (n, m, out)"},
      {"n + nn", 4, "'nn' is none"},
      {"1, cdiv(n, k)", 11, "'k' is none"},
      {"lambda", 0, "'lambda' is none"},
      {"cdiv", 0, "'cdiv' is none"},
      {"pow(n, 2)", 0, "'pow' is no function"},
      {"n(3)", 0, "'n' is no function"},
      {"cdiv(n)", 0, "takes two arguments, and has 1"},
      {"cdiv(n, m, 1)", 0, "takes two arguments, and has 3"},
      {"1 + min(n)", 4, "takes two arguments or more, and has 1"},
      {"max()", 4, "found ')'"},
      {"max(n,)", 6, "found ')'"},
      {"max(n, m", 8, "expected ')' for the '(' at position 3, found the end"},
      {"(n", 2, "expected ')' for the '(' at position 0"},
      {"n)", 1, "found ')'"},
      {"(n))", 3, "found ')'"},
      {"(n, m", 2, "expected ')' for the '(' at position 0, found ','"},
      {"n, (m", 5, "expected ')' for the '(' at position 3"},
      {"n\x01", 1, "a byte of value 1"},
      {"n \xC3\x97 m", 2, "a byte of value 195"},
      {std::string("n\0m", 3), 1, "a byte of value 0"},
      {"n + 5 / 0", 6, "5 / 0 divides by zero"},
      {"1, 5 % (2 - 2)", 5, "5 % 0 divides by zero"},
      {"cdiv(3, 0)", 0, "cdiv(3, 0) divides by zero"},
      {"9223372036854775807 + 1", 20, "9223372036854775807 + 1 does not fit"},
      {"-(-9223372036854775807 - 1)", 0, "-(-9223372036854775808) does not fit"},
      {"(-9223372036854775807 - 1) / -1", 27, "-9223372036854775808 / (-1) does not fit"},
      {"cdiv(-9223372036854775807 - 1, -1)", 0, "does not fit"},
      {"4294967296 * 4294967296", 11, "does not fit"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string at = "cannot be read at position " + std::to_string(refusal.position) + ": ";
    expect_refused("'" + refusal.text + "'", {at, refusal.reason},
                   [&] { (void)GridRule::expression(refusal.text, kNames); });
  }
}

TEST(GridExpression, RefusesNamesThatCannotBeTold) {
  expect_refused("twice", {"'n' twice", "at 2"}, [] { (void)GridRule::expression("n", {"n", "m", "n"}); });
  expect_refused("no name", {"name 1", "'a b'"}, [] { (void)GridRule::expression("n", {"n", "a b"}); });
  expect_refused("no name", {"name 0", "'1n'"}, [] { (void)GridRule::expression("1", {"1n"}); });
  EXPECT_EQ(list(Bound(GridRule::expression("_n9", {"", "_n9", ""}), "i32, i32, i32")({1, 2, 3})), (List{2, 1, 1}));
  EXPECT_EQ(list(Bound(GridRule::expression("min + max(min, 2)", {"min"}), "i32")({5})), (List{10, 1, 1}))
      << "a parameter may be named like a function";
  expect_refused("an empty function", {"empty"}, [] { (void)GridRule::function({}); });
}

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(GridExpression, LimitsNestingAndLength) {
  // 31 levels around the name, which is the last; outer parentheses alone would be taken for a tuple's.
  const int most = kMaxGridNesting - 1;
  EXPECT_EQ(evaluate("0 + " + repeated("(", most) + "n" + repeated(")", most), 5).x, 5);
  EXPECT_EQ(evaluate(repeated("-", most) + "n", 5).x, most % 2 ? -5 : 5);
  EXPECT_EQ(evaluate(repeated("min(9, ", most) + "n" + repeated(")", most), 5).x, 5);
  for (const char* opening : {"(", "-", "min(9, "}) {
    const std::string text = "0 + " + repeated(opening, most + 1) + "n" + repeated(")", most + 1);
    // The first operand of the 33rd level: in the last function that is its 9.
    const std::size_t within = *opening == 'm' ? std::strlen(opening) - std::strlen("9, ") : std::strlen(opening);
    const std::size_t at = 4 + std::strlen(opening) * most + within;
    expect_refused(opening, {"position " + std::to_string(at) + ":", "deeper than 32"},
                   [&] { (void)GridRule::expression(text, kNames); });
  }
  // Every level holds all that it can: the left sides of a sum and of a product, and a least argument.
  std::string text = "n";
  for (int i = 0; i < most; ++i) text = "min(n + m, n + 1 * n * " + text + ")";
  EXPECT_EQ(evaluate("n + m * " + text, 1, 0).x, 1);

  const std::string ones = "n" + repeated("+1", (static_cast<int>(kMaxGridText) - 1) / 2);
  EXPECT_EQ(evaluate(ones + " ", 0).x, (static_cast<int>(kMaxGridText) - 1) / 2);
  expect_refused("long", {"4001 characters", "limit is 4000"},
                 [&] { (void)GridRule::expression(ones + "  ", kNames); });
}

// --- Evaluation ---

TEST(GridExpression, RefusesCallsWithoutAResultNamingPositionAndValues) {
  struct Case {
    const char* text;
    std::int64_t n, m;
    std::size_t position;
    const char* reason;
  };
  const Case cases[] = {
      {"cdiv(n, m)", 7, 0, 0, "cdiv(7, 0) divides by zero, with n = 7, m = 0;"},
      {"1, n // m, 1", 7, 0, 5, "7 / 0 divides by zero, with n = 7, m = 0;"},
      {"n % (m - 3)", 7, 3, 2, "7 % 0 divides by zero, with n = 7, m = 3;"},
      {"5 / n", 0, 0, 2, "5 / 0 divides by zero, with n = 0;"},
      {"n / m", kLeast, -1, 2, "-9223372036854775808 / (-1) does not fit a signed 64-bit integer, with n = -92"},
      {"cdiv(n, -1)", kLeast, 0, 0, "does not fit"},
      {"n / -1", kLeast, 0, 2, "does not fit"},
      {"-n", kLeast, 0, 0, "-(-9223372036854775808) does not fit"},
      {"n + 1", kMost, 0, 2, "9223372036854775807 + 1 does not fit"},
      {"n - 1", kLeast, 0, 2, "-9223372036854775808 - 1 does not fit"},
      {"n * m", std::int64_t{1} << 32, std::int64_t{1} << 31, 2, "4294967296 * 2147483648 does not fit"},
      {"1, 1, m + m * n", 2, kMost, 12,
       "* 2 does not fit a signed 64-bit integer, with m = 9223372036854775807, n = 2;"},
  };
  for (const Case& c : cases) {
    const Bound bound(GridRule::expression(c.text, kNames), kSignature);
    const std::string at = "of kernel 'k' has no result at position " + std::to_string(c.position) + ": ";
    for (int twice = 0; twice < 2; ++twice) {
      expect_refused(c.text, {"the grid '" + std::string(c.text) + "'", at, c.reason}, [&] {
        (void)bound({c.n, c.m, DevicePtr{64}});
      });
    }
    EXPECT_NO_THROW((void)bound({3, 2, DevicePtr{64}})) << c.text << ": the next call is a new one";
  }
}

// --- Bound to a plan ---

TEST(PlanGrid, LoadsEveryIntegerKind) {
  const Names names{"a", "b", "c", "d", "e", "f", "g", "h"};
  constexpr std::string_view kKinds = "i8, u8, i16, u16, i32, u32, i64, u64";
  const std::vector<Argument> values{std::int8_t{-128},
                                     std::uint8_t{255},
                                     std::int16_t{-32768},
                                     std::uint16_t{65535},
                                     std::int32_t{INT32_MIN},
                                     std::uint32_t{UINT32_MAX},
                                     kLeast,
                                     std::uint64_t{kMost}};
  const List wanted{-128, 255, -32768, 65535, INT32_MIN, UINT32_MAX, kLeast, kMost};
  const Bound function(GridRule::function([&](const GridArguments& a) {
                         EXPECT_EQ(a.size(), 8U);
                         for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(a[i], wanted[i]) << i;
                         return Extent{a[0], a[1], a[2]};
                       }),
                       kKinds);
  EXPECT_EQ(list(function(values)), (List{-128, 255, -32768}));
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(Bound(GridRule::expression(names[i], names), kKinds)(values).x, wanted[i]) << names[i];
  }
}

TEST(PlanGrid, RefusesArgumentsThatAreNoIntegersWithTheirPosition) {
  const Names names{"n", "x", "f", "h", "b", "p"};
  constexpr std::string_view kKinds = "i32, in tensor<f32>, f32, bf16, bool, bytes(8,4)";
  const char* const kinds[] = {"in tensor<f32>", "f32", "bf16", "bool", "bytes(8,4)"};
  for (std::size_t i = 1; i < names.size(); ++i) {
    const GridRule rule = GridRule::expression("n, n * " + names[i], names);
    expect_refused(names[i],
                   {"position 7:", "'" + names[i] + "', argument " + std::to_string(i) + " of kernel 'k'", kinds[i - 1],
                    "i8 to u64"},
                   [&] { (void)Bound(rule, kKinds); });
  }
  const Bound function(GridRule::function([](const GridArguments& a) { return Extent{a[1], 1, 1}; }), "i32, tensor");
  expect_refused("a tensor", {"grid function", "'k'", "argument 1", "no integer"}, [&] {
    (void)function({1, DevicePtr{64}});
  });
}

TEST(PlanGrid, WantsTheNamesOfAllParameters) {
  const GridRule rule = GridRule::expression("n", {"n", "m"});
  expect_refused("two of three", {"'n'", "2 parameters", "has 3", "i32, i32, i32"},
                 [&] { (void)Bound(rule, "i32, i32, i32"); });
  expect_refused("two of one", {"2 parameters", "has 1"}, [&] { (void)Bound(rule, "i32"); });
  EXPECT_TRUE(Bound(GridRule::expression("3, 2", {}), "i32, i32").grid().constant()) << "names that nothing uses";
}

TEST(PlanGrid, TakesFixedArgumentsWhenThePlanIsMade) {
  const GridRule rule = GridRule::expression("cdiv(n, block), block", {"n", "block"});
  const Bound some(rule, "i32, i32", {{1, 64}});
  EXPECT_FALSE(some.grid().constant());
  EXPECT_EQ(list(some({65})), (List{2, 64, 1}));
  const Bound all(rule, "i32, i32", {{1, 64}, {0, 100}});
  ASSERT_TRUE(all.grid().constant());
  EXPECT_EQ(list(*all.grid().constant()), (List{2, 64, 1}));
  const Bound function(GridRule::function([](const GridArguments& a) {
                         return Extent{a[0], a[1], a[2]};
                       }),
                       "i32, u64, i8", {{1, 64}, {0, -3}});
  EXPECT_FALSE(function.grid().constant());
  EXPECT_EQ(list(function({std::int8_t{5}})), (List{-3, 64, 5}));

  expect_refused("no result", {"position 0:", "cdiv(8, 0) divides by zero", "n = 8, block = 0"}, [&] {
    (void)Bound(rule, "i32, i32", {{1, 0}, {0, 8}});
  });
  expect_refused("another kind", {"argument 1", "a float"}, [&] { (void)Bound(rule, "i32, i32", {{1, 64.0}}); });
  expect_refused("too large", {"argument 1", "300", "i8"}, [&] { (void)Bound(rule, "i32, i8", {{1, 300}}); });
}

TEST(PlanGrid, RefusesUnsignedValuesBeyondSigned64Bits) {
  constexpr std::uint64_t kLarge = std::uint64_t{kMost} + 1;
  const GridRule rule = GridRule::expression("1 + n, m", {"n", "m"});
  const Bound bound(rule, "u64, i32");
  expect_refused("n", {"position 4:", "'n'", "9223372036854775808", "up to 9223372036854775807"}, [&] {
    (void)bound({kLarge, 1});
  });
  EXPECT_EQ(list(bound({std::uint64_t{5}, 1})), (List{6, 1, 1}));
  EXPECT_EQ(Bound(GridRule::expression("m", {"n", "m"}), "u64, i32")({kLarge, 4}).x, 4) << "where it is not used";
  expect_refused("fixed", {"'n'", "9223372036854775808"}, [&] { (void)Bound(rule, "u64, i32", {{0, kLarge}}); });
  const GridRule first = GridRule::function([](const GridArguments& a) { return Extent{a[0], 1, 1}; });
  expect_refused("function", {"argument 0", "9223372036854775808"}, [&] { (void)Bound(first, "u64")({kLarge}); });
  expect_refused("function, fixed", {"argument 0", "9223372036854775808"}, [&] {
    (void)Bound(first, "u64", {{0, kLarge}})({});
  });
}

TEST(PlanGrid, AFunctionRefusesACallByThrowing) {
  const Bound bound(GridRule::function([](const GridArguments& a) {
                      if (a[0] == 1) throw std::runtime_error("one is odd");
                      if (a[0] == 2) throw 5;
                      return Extent{a[a[0] == 3 ? 9 : 0], 1, 1};
                    }),
                    "i32");
  expect_refused("std::exception", {"grid function", "'k'", "'one is odd'"}, [&] { (void)bound({1}); });
  expect_refused("anything", {"grid function", "'k'", "no std::exception"}, [&] { (void)bound({2}); });
  expect_refused(
      "Error", {"grid function", "argument 9", "it has 1"}, [&] { (void)bound({3}); }, ErrorCode::kOutOfRange);
  EXPECT_EQ(bound({4}).x, 4);
}

}  // namespace
}  // namespace slipway::internal
