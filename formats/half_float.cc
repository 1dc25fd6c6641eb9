#include "formats/half_float.h"

#include <bit>
#include <cmath>

namespace braid {
namespace {

constexpr uint32_t kFloatSign = 0x80000000u;
constexpr uint32_t kFloatInfinity = 0x7f800000u;
// 2^-14, and 65520: the midpoint between the largest binary16 number and the next power of two.
constexpr uint32_t kSmallestNormalF16 = 0x38800000u;
constexpr uint32_t kOverflowF16 = 0x477ff000u;
constexpr int kDroppedF16 = 23 - 10;
constexpr int kDroppedBf16 = 16;

// Returns `value` without its low `dropped` bits, rounded to nearest even. A carry out of the
// mantissa increments the exponent, which is the correct result.
uint32_t RoundedShift(uint32_t value, int dropped) {
  const uint32_t half = (1u << (dropped - 1)) - 1;
  return (value + half + ((value >> dropped) & 1)) >> dropped;
}

}  // namespace

float FloatFromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu, mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: a multiple of 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t widened = exponent == 0x1f ? kFloatInfinity : (exponent + 127 - 15) << 23;
  return std::bit_cast<float>(sign | widened | mantissa << kDroppedF16);
}

float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << kDroppedBf16);
}

uint16_t F16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & ~kFloatSign;
  const auto sign = static_cast<uint16_t>((bits & kFloatSign) >> 16);
  if (magnitude > kFloatInfinity) return sign | 0x7e00u;
  if (magnitude >= kOverflowF16) return sign | 0x7c00u;
  if (magnitude < kSmallestNormalF16) {
    // Scales exactly to units of 2^-24, then rounds as the processor does by default.
    return sign |
           static_cast<uint16_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24)));
  }
  const uint32_t rebiased = magnitude - ((127u - 15u) << 23);
  return sign | static_cast<uint16_t>(RoundedShift(rebiased, kDroppedF16));
}

uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding could clear the mantissa of a NaN, which would make it infinite.
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> kDroppedBf16 | 0x40u);
  return static_cast<uint16_t>(RoundedShift(bits, kDroppedBf16));
}

}  // namespace braid
