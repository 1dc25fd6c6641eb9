#include "base/splitmix.h"

#include <gtest/gtest.h>

namespace braid {
namespace splitmix_test {

// The sequence of the reference implementation (Vigna, splitmix64.c) for the seed 1234567.
TEST(SplitMix64Test, GivesTheReferenceSequence) {
  uint64_t state = 1234567;
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                  4593380528125082431u, 16408922859458223821u}) {
    EXPECT_EQ(NextSplitMix64(&state), expected);
  }
}

TEST(SplitMix64Test, HashesDistinguishOrderAndLength) {
  EXPECT_NE(Mix64(1, 2), Mix64(2, 1));
  EXPECT_NE(Mix64(1, std::string_view("a")), Mix64(1, std::string_view("a\0", 2)));
}

TEST(SplitMix64Test, UnitIntervalExcludesOne) {
  EXPECT_EQ(UnitInterval(0), 0.0);
  EXPECT_LT(UnitInterval(~uint64_t{0}), 1.0);
}

}  // namespace splitmix_test
}  // namespace braid
