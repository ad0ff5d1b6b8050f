// 16-bit floats: conversion from and to double, round to nearest even.
#include <bit>
#include <cmath>
#include <cstdint>

#include "slipway/types.h"

namespace slipway {
namespace {

// Rounds to a binary format with `mantissa_bits` stored bits and the exponent range of `exponent_bits`.
std::uint16_t encode(double value, int exponent_bits, int mantissa_bits) noexcept {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1 << (mantissa_bits - 1)));
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0.0) return sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias) exponent = 1 - bias;  // subnormal: the same spacing as the smallest normal
  // In units of the last place; nearbyint rounds to nearest even in the default mode, and the scaling is exact.
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  auto bits = static_cast<std::int64_t>(units);
  const std::int64_t hidden = std::int64_t{1} << mantissa_bits;
  // Normal numbers carry the hidden bit, which adding the exponent absorbs; rounding up to the next power of
  // two carries into the exponent by itself.
  bits += (static_cast<std::int64_t>(exponent + bias) - 1) * hidden;
  if (bits >= infinity) bits = infinity;
  return static_cast<std::uint16_t>(sign | bits);
}

double decode(std::uint16_t bits, int exponent_bits, int mantissa_bits) noexcept {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) magnitude = mantissa == 0 ? INFINITY : static_cast<double>(NAN);
  else if (exponent == 0) magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  else magnitude = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

Half Half::from(double value) noexcept { return {encode(value, 5, 10)}; }
double Half::value() const noexcept { return decode(bits, 5, 10); }
BFloat16 BFloat16::from(double value) noexcept { return {encode(value, 8, 7)}; }
double BFloat16::value() const noexcept { return decode(bits, 8, 7); }

}  // namespace slipway
