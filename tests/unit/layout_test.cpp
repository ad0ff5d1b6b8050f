// Where arguments lie, by the ABI of a device: against what the compiler makes of the equivalent struct, and against
// the test vectors of the reference system's kernel ABI.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "random_structs.h"
#include "record/layout.h"
#include "record/record.h"
#include "slipway/signature.h"
#include "slipway/types.h"
#include "support/random_types.h"

namespace slipway::internal {
namespace {

constexpr std::uint64_t kControl = 0x123456789ABCDEF0;

void expect_refused(const Status& status, const std::vector<std::string>& words,
                    ErrorCode code = ErrorCode::kInvalidArgument) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), code);
  for (const std::string& word : words) {
    EXPECT_NE(status.details().sentence.find(word), std::string::npos)
        << "'" << word << "' is missing in: " << status.details().sentence;
  }
}

// --- What the compiler says ---

void expect_offsets(const ArgumentLayout& layout, std::span<const std::size_t> offsets, const char* text) {
  ASSERT_EQ(layout.slots.size(), offsets.size()) << text;
  for (std::size_t i = 0; i < offsets.size(); ++i) ASSERT_EQ(layout.slots[i].offset, offsets[i]) << text << " at " << i;
}

TEST(Layout, IsThatOfTheCompilersStruct) {
  const std::span<const RandomStruct> structs = random_structs();
  ASSERT_EQ(structs.size(), 300U);
  for (const RandomStruct& s : structs) {
    const Signature signature = parse_signature(s.signature);
    const ArgumentLayout plain = compute_layout(signature, kPlainAbi, kMaxArgumentBytes).take();
    expect_offsets(plain, s.plain, s.signature);
    EXPECT_EQ(plain.size_bytes, s.plain_size) << s.signature;
    for (const AbiDescriptor* abi : {&kNaturalAbi, &kCpuAbi, &kOpenClAbi, &kCudaAbi}) {
      const ArgumentLayout layout = compute_layout(signature, *abi, kMaxArgumentBytes).take();
      expect_offsets(layout, s.plain, s.signature);
      const ArgumentSlot& last = layout.slots.back();
      EXPECT_EQ(layout.size_bytes, last.offset + last.size) << abi->name << ": " << s.signature;
      EXPECT_FALSE(layout.has_grid_words);
    }
    const AbiDescriptor abi = ascend_abi("ascend", s.control_address, s.simt_only);
    const ArgumentLayout ascend = compute_layout(signature, abi, kMaxArgumentBytes, kControl).take();
    expect_offsets(ascend, s.ascend, s.signature);
    EXPECT_EQ(ascend.grid_offset, s.ascend_grid) << s.signature;
    EXPECT_EQ(ascend.size_bytes, s.ascend_size) << s.signature;
  }
}

struct Bytes3 {
  char c[3];
};
struct Bytes12 {
  float f[3];
};
struct Bytes24 {
  double d[2];
  char c;
};
struct alignas(16) Bytes32 {
  char c[20];
};
struct alignas(64) Bytes64 {
  char c[64];
};
using Types = std::tuple<float*, const void*, bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                         std::uint16_t, std::uint32_t, std::uint64_t, Half, BFloat16, float, double, Bytes3, Bytes12,
                         Bytes24, Bytes32, Bytes64>;

template <std::uint64_t kSeed, std::uint64_t kPlace>
using RandomType = test::RandomTypeOf<Types, kSeed, kPlace>;

template <class A, class B, class C, class D, class E, class F>
struct Struct {
  A a;
  B b;
  C c;
  D d;
  E e;
  F f;
};

struct LayoutOfCompiler {
  Signature signature;
  std::array<std::size_t, 6> offsets;
  std::array<std::size_t, 7> natural;
  std::size_t end;   // of the last member
  std::size_t size;  // of the struct
};

// The compiler lays the struct out; so must we.
template <class A, class B, class C, class D, class E, class F>
LayoutOfCompiler layout_of_compiler() {
  using S = Struct<A, B, C, D, E, F>;
  return {{detail::parameter_of<A>(), detail::parameter_of<B>(), detail::parameter_of<C>(), detail::parameter_of<D>(),
           detail::parameter_of<E>(), detail::parameter_of<F>()},
          {offsetof(S, a), offsetof(S, b), offsetof(S, c), offsetof(S, d), offsetof(S, e), offsetof(S, f)},
          detail::natural_offsets<A, B, C, D, E, F>(),
          offsetof(S, f) + sizeof(F),
          sizeof(S)};
}

void expect_same_layout(const LayoutOfCompiler& compiler) {
  const std::string text = to_string(compiler.signature);
  const ArgumentLayout layout = compute_layout(compiler.signature, kNaturalAbi, kMaxArgumentBytes).take();
  ASSERT_EQ(layout.slots.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(layout.slots[i].offset, compiler.offsets[i]) << text << " at " << i;
    ASSERT_EQ(compiler.natural[i], compiler.offsets[i]) << text << " at " << i;
  }
  ASSERT_EQ(layout.size_bytes, compiler.end) << text;
  ASSERT_EQ(compute_layout(compiler.signature, kPlainAbi, kMaxArgumentBytes).take().size_bytes, compiler.size) << text;
}

template <std::uint64_t kSeed>
void expect_random_layout() {
  expect_same_layout(layout_of_compiler<RandomType<kSeed, 0>, RandomType<kSeed, 1>, RandomType<kSeed, 2>,
                                        RandomType<kSeed, 3>, RandomType<kSeed, 4>, RandomType<kSeed, 5>>());
}

// Also of what callers pack at offsets that the compiler knows.
TEST(Layout, OfTypedArgumentsIsThatOfACStruct) {
  const auto for_each_seed = []<std::uint64_t... kSeeds>(std::integer_sequence<std::uint64_t, kSeeds...>) {
    (expect_random_layout<kSeeds>(), ...);
  };
  for_each_seed(std::make_integer_sequence<std::uint64_t, 60>{});
}

// --- The reference system's kernel ABI ---

// Hidden pointers first, bool in 4 bytes, grid words behind the arguments, the size rounded up.
TEST(Layout, TestVectorsOfAscend) {
  struct Vector {
    const char* signature;
    bool control_address;
    bool simt_only;
    std::vector<std::size_t> offsets;
    std::uint32_t grid;
    std::uint32_t size;
  };
  const Vector vectors[] = {
      {"tensor, i32, f64, bool", true, false, {24, 32, 40, 48}, 52, 64},
      {"i32, bool", false, true, {0, 4}, 8, 20},
      {"i32, i32", false, false, {16, 20}, 24, 40},
      {"tensor", false, true, {0}, 8, 24},
      {"f32, i64", false, false, {16, 24}, 32, 48},
      {"tensor, tensor, tensor, i32", true, false, {24, 32, 40, 48}, 52, 64},
      {"bool", true, true, {8}, 12, 24},
      {"", false, true, {}, 0, 12},
      {"", true, true, {}, 8, 24},
      {"i8, i16, f16, u8", false, true, {0, 2, 4, 6}, 8, 20},  // the small kinds take their natural size
      {"i8, bool, bf16, tensor", true, true, {8, 12, 16, 24}, 32, 48},
      {"bytes(3), bytes(5,2)", false, true, {0, 4}, 12, 24},
      {"bytes(4,32)", true, false, {32}, 36, 64},
  };
  for (const Vector& v : vectors) {
    const AbiDescriptor abi = ascend_abi("ascend", v.control_address, v.simt_only);
    const ArgumentLayout layout = compute_layout(parse_signature(v.signature), abi, kMaxArgumentBytes, kControl).take();
    expect_offsets(layout, v.offsets, v.signature);
    EXPECT_EQ(layout.grid_offset, v.grid) << v.signature;
    EXPECT_EQ(layout.size_bytes, v.size) << v.signature;
  }
}

TEST(Layout, FrameOfAscend) {
  std::vector<std::byte> bytes(64);
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  const Signature signature = parse_signature("tensor, i32, f64, bool");
  write_frame(compute_layout(signature, kAscendAbi, kMaxArgumentBytes, kControl).take(), {7, 8, 9}, bytes.data());
  std::vector<std::uint32_t> words;
  for (std::size_t at = 0; at < 64; at += 4) words.push_back(word(at));
  EXPECT_EQ(words, (std::vector<std::uint32_t>{0x9ABCDEF0, 0x12345678, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9}));

  // The ABI has neither, so the device's address goes nowhere, and no grid is written at the slot that has offset 0.
  std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
  for (const AbiDescriptor* abi : {&kCpuAbi, &kPlainAbi, &kOpenClAbi, &kCudaAbi}) {
    write_frame(compute_layout(signature, *abi, kMaxArgumentBytes, kControl).take(), {7, 8, 9}, bytes.data());
    EXPECT_EQ(bytes, std::vector<std::byte>(64, std::byte{0xEE})) << abi->name;
  }
}

TEST(Layout, AControlAddressMustNotBeNull) {
  expect_refused(compute_layout({}, kAscendAbi, kMaxArgumentBytes).status(), {"'ascend'", "null address"},
                 ErrorCode::kUnavailable);
  EXPECT_TRUE(compute_layout({}, kAscendSimtAbi, kMaxArgumentBytes).ok());
  EXPECT_TRUE(compute_layout({}, kCudaAbi, kMaxArgumentBytes).ok());
}

TEST(BlockCount, IsTheProductUpToALimit) {
  EXPECT_EQ(block_count({7, 8, 9}, 0), 504U);
  EXPECT_EQ(block_count({7, 8, 9}, 504), 504U);
  EXPECT_EQ(block_count({7, 8, 9}, 503), 503U);
  EXPECT_EQ(block_count({7, 0, 9}, 20), 0U);
  EXPECT_EQ(block_count({1U << 20, 1U << 20, 4}, 0), std::uint64_t{1} << 42);  // beyond 32 bits
}

// --- Refusals ---

TEST(Layout, RefusesMalformedParameters) {
  const auto status = [](const char* text) {
    return compute_layout(parse_signature(text), kNaturalAbi, kMaxArgumentBytes).status();
  };
  expect_refused(status("i32, tensor align=3"), {"parameter 1", "alignment of 3"});
  expect_refused(status("tensor align=0"), {"parameter 0", "alignment of 0"});
  expect_refused(status("bytes(4,3)"), {"parameter 0", "alignment of 3"});
  expect_refused(status("bytes(4,128)"), {"parameter 0", "alignment of 128", "at most 64"});
  expect_refused(status("bytes(0,4)"), {"parameter 0", "0 bytes"});
  expect_refused(status("bytes(4097,4)"), {"parameter 0", "4097 bytes", "4096"});
  expect_refused(status("i32, i32 range=5..4"), {"parameter 1", "empty range 5..4"});
  Signature unknown(1);
  unknown[0].kind = static_cast<ArgKind>(77);
  expect_refused(compute_layout(unknown, kNaturalAbi, kMaxArgumentBytes).status(), {"parameter 0", "77"});
}

TEST(Layout, RefusesWhatIsLargerThanTheLimit) {
  EXPECT_TRUE(compute_layout(parse_signature("bytes(4088), i64"), kNaturalAbi, 4096).ok());
  expect_refused(compute_layout(parse_signature("bytes(4089), i64"), kNaturalAbi, 4096).status(),
                 {"4104", "parameter 1", "4096"});
  // What the ABI adds by itself counts too.
  const AbiDescriptor grid{.grid_words = true};
  EXPECT_TRUE(compute_layout(parse_signature("bytes(4084)"), grid, 4096).ok());
  expect_refused(compute_layout(parse_signature("bytes(4088)"), grid, 4096).status(), {"4100", "4096"});
  expect_refused(compute_layout({}, AbiDescriptor{.reserved_pointers = 3}, 16).status(), {"24", "16"});
}

// The ABI's own limit and the record's: the smaller one holds.
TEST(Layout, LimitsOfCuda) {
  const auto status = [](const char* text, const AbiDescriptor& abi, std::uint32_t limit) {
    return compute_layout(parse_signature(text), abi, limit).status();
  };
  EXPECT_TRUE(status("bytes(4096)", kCudaAbi, 1U << 20).ok());
  expect_refused(status("bytes(4096), i8", kCudaAbi, 1U << 20), {"4097", "4096"});
  const std::string seven = "bytes(4096), bytes(4096), bytes(4096), bytes(4096), bytes(4096), bytes(4096), bytes(4096)";
  EXPECT_TRUE(status((seven + ", bytes(4092)").c_str(), kCudaLargeAbi, 1U << 20).ok());
  expect_refused(status((seven + ", bytes(4093)").c_str(), kCudaLargeAbi, 1U << 20), {"32765", "32764"});
  expect_refused(status("bytes(4096), i8", kCudaLargeAbi, kMaxArgumentBytes), {"4097", "4096"});
}

}  // namespace
}  // namespace slipway::internal
