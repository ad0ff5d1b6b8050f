// Grid expressions beside a reference, which computes in 128 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "grid_fixture.h"
#include "slipway/error.h"

namespace slipway::internal {
namespace {

constexpr std::int64_t kLeast = INT64_MIN, kMost = INT64_MAX;

// The same expression as text and as a value, computed in 128 bits and checked after each operation.
struct Random {
  __extension__ using Wide = __int128;
  struct Value {
    std::string text;
    Wide value = 0;
    bool valid = true;
    int binding = 3;  // 1: a sum, 2: a product, 3: neither
  };

  explicit Random(std::uint64_t seed) : engine(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine() % n; }
  std::int64_t number() {
    switch (below(6)) {
      case 0: return static_cast<std::int64_t>(engine());
      case 1: return below(2) ? kMost : kLeast;
      case 2: return static_cast<std::int64_t>(below(3)) - 1;
      default: return static_cast<std::int64_t>(below(2000)) - 1000;
    }
  }

  static Wide floor_of(Wide a, Wide b) {
    Wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
  }
  static Value within(Value v) {
    v.valid = v.valid && v.value >= kLeast && v.value <= kMost;
    return v;
  }
  std::string wrapped(const Value& v, int binding) {
    return v.binding < binding || below(8) == 0 ? "(" + v.text + ")" : v.text;
  }

  Value make(int depth) {
    const std::uint64_t what = depth == 0 ? below(2) : below(10);
    if (what == 0) {
      const std::size_t i = below(4);
      return {names[i], values[i], true, 3};
    }
    if (what == 1) {
      const auto v = static_cast<std::int64_t>(below(8) ? below(300) : below(kMost));
      return {std::to_string(v), v, true, 3};
    }
    if (what == 2) {
      const Value a = make(depth - 1);
      return within({"-" + wrapped(a, 3), -a.value, a.valid, 3});
    }
    const Value a = make(depth - 1), b = make(depth - 1);
    Value v{{}, 0, a.valid && b.valid, 3};
    const bool divides = what >= 6 && what <= 8;
    if (!v.valid || (divides && b.value == 0)) v.valid = false;
    const char* space = below(2) ? " " : "";
    const auto infix = [&](const char* op, int binding) {
      // The right side of the same binding would be taken with the left one first.
      v.text = wrapped(a, binding) + space + op + space + wrapped(b, binding + 1);
      v.binding = binding;
    };
    switch (what) {
      case 3: infix("+", 1), v.value = a.value + b.value; break;
      case 4: infix("-", 1), v.value = a.value - b.value; break;
      case 5: infix("*", 2), v.value = v.valid ? a.value * b.value : 0; break;
      case 6: infix(below(2) ? "/" : "//", 2), v.value = v.valid ? floor_of(a.value, b.value) : 0; break;
      case 7: infix("%", 2), v.value = v.valid ? a.value - floor_of(a.value, b.value) * b.value : 0; break;
      case 8:
        v.text = "cdiv(" + a.text + "," + b.text + ")", v.value = v.valid ? -floor_of(-a.value, b.value) : 0;
        break;
      default: {
        const Value c = make(depth - 1);
        const bool least = below(2) != 0;
        v.text = std::string(least ? "min(" : "max(") + a.text + ", " + b.text + ", " + c.text + ")";
        v.valid = v.valid && c.valid;
        v.value = least ? std::min({a.value, b.value, c.value}) : std::max({a.value, b.value, c.value});
      }
    }
    return within(v);
  }

  std::mt19937_64 engine;
  std::string names[4] = {"a", "b", "c", "d"};
  std::int64_t values[4] = {};
};

TEST(GridExpression, AgreesWithAReferenceOnRandomExpressions) {
  int good = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    Random random(seed);
    for (std::int64_t& v : random.values) v = random.number();
    // Narrower kinds hold what fits them.
    random.values[1] = static_cast<std::int32_t>(random.values[1]);
    random.values[2] = static_cast<std::uint16_t>(random.values[2]);
    random.values[3] = static_cast<std::int8_t>(random.values[3]);
    const Random::Value wanted = random.make(static_cast<int>(seed % 5));
    if (wanted.text.size() > kMaxGridText) continue;
    const std::string text = "7, " + wanted.text + ", 1";
    // Sometimes b is known when the plan is made.
    const bool b_is_fixed = random.below(3) == 0;
    const auto got = [&] {
      const std::int64_t* v = random.values;
      const auto b = static_cast<std::int32_t>(v[1]);
      const auto c = static_cast<std::uint16_t>(v[2]);
      const auto d = static_cast<std::int8_t>(v[3]);
      const GridRule rule = GridRule::expression(text, {"c", "t", "a", "d", "b"});
      constexpr std::string_view kKinds = "u16, tensor, i64, i8, i32";
      if (!b_is_fixed) return Bound(rule, kKinds)({c, DevicePtr{64}, v[0], d, b}).y;
      return Bound(rule, kKinds, {{4, b}})({c, DevicePtr{64}, v[0], d}).y;
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text);
    if (wanted.valid) {
      EXPECT_EQ(got(), static_cast<std::int64_t>(wanted.value));
      ++good;
    } else {
      EXPECT_THROW((void)got(), Error);
      ++refused;
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(good, 5000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace slipway::internal
