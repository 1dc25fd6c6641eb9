#include "base/random_id.h"

#include <gtest/gtest.h>

#include <set>

namespace braid {
namespace random_id_test {

TEST(RandomIdTest, HasTheRequestedNumberOfLowerCaseHexDigits) {
  for (const size_t digits : {0, 2, 16, 64}) {
    const std::string id = RandomId(digits);
    EXPECT_EQ(id.size(), digits);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  }
}

TEST(RandomIdTest, DoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RandomId(16));
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(RandomBytesTest, FillsRequestsAboveTheKernelsUninterruptedSize) {
  const std::string bytes = RandomBytes(100'000);
  ASSERT_EQ(bytes.size(), 100'000u);
  // All 256 values occur; a tail that was left zero would show in their counts.
  size_t counts[256] = {};
  for (const unsigned char byte : bytes) ++counts[byte];
  for (const size_t count : counts) EXPECT_NEAR(count, 100'000 / 256, 150);
}

}  // namespace random_id_test
}  // namespace braid
