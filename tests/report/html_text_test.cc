#include "report/html_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace braid {
namespace html_text_test {

TEST(EscapeHtmlTest, EscapesMarkupAndQuotes) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST(EscapeHtmlTest, KeepsUtf8AndLayout) {
  EXPECT_EQ(EscapeHtml("\xC3\xA4\n\t\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA4\n\t\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(EscapeHtmlTest, ReplacesInvalidBytes) {
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeHtml(std::string_view("a\0b", 3)), "a" + replacement + "b");
  EXPECT_EQ(EscapeHtml("\xFF"), replacement);
  EXPECT_EQ(EscapeHtml("\xE2\x82"), replacement + replacement) << "cut short";
  EXPECT_EQ(EscapeHtml("\xC0\xAF"), replacement + replacement) << "overlong slash";
  EXPECT_EQ(EscapeHtml("\xED\xA0\x80"), replacement + replacement + replacement) << "surrogate";
  EXPECT_EQ(EscapeHtml("\x1b[0m"), replacement + "[0m");
}

}  // namespace html_text_test
}  // namespace braid
