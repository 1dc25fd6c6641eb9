#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braid {
namespace number_text_test {

constexpr char kDash[] = "\xE2\x80\x93";

TEST(NumberTextTest, CountsHaveThreeSignificantDigitsAndASuffix) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(999.7), "1.00k");
  EXPECT_EQ(FormatCount(12345), "12.3k");
  EXPECT_EQ(FormatCount(983040), "983k");
  EXPECT_EQ(FormatCount(1.5e6), "1.50M");
  EXPECT_EQ(FormatCount(2e6), "2M");
  EXPECT_EQ(FormatCount(29.5e9), "29.5B");
  EXPECT_EQ(FormatCount(-2500), "-2.50k");
}

TEST(NumberTextTest, BytesHaveAUnitThatFitsThem) {
  EXPECT_EQ(FormatBytes(0), "0.00 KiB");
  EXPECT_EQ(FormatBytes(7.6e6), "7.25 MiB");
  EXPECT_EQ(FormatBytes(1023.99 * (1 << 20)), "1.00 GiB");
  EXPECT_EQ(FormatBytes(5e15), "4547 TiB");
}

TEST(NumberTextTest, HugeNumbersHaveAnExponent) {
  EXPECT_EQ(FormatFixed(999999999999.25, 2), "999999999999.25");
  EXPECT_EQ(FormatFixed(5.1847e21, 2), "5.185e+21");
  EXPECT_EQ(FormatSigned(-1e300, 3), "-1e+300");
}

TEST(NumberTextTest, OneThingIsSingular) {
  EXPECT_EQ(Counted(0, "file"), "0 files");
  EXPECT_EQ(Counted(1, "file"), "1 file");
  EXPECT_EQ(Counted(1234, "file"), "1,234 files");
}

TEST(NumberTextTest, WhatIsNotFiniteIsADash) {
  const double nan = std::nan("");
  EXPECT_EQ(FormatFixed(nan, 2), kDash);
  EXPECT_EQ(FormatSigned(std::numeric_limits<double>::infinity(), 2), kDash);
  EXPECT_EQ(FormatCount(nan), kDash);
  EXPECT_EQ(FormatPercent(nan), kDash);
  EXPECT_EQ(FormatShortPercent(nan), kDash);
  EXPECT_EQ(FormatDuration(nan), kDash);
  EXPECT_EQ(FormatTime(nan), kDash);
}

TEST(NumberTextTest, PercentHasANoBreakSpace) {
  EXPECT_EQ(FormatPercent(0.123), "12.3\xC2\xA0%");
  EXPECT_EQ(FormatShortPercent(0.95), "95\xC2\xA0%");
  EXPECT_EQ(FormatShortPercent(0.025), "2.5\xC2\xA0%");
  EXPECT_EQ(FormatSigned(0.1101, 3), "+0.110");
}

TEST(NumberTextTest, DurationsHaveTheirTwoLargestUnits) {
  EXPECT_EQ(FormatDuration(-1), kDash);
  EXPECT_EQ(FormatDuration(0.25), "0.2 s");
  EXPECT_EQ(FormatDuration(48), "48 s");
  EXPECT_EQ(FormatDuration(725), "12 min 5 s");
  EXPECT_EQ(FormatDuration(12000), "3 h 20 min");
  EXPECT_EQ(FormatDuration(187200), "2 d 4 h");
}

TEST(NumberTextTest, NamesTheFirstAndCountsTheOthers) {
  EXPECT_EQ(SomeOf({"a", "b"}, 2), "a, b");
  EXPECT_EQ(SomeOf({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(NumberTextTest, TimesAreInUtc) {
  EXPECT_EQ(FormatTime(0), kDash);
  EXPECT_EQ(FormatTime(1795219740), "2026-11-21 00:09");
}

}  // namespace number_text_test
}  // namespace braid
