#include "formats/half_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace braid {
namespace half_float_test {

// Converts by the definition of the format: sign, exponent of 5 bits, mantissa of 10.
double F16Value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

// Returns the nearest value, ties to even, found by search over all finite values.
uint16_t NearestF16(double value) {
  static const std::map<double, uint16_t> positive = [] {
    std::map<double, uint16_t> values;
    for (uint16_t bits = 0; bits < 0x7c00; ++bits) values[F16Value(bits)] = bits;
    values[65536] = 0x7c00;  // the value that would follow
    return values;
  }();
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::min(std::abs(value), 65536.0);
  const auto above = positive.lower_bound(magnitude);
  if (above->first == magnitude) return sign | above->second;
  const auto below = std::prev(above);
  const double up = above->first - magnitude, down = magnitude - below->first;
  if (up != down) return sign | (up < down ? above : below)->second;
  return sign | (above->second % 2 == 0 ? above : below)->second;
}

TEST(HalfFloatTest, F16WidensExactly) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const double value = F16Value(static_cast<uint16_t>(bits));
    const float got = FloatFromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(got, value) << bits;
      ASSERT_EQ(std::signbit(got), std::signbit(value)) << bits;
      ASSERT_EQ(F16FromFloat(got), bits);
    }
  }
}

TEST(HalfFloatTest, F16RoundsToTheNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    // All relevant exponents, and exact ties half of the time.
    uint32_t bits = (random() & 0x807fffffu) | (100 + random() % 46) << 23;
    if (i % 2 == 0) bits = (bits & 0xffffe000u) | 0x1000u;
    const float value = std::bit_cast<float>(bits);
    ASSERT_EQ(F16FromFloat(value), NearestF16(value)) << value;
  }
  EXPECT_EQ(F16FromFloat(65519.99f), 0x7bff);
  EXPECT_EQ(F16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(F16FromFloat(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(FloatFromF16(F16FromFloat(NAN))));
}

TEST(HalfFloatTest, Bf16RoundsToTheNearestEven) {
  std::mt19937 random(2);
  for (int i = 0; i < 300000; ++i) {
    uint32_t bits = random();
    if (i % 2 == 0) bits = (bits & 0xffff0000u) | 0x8000u;
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const uint32_t low = bits & 0xffffu;
    const uint32_t truncated = bits >> 16;
    const bool up = low > 0x8000u || (low == 0x8000u && truncated % 2 == 1);
    ASSERT_EQ(Bf16FromFloat(value), truncated + (up ? 1 : 0)) << value;
    ASSERT_EQ(FloatFromBf16(static_cast<uint16_t>(truncated)),
              std::bit_cast<float>(truncated << 16));
  }
  EXPECT_EQ(Bf16FromFloat(INFINITY), 0x7f80);
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace half_float_test
}  // namespace braid
