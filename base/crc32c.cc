#include "base/crc32c.h"

#include <isa-l.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/check.h"

namespace braid {
namespace {

// Polynomials over GF(2) modulo the CRC-32C polynomial, bit-reflected: the highest
// bit is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82F63B78;
constexpr uint32_t kOne = 0x80000000;
constexpr uint32_t kXToTheEighth = kOne >> 8;

uint32_t MultiplyModP(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? kPolynomial : 0);
  }
  return product;
}

// Appending a zero byte multiplies the CRC register by x^8.
uint32_t ShiftByBytes(uint32_t crc, int64_t bytes) {
  BRAID_CHECK(bytes >= 0) << bytes;
  uint32_t power = kXToTheEighth;
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) crc = MultiplyModP(crc, power);
    power = MultiplyModP(power, power);
  }
  return crc;
}

}  // namespace

uint32_t Crc32c(std::string_view data, uint32_t seed) {
  // ISA-L takes an int length and leaves the inversions to the caller.
  constexpr size_t kLongest = std::numeric_limits<int>::max() & ~size_t{4095};
  uint32_t state = ~seed;
  while (!data.empty()) {
    const size_t length = std::min(data.size(), kLongest);
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(data.data()));
    state = crc32_iscsi(bytes, static_cast<int>(length), state);
    data.remove_prefix(length);
  }
  return ~state;
}

uint32_t Crc32cConcat(uint32_t a, uint32_t b, int64_t b_bytes) {
  return ShiftByBytes(a, b_bytes) ^ b;
}

uint32_t Crc32cReplace(uint32_t whole, uint32_t before, uint32_t after, int64_t tail_bytes) {
  return whole ^ ShiftByBytes(before ^ after, tail_bytes);
}

uint32_t Crc32cOfZeros(int64_t bytes) { return ~ShiftByBytes(~uint32_t{0}, bytes); }

std::string Crc32cToHex(uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", crc);
  return text;
}

}  // namespace braid
