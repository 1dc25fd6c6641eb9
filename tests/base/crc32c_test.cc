#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace braid {
namespace crc32c_test {

uint32_t BitByBit(const std::string& data) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : data) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78 : 0);
  }
  return ~crc;
}

std::string RandomBytes(std::mt19937_64& random, size_t length) {
  std::string bytes(length, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(Crc32cTest, MatchesPublishedVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(Crc32c(""), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AA);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43);
  // The length field of a TFRecord of 24 bytes.
  EXPECT_EQ(Crc32c(std::string("\x18\0\0\0\0\0\0\0", 8)), 0x4A65BFE4);
}

TEST(Crc32cTest, MatchesBitByBitOracle) {
  std::mt19937_64 random(1);
  for (size_t length = 0; length < 300; ++length) {
    const std::string data = RandomBytes(random, length);
    ASSERT_EQ(Crc32c(data), BitByBit(data)) << length;
  }
}

TEST(Crc32cTest, ContinuesAndConcatenates) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const std::string a = RandomBytes(random, random() % 1000),
                      b = RandomBytes(random, random() % 1000);
    const auto length = static_cast<int64_t>(b.size());
    ASSERT_EQ(Crc32c(b, Crc32c(a)), Crc32c(a + b));
    ASSERT_EQ(Crc32cConcat(Crc32c(a), Crc32c(b), length), Crc32c(a + b));
  }
}

TEST(Crc32cTest, ReplacesARange) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::string head = RandomBytes(random, random() % 100),
                      before = RandomBytes(random, random() % 100),
                      tail = RandomBytes(random, random() % 100),
                      after = RandomBytes(random, before.size());
    ASSERT_EQ(Crc32cReplace(Crc32c(head + before + tail), Crc32c(before), Crc32c(after),
                            static_cast<int64_t>(tail.size())),
              Crc32c(head + after + tail));
  }
}

TEST(Crc32cTest, ComputesRunsOfZeros) {
  for (const int64_t length : {0, 1, 7, 4096, 100001}) {
    EXPECT_EQ(Crc32cOfZeros(length), Crc32c(std::string(length, '\0'))) << length;
  }
  // Far beyond memory: a terabyte in two steps.
  const int64_t half = int64_t{1} << 39;
  EXPECT_EQ(Crc32cOfZeros(2 * half), Crc32cConcat(Crc32cOfZeros(half), Crc32cOfZeros(half), half));
}

TEST(Crc32cTest, PrintsEightDigits) { EXPECT_EQ(Crc32cToHex(0xAB), "000000ab"); }

}  // namespace crc32c_test
}  // namespace braid
