#include "client/terminal/terminal_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <utility>

namespace braid {
namespace terminal_text_test {

TEST(TerminalTextTest, ClipsByCharactersNotBytes) {
  EXPECT_EQ(ClipColumns("läufer", 2), "lä");
  EXPECT_EQ(ClipColumns("▁▂▃", 2), "▁▂");
  EXPECT_EQ(ClipColumns("abc", 10), "abc");
  EXPECT_EQ(ClipColumns("abc", 0), "");
  EXPECT_EQ(ClipColumns("abc", -1), "");
}

TEST(TerminalTextTest, ColumnsOfTheEnvironmentAreTheWidthWithoutATerminal) {
  for (const auto& [columns, width] : {std::pair("57", 57), {"0", 80}, {"-3", 80}, {"wide", 80}}) {
    setenv("COLUMNS", columns, 1);
    EXPECT_EQ(TerminalWidth(-1), width) << columns;
  }
  unsetenv("COLUMNS");
  EXPECT_EQ(TerminalWidth(-1, 90), 90);
}

TEST(TerminalTextTest, WideCharactersTakeTwoColumnsAndCombiningOnesNone) {
  EXPECT_EQ(NumColumns("a日本"), 5);
  EXPECT_EQ(NumColumns("e\u0301"), 1);
  EXPECT_EQ(NumColumns("\xF0\x9F\x98\x80"), 2);  // an emoji
  EXPECT_EQ(NumColumns("\xFF\xC3"), 2) << "not UTF-8";
  EXPECT_EQ(ClipColumns("日本語", 4), "日本");
  EXPECT_EQ(ClipColumns("日本語", 5), "日本");
  EXPECT_EQ(ClipColumns("日本語", 1), "");
  EXPECT_EQ(ClipColumns("e\u0301x", 1), "e\u0301");
  EXPECT_EQ(PadColumns("日本", 6), "日本  ");
  EXPECT_EQ(PadColumns("日本", 3), "日本");
}

TEST(TerminalTextTest, NoControlCharacterReachesTheTerminal) {
  EXPECT_EQ(ClipColumns("a\x1b[2Jb\nc\x7f", 20), "a?[2Jb?c?");
  EXPECT_EQ(ClipColumns("\xC2\x9B\xE2\x80\xAEx", 20), "??x");  // C1, bidirectional
}

TEST(TerminalTextTest, BashReadsTheArgumentsFromTheirText) {
  EXPECT_EQ(ShellText({"braid", "train", "--name=a-b_c.1", "/d/x,y"}),
            "braid train --name=a-b_c.1 /d/x,y");
  EXPECT_EQ(ShellText({"a b", "", "`id`"}), "'a b' '' '`id`'");
  EXPECT_EQ(ShellText({"it's", "a\nb"}), "$'it\\'s' $'a\\nb'");
  EXPECT_EQ(ShellText({"/my \u00E9"}), "$'/my \\xc3\\xa9'");
}

TEST(TerminalTextTest, BarShowsTheShareAndStaysInItsWidth) {
  EXPECT_EQ(Bar(0.5, 4), "[##..]");
  EXPECT_EQ(Bar(-1, 4), "[....]");
  EXPECT_EQ(Bar(7, 4), "[####]");
}

TEST(TerminalTextTest, HangingTextBreaksAtSpacesAndIndents) {
  EXPECT_EQ(HangingText("1. ", "one two three", 12), "1. one two\n   three\n");
  EXPECT_EQ(HangingText("1. ", "one two three", 16), "1. one two three\n");
  EXPECT_EQ(HangingText("1. ", "one two three", 15), "1. one two\n   three\n");
  EXPECT_EQ(HangingText("1. ", "unbreakable a", 8), "1. unbreakable\n   a\n");
  EXPECT_EQ(HangingText("", "\u00B1\u00B1 \u00B1", 4), "\u00B1\u00B1 \u00B1\n");
  EXPECT_EQ(HangingText("1. ", "  "), "1. \n");
}

TEST(TerminalTextTest, SparklineSkipsNonFiniteValues) {
  EXPECT_EQ(Sparkline(std::vector<double>{0, 7, 3.5}), "▁█▅");
  EXPECT_EQ(Sparkline(std::vector<double>{1, std::nan(""), 2}), "▁ █");
  EXPECT_EQ(Sparkline(std::vector<double>{4, 4}), "▅▅");
  EXPECT_EQ(Sparkline({}), "");
}

TEST(ScreenBlockTest, RedrawsInPlace) {
  std::ostringstream out;
  ScreenBlock screen(out);
  screen.Draw({"one", "two"});
  screen.Draw({"three"});
  EXPECT_EQ(out.str(), "one\ntwo\n\x1b[1A\x1b[2K\x1b[1A\x1b[2Kthree\n");
}

TEST(ScreenBlockTest, DrawsOnlyLinesThatItCanErase) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  winsize size = {};
  size.ws_row = 4;
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  std::ostringstream out;
  ScreenBlock screen(out, terminal);
  screen.Draw({"one", "two", "three"});
  EXPECT_EQ(out.str(), "one\ntwo\nthree\n");
  screen.Erase();
  out.str("");
  screen.Draw({"one", "two", "three", "four", "five"});
  EXPECT_EQ(out.str(), "one\ntwo\n... and 3 more\n");
  out.str("");
  screen.Erase();
  EXPECT_EQ(out.str(), "\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K");
  close(terminal);
}

TEST(TerminalTextTest, PrintableTextHasNoControls) {
  EXPECT_EQ(PrintableText("a\tb\nc\r\x1b[2J\x7f"), "a\tb\nc??[2J?");
  EXPECT_EQ(PrintableText("\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0"), "???\xC2\xA0");  // C1
  EXPECT_EQ(PrintableText("\xE2\x80\xAE\xE2\x81\xA6\xD8\x9C\xE2\x80\x8F"),
            "????");  // bidirectional
  const std::string good = "\xC3\xA9\xE2\x82\xAC\xE2\x80\x99\xE2\x81\xA4\xF0\x9F\x98\x80\xD7\x90";
  EXPECT_EQ(PrintableText(good), good);
}

}  // namespace terminal_text_test
}  // namespace braid
