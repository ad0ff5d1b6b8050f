// What src/record promises: 16-bit floats, signatures, packing, and the ring and the tape. Layouts: layout_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "record/layout.h"
#include "record/record.h"
#include "record/ring.h"
#include "record/tape.h"
#include "slipway/argument.h"
#include "slipway/signature.h"
#include "slipway/types.h"

namespace slipway::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void expect_refused(const Status& status, const std::vector<std::string>& words) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_NE(status.details().sentence.find(word), std::string::npos)
        << "'" << word << "' is missing in: " << status.details().sentence;
  }
}

// --- 16-bit floats ---

std::uint16_t u16(unsigned value) { return static_cast<std::uint16_t>(value); }

// binary16 by the definition of the standard, written another way than half.cpp does it.
double half_by_definition(unsigned bits) {
  const unsigned exponent = (bits >> 10) & 31U, fraction = bits & 1023U;
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? kNaN : sign * kInfinity;
  if (exponent == 0) return sign * fraction * std::pow(2.0, -24);
  return sign * (1.0 + fraction / 1024.0) * std::pow(2.0, static_cast<int>(exponent) - 15);
}

double bfloat16_by_definition(unsigned bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

TEST(Half, AllPatternsRoundTrip) {
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
    const double value = Half{u16(bits)}.value();
    const double expected = half_by_definition(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(Half::from(value).bits & 0x7FFF, 0x7E00) << bits;
      ASSERT_EQ(Half::from(value).bits & 0x8000, static_cast<int>(bits & 0x8000U)) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
      ASSERT_EQ(Half::from(value).bits, bits);
    }
  }
}

TEST(BFloat16, AllPatternsRoundTrip) {
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
    const double value = BFloat16{u16(bits)}.value();
    const double expected = bfloat16_by_definition(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(BFloat16::from(value).bits & 0x7FFF, 0x7FC0) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(BFloat16::from(value).bits, bits);
    }
  }
}

// Between each pair of neighbours: halfway goes to the even one, anything else to the nearer one.
template <class Float>
void expect_rounding(unsigned largest_finite) {
  for (unsigned low = 0; low < largest_finite; ++low) {
    const double a = Float{u16(low)}.value(), b = Float{u16(low + 1)}.value();
    const double middle = a / 2 + b / 2;
    const unsigned even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(Float::from(middle).bits, even) << middle;
    ASSERT_EQ(Float::from(std::nextafter(middle, a)).bits, low) << middle;
    ASSERT_EQ(Float::from(std::nextafter(middle, b)).bits, low + 1) << middle;
    ASSERT_EQ(Float::from(-middle).bits, even | 0x8000U) << middle;
  }
}

TEST(Half, RoundsToNearestEven) { expect_rounding<Half>(0x7BFF); }
TEST(BFloat16, RoundsToNearestEven) { expect_rounding<BFloat16>(0x7F7F); }

TEST(Half, KnownValues) {
  EXPECT_EQ(Half::from(42.0).bits, 0x5140);
  EXPECT_EQ(Half::from(1.0).bits, 0x3C00);
  EXPECT_EQ(Half::from(-0.0).bits, 0x8000);
  EXPECT_EQ(Half::from(65504.0).bits, 0x7BFF);
  EXPECT_EQ(Half::from(std::nextafter(65520.0, 0.0)).bits, 0x7BFF);
  EXPECT_EQ(Half::from(65520.0).bits, 0x7C00);
  EXPECT_EQ(Half::from(1e300).bits, 0x7C00);
  EXPECT_EQ(Half::from(-1e300).bits, 0xFC00);
  EXPECT_EQ(Half::from(std::ldexp(1.0, -25)).bits, 0x0000);  // half of the smallest: to even, which is zero
  EXPECT_EQ(Half::from(std::nextafter(std::ldexp(1.0, -25), 1.0)).bits, 0x0001);
  EXPECT_EQ(Half::from(std::numeric_limits<double>::denorm_min()).bits, 0x0000);
}

TEST(BFloat16, KnownValues) {
  EXPECT_EQ(BFloat16::from(0.1).bits, 0x3DCD);
  EXPECT_EQ(BFloat16::from(1.0).bits, 0x3F80);
  EXPECT_EQ(BFloat16::from(-0.0).bits, 0x8000);
  EXPECT_EQ(BFloat16::from(static_cast<double>(std::numeric_limits<float>::max())).bits, 0x7F80);
  EXPECT_EQ(BFloat16::from(kInfinity).bits, 0x7F80);
  EXPECT_EQ(BFloat16::from(-1e300).bits, 0xFF80);
}

// --- Signatures as text ---

TEST(Signature, ReadsWhatTheHeaderShows) {
  const Signature s = parse_signature("in tensor<f32> align=16, out tensor, i32 range=0..4096, bytes(12,4)");
  ASSERT_EQ(s.size(), 4U);
  EXPECT_EQ(s[0].kind, ArgKind::kTensor);
  EXPECT_EQ(s[0].access, Access::kIn);
  EXPECT_EQ(s[0].dtype, DType::kF32);
  EXPECT_EQ(s[0].pointer_alignment, 16U);
  EXPECT_EQ(s[1].access, Access::kOut);
  EXPECT_EQ(s[1].dtype, DType::kUnknown);
  EXPECT_EQ(s[2].kind, ArgKind::kI32);
  EXPECT_EQ(s[2].min_value, 0);
  EXPECT_EQ(s[2].max_value, 4096);
  EXPECT_EQ(s[3].kind, ArgKind::kBytes);
  EXPECT_EQ(s[3].size_bytes, 12U);
  EXPECT_EQ(s[3].align_bytes, 4U);
  EXPECT_EQ(to_string(s), "in tensor<f32> align=16, out tensor, i32 range=0..4096, bytes(12,4)");
}

TEST(Signature, EmptyTextAndSpaces) {
  EXPECT_TRUE(parse_signature("").empty());
  EXPECT_TRUE(parse_signature(" \t\n").empty());
  EXPECT_EQ(to_string({}), "");
  EXPECT_EQ(parse_signature("  i8 ,\n bytes ( 3 )\t, tensor < bf16 > align = 4 "),
            parse_signature("i8,bytes(3),tensor<bf16> align=4"));
  EXPECT_EQ(parse_signature("tensor")[0].access, Access::kInOut);
  EXPECT_EQ(parse_signature("bytes(3)")[0].align_bytes, 1U);
}

Parameter random_parameter(std::mt19937_64& random) {
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  Parameter p;
  p.kind = static_cast<ArgKind>(pick(15));
  if (p.kind == ArgKind::kTensor) {
    p.access = static_cast<Access>(pick(3));
    p.dtype = static_cast<DType>(pick(14));
    p.pointer_alignment = 1U << pick(12);
  } else if (p.kind == ArgKind::kBytes) {
    p.size_bytes = 1 + static_cast<std::uint32_t>(pick(300));
    p.align_bytes = 1U << pick(7);
  } else if (p.kind >= ArgKind::kI8 && p.kind <= ArgKind::kU64 && pick(2) == 0) {
    p.min_value = static_cast<std::int64_t>(random());
    p.max_value = static_cast<std::int64_t>(random());
    if (p.min_value > p.max_value) std::swap(p.min_value, p.max_value);
  }
  return p;
}

TEST(Signature, RandomOnesRoundTrip) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 2000; ++round) {
    Signature s(random() % 9);
    for (Parameter& p : s) p = random_parameter(random);
    const std::string text = to_string(s);
    ASSERT_EQ(parse_signature(text), s) << text;
  }
}

TEST(Signature, RefusalsNameThePosition) {
  struct Case {
    const char* text;
    std::size_t position;
    const char* words;
  };
  const Case cases[] = {
      {"int", 0, "'int' is no argument kind"},
      {"i32, ", 5, "no argument kind"},
      {"i32,,i32", 4, "no argument kind"},
      {"i32 i64", 4, "'i64' does not belong here"},
      {"i32, f31", 5, "'f31' is no argument kind"},
      {"in i32", 3, "go with tensors only"},
      {"tensor<f31>", 7, "'f31' is no element type"},
      {"tensor<f32", 10, "expected '>'"},
      {"tensor align=x", 13, "whole number"},
      {"tensor align=-4", 13, "whole number"},
      {"tensor align=4294967296", 13, "whole number"},
      {"tensor align 4", 13, "expected '='"},
      {"tensor range=1..2", 7, "'range' does not belong here"},
      {"i32 align=4", 4, "'align' does not belong here"},
      {"f32 range=0..1", 4, "'range' does not belong here"},
      {"bool range=0..1", 5, "'range' does not belong here"},
      {"i32 range=1.2", 12, "expected '.'"},
      {"i32 range=..2", 10, "whole number"},
      {"i32 range=0..9223372036854775808", 13, "whole number"},
      {"bytes", 5, "expected '('"},
      {"bytes(", 6, "whole number"},
      {"bytes(4", 7, "expected ')'"},
      {"bytes(4,)", 8, "whole number"},
      {"i32;", 3, "does not belong here"},
  };
  for (const Case& c : cases) {
    try {
      parse_signature(c.text);
      ADD_FAILURE() << "'" << c.text << "' was accepted";
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(what.find("position " + std::to_string(c.position) + ":"), std::string::npos) << what;
      EXPECT_NE(what.find(c.words), std::string::npos) << what;
    }
  }
}

TEST(Names, OfKindsAndElementTypes) {
  EXPECT_STREQ(name_of(ArgKind::kTensor), "tensor");
  EXPECT_STREQ(name_of(ArgKind::kBytes), "bytes");
  EXPECT_STREQ(name_of(static_cast<ArgKind>(99)), "unknown");
  EXPECT_STREQ(name_of(DType::kF64), "f64");
  EXPECT_STREQ(name_of(DType::kUnknown), "unknown");
  EXPECT_STREQ(name_of(static_cast<DType>(99)), "unknown");
}

struct Bytes12 {
  float f[3];
};

// --- Packing ---

class Packing : public ::testing::Test {
 protected:
  // Packs into a slot between canaries, which have to survive.
  Status pack(const char* parameter, const Argument& argument, const AbiDescriptor& abi = {}) {
    const Parameter p = parse_signature(parameter).at(0);
    slot_bytes_ = size_of(p, abi);
    bytes_.assign(slot_bytes_ + 16, std::byte{0xEE});
    Status status = pack_argument("add", 3, p, slot_bytes_, argument, bytes_.data() + 8);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(bytes_[i], std::byte{0xEE}) << parameter;
      EXPECT_EQ(bytes_[8 + slot_bytes_ + i], std::byte{0xEE}) << parameter;
    }
    return status;
  }
  template <class T>
  T packed() {
    T value;
    EXPECT_EQ(sizeof(T), slot_bytes_);
    std::memcpy(&value, bytes_.data() + 8, sizeof value);
    return value;
  }
  template <class T>
  void expect_integers(const char* kind) {
    constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    for (const T value : {low, high, T{0}, T{1}, static_cast<T>(high / 3)}) {
      ASSERT_TRUE(pack(kind, value).ok()) << kind;
      EXPECT_EQ(packed<T>(), value);
    }
    // The same values in another integer type arrive exactly too.
    ASSERT_TRUE(pack(kind, std::int8_t{7}).ok());
    EXPECT_EQ(packed<T>(), T{7});
    ASSERT_TRUE(pack(kind, std::uint64_t{100}).ok());
    EXPECT_EQ(packed<T>(), T{100});
    if constexpr (sizeof(T) < 8) {
      const auto below = static_cast<std::int64_t>(low) - 1;
      const auto above = static_cast<std::int64_t>(high) + 1;
      expect_refused(pack(kind, below), {"argument 3", "'add'", std::to_string(below), kind});
      expect_refused(pack(kind, above), {"argument 3", "'add'", std::to_string(above), kind});
      expect_refused(pack(kind, static_cast<std::uint64_t>(above)), {std::to_string(above), kind});
    }
    expect_refused(pack(kind, 1.0), {"argument 3", "'add'", "a float", kind});
    expect_refused(pack(kind, 1.0F), {"a float", kind});
    expect_refused(pack(kind, true), {"a bool", kind});
    expect_refused(pack(kind, Half::from(1)), {"an f16", kind});
    expect_refused(pack(kind, DevicePtr{16}), {"a tensor", kind});
  }

  std::vector<std::byte> bytes_;
  std::uint32_t slot_bytes_ = 0;
};

TEST_F(Packing, IntegersExactlyOrRefused) {
  expect_integers<std::int8_t>("i8");
  expect_integers<std::int16_t>("i16");
  expect_integers<std::int32_t>("i32");
  expect_integers<std::int64_t>("i64");
  expect_integers<std::uint8_t>("u8");
  expect_integers<std::uint16_t>("u16");
  expect_integers<std::uint32_t>("u32");
  expect_integers<std::uint64_t>("u64");
  expect_refused(pack("u64", -1), {"-1", "u64", "18446744073709551615"});
  expect_refused(pack("i64", std::uint64_t{1} << 63), {"9223372036854775808", "i64"});
}

TEST_F(Packing, BoolIsStrict) {
  ASSERT_TRUE(pack("bool", true).ok());
  EXPECT_EQ(packed<std::uint8_t>(), 1);
  ASSERT_TRUE(pack("bool", false).ok());
  EXPECT_EQ(packed<std::uint8_t>(), 0);
  expect_refused(pack("bool", 1), {"argument 3", "an integer", "bool"});
  expect_refused(pack("bool", 0U), {"an integer", "bool"});
  expect_refused(pack("bool", 1.0), {"a float", "bool"});
  const AbiDescriptor wide{.bool_bytes = 4};
  ASSERT_TRUE(pack("bool", true, wide).ok());
  EXPECT_EQ(packed<std::uint32_t>(), 1U);
  ASSERT_TRUE(pack("bool", false, wide).ok());
  EXPECT_EQ(packed<std::uint32_t>(), 0U);
}

TEST_F(Packing, FloatsRoundAndOverflowIsRefused) {
  ASSERT_TRUE(pack("f64", 0.1).ok());
  EXPECT_EQ(packed<double>(), 0.1);
  ASSERT_TRUE(pack("f32", 0.1).ok());
  EXPECT_EQ(packed<float>(), 0.1F);
  ASSERT_TRUE(pack("f16", 42.0).ok());
  EXPECT_EQ(packed<std::uint16_t>(), 0x5140);
  ASSERT_TRUE(pack("bf16", 0.1).ok());
  EXPECT_EQ(packed<std::uint16_t>(), 0x3DCD);

  ASSERT_TRUE(pack("f16", std::nextafter(65520.0, 0.0)).ok());
  EXPECT_EQ(packed<std::uint16_t>(), 0x7BFF);
  expect_refused(pack("f16", 65520.0), {"argument 3", "'add'", "65520", "f16"});
  expect_refused(pack("f16", -65520.0), {"-65520", "f16"});
  expect_refused(pack("f32", 3.5e38), {"3.5", "f32"});
  expect_refused(pack("bf16", 3.4e38), {"3.4", "bf16"});
  expect_refused(pack("f16", BFloat16::from(1e30)), {"f16"});
  EXPECT_TRUE(pack("f32", 3.4e38).ok());

  for (const char* kind : {"f16", "bf16", "f32", "f64"}) {
    EXPECT_TRUE(pack(kind, kInfinity).ok()) << kind;  // infinity that was meant
    EXPECT_TRUE(pack(kind, -kInfinity).ok()) << kind;
    EXPECT_TRUE(pack(kind, kNaN).ok()) << kind;
    EXPECT_TRUE(pack(kind, Half::from(1.5)).ok()) << kind;
    EXPECT_TRUE(pack(kind, BFloat16::from(1.5)).ok()) << kind;
    expect_refused(pack(kind, 1), {"an integer", kind});
    expect_refused(pack(kind, true), {"a bool", kind});
    expect_refused(pack(kind, DevicePtr{0}), {"a tensor", kind});
  }
}

TEST_F(Packing, SixteenBitFloatsKeepTheirBits) {
  ASSERT_TRUE(pack("f16", Half{0x7D01}).ok());  // a signalling NaN is not touched
  EXPECT_EQ(packed<std::uint16_t>(), 0x7D01);
  ASSERT_TRUE(pack("bf16", BFloat16{0x7F81}).ok());
  EXPECT_EQ(packed<std::uint16_t>(), 0x7F81);
  ASSERT_TRUE(pack("f32", Half::from(1.5)).ok());
  EXPECT_EQ(packed<float>(), 1.5F);
  ASSERT_TRUE(pack("bf16", Half::from(1.5)).ok());
  EXPECT_EQ(packed<std::uint16_t>(), 0x3FC0);
}

TEST_F(Packing, Tensors) {
  ASSERT_TRUE(pack("tensor", DevicePtr{0x123456789ABCDEF0}).ok());
  EXPECT_EQ(packed<std::uint64_t>(), 0x123456789ABCDEF0U);
  float f = 0;
  ASSERT_TRUE(pack("tensor", &f).ok());
  EXPECT_EQ(packed<float*>(), &f);
  expect_refused(pack("tensor", 5), {"argument 3", "an integer", "tensor"});
  expect_refused(pack("tensor", 5.0), {"a float", "tensor"});
}

TEST_F(Packing, BytesAsDeclared) {
  const Bytes12 value{{1, 2, 3}};
  ASSERT_TRUE(pack("bytes(12,4)", Argument::bytes_of(value)).ok());
  EXPECT_EQ(packed<Bytes12>().f[2], 3.0F);
  EXPECT_TRUE(pack("bytes(12,8)", Argument::bytes_of(value)).ok());  // more alignment than it needs
  expect_refused(pack("bytes(16,4)", Argument::bytes_of(value)), {"12 bytes", "bytes(16,4)"});
  expect_refused(pack("bytes(8,4)", Argument::bytes_of(value)), {"12 bytes", "bytes(8,4)"});
  expect_refused(pack("bytes(12,2)", Argument::bytes_of(value)), {"aligned to 4", "bytes(12,2)"});
  expect_refused(pack("bytes(12,4)", Argument::bytes(nullptr, 12, 4)), {"no bytes"});
  expect_refused(pack("bytes(12,4)", 5), {"an integer", "bytes"});
}

TEST(Specialisation, WhatGuardsSee) {
  const auto check = [](const char* text, const Argument& a) {
    return check_specialisation(parse_signature(text)[0], a);
  };
  EXPECT_EQ(check("tensor align=16", DevicePtr{32}), GuardMiss::kNone);
  EXPECT_EQ(check("tensor align=16", DevicePtr{0}), GuardMiss::kNone);
  EXPECT_EQ(check("tensor align=16", DevicePtr{40}), GuardMiss::kAlignment);
  EXPECT_EQ(check("tensor<f32>", TensorArg{DevicePtr{4}, DType::kF32}), GuardMiss::kNone);
  EXPECT_EQ(check("tensor<f32>", TensorArg{DevicePtr{4}, DType::kUnknown}), GuardMiss::kNone);
  EXPECT_EQ(check("tensor", TensorArg{DevicePtr{4}, DType::kF16}), GuardMiss::kNone);
  EXPECT_EQ(check("tensor<f32>", TensorArg{DevicePtr{4}, DType::kF16}), GuardMiss::kDtype);
  EXPECT_EQ(check("i32 range=-3..5", -3), GuardMiss::kNone);
  EXPECT_EQ(check("i32 range=-3..5", 5U), GuardMiss::kNone);
  EXPECT_EQ(check("i32 range=-3..5", -4), GuardMiss::kRange);
  EXPECT_EQ(check("i32 range=-3..5", 6), GuardMiss::kRange);
  EXPECT_EQ(check("u64", std::uint64_t{1} << 63), GuardMiss::kNone);
  EXPECT_EQ(check("u64 range=0..9", std::uint64_t{1} << 63), GuardMiss::kRange);
  EXPECT_EQ(check("f32", 1.0), GuardMiss::kNone);
}

TEST(Specialisation, SentencesNameWhatWasExpected) {
  const auto sentence = [](const char* text, const Argument& a) {
    const Parameter p = parse_signature(text)[0];
    const Status status = specialisation_error("add", 2, p, a, check_specialisation(p, a));
    return status.ok() ? std::string() : status.details().sentence;
  };
  EXPECT_NE(sentence("tensor align=16", DevicePtr{0x28}).find("0x28"), std::string::npos);
  EXPECT_NE(sentence("tensor align=16", DevicePtr{0x28}).find("multiple of 16"), std::string::npos);
  EXPECT_NE(sentence("i32 range=-3..5", 6).find("-3 to 5"), std::string::npos);
  EXPECT_NE(sentence("tensor<f32>", TensorArg{DevicePtr{4}, DType::kF16}).find("f16"), std::string::npos);
  EXPECT_EQ(sentence("i32", 6), "");
}

// --- The ring and the tape ---

constexpr std::int64_t kMillisecond = 1'000'000;

// A record whose bytes tell its number.
void write_record(std::byte* place, std::uint32_t bytes, std::uint64_t number) {
  *reinterpret_cast<RecordHeader*>(place) = RecordHeader{bytes, RecordKind::kFill, 0, 0};
  std::memcpy(place + 8, &number, 8);
  std::memset(place + 16, static_cast<int>(number & 0xFF), bytes - 16);
}

bool is_record(const RecordHeader& header, std::uint32_t bytes, std::uint64_t number) {
  const auto* place = reinterpret_cast<const std::byte*>(&header);
  if (header.kind != RecordKind::kFill || header.size_bytes != bytes) return false;
  if (std::memcmp(place + 8, &number, 8) != 0) return false;
  for (std::uint32_t i = 16; i < bytes; ++i) {
    if (place[i] != static_cast<std::byte>(number & 0xFF)) return false;
  }
  return true;
}

std::uint32_t record_size(std::uint64_t random, std::uint32_t largest) {
  return 16 * (1 + static_cast<std::uint32_t>(random % (largest / 16)));
}

bool submit(Sink& sink, std::uint32_t bytes, std::uint64_t number, Status& why) {
  std::byte* place = sink.reserve(bytes, why);
  if (place == nullptr) return false;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % kRecordAlignment, 0U);
  write_record(place, bytes, number);
  sink.commit(bytes);
  return true;
}

TEST(Ring, CapacityIsAPowerOfTwo) {
  const WaitRules rules;
  EXPECT_EQ(Ring(4096, rules).capacity_bytes(), 4096U);
  EXPECT_EQ(Ring(4097, rules).capacity_bytes(), 8192U);
  EXPECT_EQ(Ring(100, rules).capacity_bytes(), 128U);
}

TEST(Ring, NothingIsSeenBeforeCommit) {
  const WaitRules rules;
  Ring ring(4096, rules);
  Status why;
  std::byte* place = ring.reserve(32, why);
  ASSERT_NE(place, nullptr);
  write_record(place, 32, 1);
  EXPECT_EQ(ring.published(), 0U);
  EXPECT_EQ(ring.submitted(), 0U);
  EXPECT_EQ(ring.reserve(32, why), place) << "a reservation without a commit is given again";
  EXPECT_TRUE(ring.commit(32)) << "nobody looks at this ring, so whoever commits has to kick";
  EXPECT_EQ(ring.published(), 32U);
  EXPECT_EQ(ring.submitted(), 1U);
  EXPECT_TRUE(is_record(ring.at(0), 32, 1));
}

TEST(Ring, TakesRecordsUpToHalfItsSizeFromAnyPosition) {
  const WaitRules rules;
  Status why;
  for (std::uint32_t before = 0; before < 1024; before += 16) {
    Ring ring(1024, rules);
    std::uint64_t position = 0;
    for (std::uint32_t at = 0; at < before; at += 16) ASSERT_TRUE(submit(ring, 16, at, why));
    ring.consume_to(position = ring.published());
    ASSERT_TRUE(submit(ring, 512, 7, why)) << before;
    if (ring.at(position).kind == RecordKind::kPad) position += ring.at(position).size_bytes;
    ASSERT_TRUE(is_record(ring.at(position), 512, 7)) << before;
  }
  Ring ring(1024, rules);
  EXPECT_EQ(ring.reserve(4096, why), nullptr);
  expect_refused(why, {"4096", "1024", "half", "ring_bytes"});
}

TEST(Ring, TimesOutWhenFullAndGoesOnAfterwards) {
  WaitRules rules;
  rules.default_limit_ns = 20 * kMillisecond;
  Ring ring(256, rules);
  Status why;
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(submit(ring, 64, i, why));
  const std::int64_t start = now_ns();
  EXPECT_FALSE(submit(ring, 64, 4, why));
  EXPECT_GE(now_ns() - start, 20 * kMillisecond);
  EXPECT_EQ(why.code(), ErrorCode::kTimeout);
  EXPECT_NE(why.details().sentence.find("256 bytes"), std::string::npos);
  EXPECT_NE(why.details().sentence.find("20 ms"), std::string::npos);
  EXPECT_EQ(ring.submitted(), 4U);
  EXPECT_EQ(ring.published(), 256U);
  ring.consume_to(64);
  EXPECT_TRUE(submit(ring, 64, 4, why));
  EXPECT_TRUE(is_record(ring.at(256), 64, 4));
}

// Against a model, on one thread: what goes in comes out, in order, whatever the sizes and however far the
// consumer lags behind.
TEST(Ring, RandomSizesWrapAround) {
  WaitRules rules;
  rules.default_limit_ns = 0;  // full: refused at once
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint32_t capacity = 128U << (seed % 5);
    Ring ring(capacity, rules);
    std::deque<std::pair<std::uint32_t, std::uint64_t>> model;
    std::uint64_t position = 0, next = 0, refused = 0;
    const auto consume_one = [&] {
      const RecordHeader* header = &ring.at(position);
      if (header->kind == RecordKind::kPad) {
        ASSERT_EQ((position + header->size_bytes) % capacity, 0U) << "a pad ends where the buffer ends";
        position += header->size_bytes;
        header = &ring.at(position);
      }
      ASSERT_LT(position, ring.published());
      ASSERT_LE(position % capacity + header->size_bytes, capacity) << "a record crosses the end";
      ASSERT_TRUE(is_record(*header, model.front().first, model.front().second))
          << seed << ": " << model.front().second;
      position += header->size_bytes;
      model.pop_front();
      ring.consume_to(position);
    };
    while (next < 3000) {
      Status why;
      const std::uint32_t bytes = record_size(random(), capacity / 2);
      if (submit(ring, bytes, next, why)) {
        model.emplace_back(bytes, next++);
      } else {
        ++refused;
        ASSERT_EQ(why.code(), ErrorCode::kTimeout);
        ASSERT_FALSE(model.empty()) << "an empty ring has room for every record up to half its size";
      }
      ASSERT_LE(ring.published() - position, capacity);
      for (std::uint64_t n = random() % 3; n > 0 && !model.empty(); --n) {
        consume_one();
        if (HasFatalFailure()) return;
      }
    }
    while (!model.empty()) {
      consume_one();
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(position, ring.published());
    EXPECT_EQ(ring.submitted(), next);
    EXPECT_GT(refused, 0U);
  }
}

// Two threads. The consumer is slow now and then, so that the submitter has to wait for it.
void run_with_slow_consumer(std::int64_t spin_ns) {
  WaitRules rules;
  rules.default_limit_ns = 30'000 * kMillisecond;
  rules.spin_ns = spin_ns;
  std::atomic<int> left{0}, entered{0};
  auto hooks = std::make_shared<BlockingHooks>();
  hooks->leave = [&] { ++left; };
  hooks->enter = [&] { ++entered; };
  rules.set_hooks(hooks);
  constexpr std::uint64_t kRecords = 20'000, kSeed = 7;
  Ring ring(1024, rules);
  std::thread consumer([&] {
    std::mt19937_64 sizes(kSeed), naps(99);
    std::uint64_t position = 0;
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      while (ring.published() == position) std::this_thread::yield();
      if (ring.at(position).kind == RecordKind::kPad) position += ring.at(position).size_bytes;
      const std::uint32_t bytes = record_size(sizes(), 512);
      ASSERT_TRUE(is_record(ring.at(position), bytes, i)) << i;
      position += bytes;
      if (naps() % 4 != 0 || i + 1 == kRecords) ring.consume_to(position);
      if (naps() % 4096 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (ring.published() == position) ring.consume_to(position);
    }
  });
  std::mt19937_64 sizes(kSeed);
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    Status why;
    ASSERT_TRUE(submit(ring, record_size(sizes(), 512), i, why)) << i << ": " << why.details().sentence;
  }
  consumer.join();
  EXPECT_EQ(ring.submitted(), kRecords);
  EXPECT_GT(left.load(), 0) << "the ring was never full";
  EXPECT_EQ(left.load(), entered.load());
}

TEST(Ring, SlowConsumerHoldsTheSubmitterBack) { run_with_slow_consumer(0); }
TEST(Ring, SlowConsumerWithASpinningSubmitter) { run_with_slow_consumer(50'000); }

TEST(Tape, GrowsAndKeepsTheOrder) {
  for (const std::uint32_t first_bytes : {0U, 16U, 64U, 100U, 4096U}) {
    Tape tape(first_bytes);
    std::mt19937_64 random(first_bytes);
    std::vector<std::uint32_t> sizes;
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      Status why;
      const std::uint32_t bytes = record_size(random(), i % 100 == 0 ? 8192 : 256);
      std::byte* place = tape.reserve(bytes, why);
      ASSERT_NE(place, nullptr);
      write_record(place, bytes, i);
      ASSERT_FALSE(tape.commit(bytes)) << "nobody is to be kicked for a tape";
      sizes.push_back(bytes);
      total += bytes;
    }
    EXPECT_EQ(tape.size_bytes(), total);
    EXPECT_EQ(tape.submitted(), sizes.size());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tape.data()) % 64, 0U);
    std::uint64_t seen = 0;
    tape.for_each([&](const RecordHeader& header, std::uint64_t index) {
      ASSERT_EQ(index, seen);
      ASSERT_TRUE(is_record(header, sizes[index], index)) << index;
      ++seen;
    });
    EXPECT_EQ(seen, sizes.size());
  }
}

TEST(Tape, EmptyHasNothingToVisit) {
  const Tape tape;
  EXPECT_EQ(tape.size_bytes(), 0U);
  tape.for_each([](const RecordHeader&, std::uint64_t) { ADD_FAILURE(); });
}

TEST(Record, SizesAreMultiplesOfTheAlignment) {
  EXPECT_EQ(round_up_record(1), 16U);
  EXPECT_EQ(round_up_record(16), 16U);
  EXPECT_EQ(round_up_record(17), 32U);
}

TEST(Record, ExtentAndArgumentsOfALaunch) {
  alignas(16) std::array<std::byte, 64> bytes{};
  auto& launch = *reinterpret_cast<LaunchRecord*>(bytes.data());
  launch.header = RecordHeader{64, RecordKind::kLaunch, 0, 16};
  EXPECT_EQ(extent_of(launch), nullptr);
  EXPECT_EQ(arguments_of(launch), bytes.data() + 16);
  launch.header.flags = kLaunchHasExtent;
  launch.header.payload_offset = 48;
  ASSERT_NE(extent_of(launch), nullptr);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(extent_of(launch)), bytes.data() + 16);
  EXPECT_EQ(arguments_of(launch), bytes.data() + 48);
}

}  // namespace
}  // namespace slipway::internal
