#include "report/html_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braid {
namespace html_text_test {

TEST(EscapeHtmlTest, EscapesMarkupAndQuotes) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST(EscapeHtmlTest, KeepsUtf8AndLayout) {
  EXPECT_EQ(EscapeHtml("\xC3\xA4\n\t\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA4\n\t\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(EscapeHtmlTest, ReplacesWhatIsNotText) {
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeHtml(std::string_view("a\0b", 3)), "a" + replacement + "b");
  EXPECT_EQ(EscapeHtml("\xFF"), replacement);
  EXPECT_EQ(EscapeHtml("\xE2\x82"), replacement + replacement) << "cut short";
  EXPECT_EQ(EscapeHtml("\xC0\xAF"), replacement + replacement) << "overlong slash";
  EXPECT_EQ(EscapeHtml("\xED\xA0\x80"), replacement + replacement + replacement) << "surrogate";
  EXPECT_EQ(EscapeHtml("\x1b[0m"), replacement + "[0m");
}

TEST(FormatTest, CountsHaveThreeDigitsAndASuffix) {
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

TEST(FormatTest, WhatIsNotFiniteIsADash) {
  const double nan = std::nan("");
  EXPECT_EQ(FormatFixed(nan, 2), "\xE2\x80\x93");
  EXPECT_EQ(FormatSigned(std::numeric_limits<double>::infinity(), 2), "\xE2\x80\x93");
  EXPECT_EQ(FormatCount(nan), "\xE2\x80\x93");
  EXPECT_EQ(FormatSigned(0.1101, 3), "+0.110");
}

}  // namespace html_text_test
}  // namespace braid
