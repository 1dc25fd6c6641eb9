#include "evaluation/statistics/wilson_interval.h"

#include <gtest/gtest.h>

namespace braid {
namespace wilson_interval_test {

// Newcombe, Statistics in Medicine 1998, table I, method 3.
TEST(WilsonIntervalTest, AgreesWithPublishedValues) {
  EXPECT_NEAR(WilsonInterval(81, 263).low(), .2553, 5e-5);
  EXPECT_NEAR(WilsonInterval(81, 263).high(), .3662, 5e-5);
  EXPECT_NEAR(WilsonInterval(15, 148).low(), .0624, 5e-5);
  EXPECT_NEAR(WilsonInterval(15, 148).high(), .1605, 5e-5);
  EXPECT_NEAR(WilsonInterval(0, 20).low(), 0, 1e-12);
  EXPECT_NEAR(WilsonInterval(0, 20).high(), .1611, 5e-5);
  EXPECT_NEAR(WilsonInterval(29, 29).low(), .8830, 5e-5);
  EXPECT_NEAR(WilsonInterval(29, 29).high(), 1, 1e-12);
}

}  // namespace wilson_interval_test
}  // namespace braid
