#include "fla/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using fla::bf16;
using fla::f16;
using fla::from_float;
using fla::to_float;

/// A 16-bit float's layout, and its arithmetic done the slow way, in double.
struct Format {
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }

  double value(std::uint16_t bits) const {
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) {
      return mantissa ? std::numeric_limits<double>::quiet_NaN()
                      : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  /// To nearest, ties to even: the value is measured in units of the last place that its size has.
  std::uint16_t round(double value) const {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | infinity();
    int exponent = magnitude == 0 ? 1 - bias() : std::max(std::ilogb(magnitude), 1 - bias());
    const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
    const auto whole = static_cast<std::int64_t>(units);
    const std::int64_t bits = ((exponent + bias() - 1) << mantissa_bits) + whole;
    return static_cast<std::uint16_t>(sign | std::min<std::int64_t>(bits, infinity()));
  }
};

constexpr Format kF16{5, 10}, kBf16{8, 7};

template <class Half>
constexpr Format format_of() {
  return std::is_same_v<Half, f16> ? kF16 : kBf16;
}

template <class Half>
class HalfConversion : public testing::Test {};
using Halves = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfConversion, Halves);

TYPED_TEST(HalfConversion, EveryPatternHasItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = format_of<TypeParam>().value(half);
    const float got = to_float(TypeParam{half});
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(got, expected) << bits;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(HalfConversion, EveryPatternComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = to_float(TypeParam{half});
    const std::uint16_t back = from_float<TypeParam>(value).bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(TypeParam{back}))) << bits;
      ASSERT_EQ(back >> 15, half >> 15) << bits;
    } else {
      ASSERT_EQ(back, half) << bits;
    }
  }
}

TYPED_TEST(HalfConversion, RoundsToNearestEven) {
  const Format format = format_of<TypeParam>();
  std::vector<float> values;
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  // Around every representable value: itself, the midpoint to the next, and the floats next to the midpoint.
  for (std::uint32_t bits = 0; bits < format.infinity(); ++bits) {
    const double low = format.value(static_cast<std::uint16_t>(bits));
    const double high = bits + 1 == format.infinity()
                            ? low + (low - format.value(static_cast<std::uint16_t>(bits - 1)))
                            : format.value(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>(low + (high - low) / 2);
    for (const float value : {middle, std::nextafterf(middle, 0.0f), std::nextafterf(middle, INFINITY)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (const float value : values) {
    ASSERT_EQ(from_float<TypeParam>(value).bits, format.round(value)) << std::hexfloat << value;
  }
}

TYPED_TEST(HalfConversion, OverflowBecomesInfinity) {
  const std::uint16_t infinity = format_of<TypeParam>().infinity();
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::infinity()).bits, infinity);
  EXPECT_EQ(from_float<TypeParam>(-std::numeric_limits<float>::infinity()).bits, infinity | 0x8000);
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::max()).bits, infinity);
}

TYPED_TEST(HalfConversion, NanStaysNan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(std::bit_cast<float>(bits))))) << bits;
  }
}

TYPED_TEST(HalfConversion, SignedZerosAreKept) {
  EXPECT_EQ(from_float<TypeParam>(0.0f).bits, 0);
  EXPECT_EQ(from_float<TypeParam>(-0.0f).bits, 0x8000);
}

}  // namespace
