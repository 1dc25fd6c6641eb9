#include "client/terminal/progress_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/utf8.h"

namespace braid {
namespace progress_board_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProgressBoardTest, FormatsDurationsAndCounts) {
  EXPECT_EQ(FormatClock(65), "1:05");
  EXPECT_EQ(FormatClock(7384), "2:03:04");
  EXPECT_EQ(FormatClock(-1), "0:00");
  EXPECT_EQ(CompactCount(950), "950");
  EXPECT_EQ(CompactCount(12345), "12.3k");
  EXPECT_EQ(CompactCount(4.6e6), "4.6M");
}

TEST(ProgressBoardTest, LineShowsShareRateAndTimeLeft) {
  const Progress progress = {.done = 50, .total = 200, .unit = "documents"};
  const std::string line = FormatProgress("embed", progress, 10, 100);
  EXPECT_THAT(line, HasSubstr("25% 50/200 documents"));
  EXPECT_THAT(line, HasSubstr("5/s"));
  EXPECT_THAT(line, HasSubstr("ETA 0:30"));
}

TEST(ProgressBoardTest, UnknownTotalShowsNeitherShareNorTimeLeft) {
  const std::string line = FormatProgress("ingest", {.done = 50, .unit = "bytes"}, 10, 100);
  EXPECT_THAT(line, Not(HasSubstr("%")));
  EXPECT_THAT(line, Not(HasSubstr("ETA")));
}

TEST(ProgressBoardTest, ShowsARateOnlyAfterEnoughTime) {
  const Progress progress = {.done = 8, .total = 600, .unit = "windows"};
  EXPECT_THAT(FormatProgress("eval", progress, 1e-5, 100), Not(HasSubstr("/s")));
}

TEST(ProgressBoardTest, LineNeverExceedsTheWidth) {
  Progress progress = {.done = 1, .total = 2, .unit = "steps"};
  progress.detail = std::string(300, 'x');
  EXPECT_LE(FormatProgress("run", progress, 1, 80).size(), 80u);
}

TEST(ProgressBoardTest, LineWithWideCharactersStaysInTheWidth) {
  std::string name;
  for (int i = 0; i < 30; ++i) name += "日";
  const Progress progress = {.done = 1, .total = 2, .unit = "steps"};
  for (const int width : {1, 40, 41}) {
    const std::string line = FormatProgress(name, progress, 1, width);
    EXPECT_LE(NumColumns(line), width);
    EXPECT_TRUE(IsValidUtf8(line)) << line;
  }
  EXPECT_THAT(FormatProgress("日本", progress, 1, 80),
              HasSubstr("日本" + std::string(15, ' ') + "["));
}

TEST(ProgressBoardTest, MessagesOfAServerCannotControlTheTerminal) {
  std::ostringstream out;
  ProgressBoard board(out, /*terminal=*/true);
  board.Note("a", "x\x1b[2Jy");
  board.Finish("a", "x\x1b[31mz");
  EXPECT_THAT(out.str(), HasSubstr("x?[2Jy"));
  EXPECT_THAT(out.str(), HasSubstr("x?[31mz"));
}

// The line of `train --wait` on a terminal of 80 columns.
TEST(ProgressBoardTest, TimeLeftIsShownInEightyColumns) {
  const Progress progress = {.done = 125'000,
                             .total = 250'000,
                             .unit = "steps",
                             .detail = "loss 4.812  123.4k tokens/s",
                             .rate = 1,
                             .eta_seconds = 7384};
  const std::string line = FormatProgress("run-000001", progress, 10, 80);
  EXPECT_LE(line.size(), 80u);
  EXPECT_THAT(line, HasSubstr("run-000001"));
  EXPECT_THAT(line, HasSubstr("50% 125.0k/250.0k steps"));
  EXPECT_THAT(line, HasSubstr("loss 4.812"));
  EXPECT_THAT(line, ::testing::EndsWith("ETA 2:03:04"));
  Progress long_figures = progress;
  long_figures.detail = std::string(300, 'x');
  EXPECT_THAT(FormatProgress("run-000001", long_figures, 10, 80),
              ::testing::EndsWith("ETA 2:03:04"));
  EXPECT_THAT(FormatProgress("run-000001", progress, 10, 120), HasSubstr("[##########."));
  const std::string narrow = FormatProgress(std::string(40, 'n'), progress, 10, 50);
  EXPECT_EQ(narrow.size(), 50u);
  EXPECT_THAT(narrow, ::testing::EndsWith("n  ETA 2:03:04"));
}

TEST(ProgressBoardTest, ShortActivityLeavesOnePlainLineWithoutEscapes) {
  std::ostringstream out;
  ProgressBoard board(out, /*terminal=*/false);
  for (int i = 0; i < 100; ++i) board.Update("a", {.done = i, .total = 100, .unit = "x"});
  board.Finish("a", "done");
  const std::string text = out.str();
  EXPECT_EQ(text, "a                  done\n");
}

TEST(ProgressBoardTest, TerminalRowsAreRedrawnInPlace) {
  std::ostringstream out;
  {
    ProgressBoard board(out, /*terminal=*/true);
    board.Update("a", {.done = 1, .total = 2, .unit = "x"});
    board.Finish("a", "done");
  }
  EXPECT_THAT(out.str(), HasSubstr("\x1b[1A\x1b[2K"));
}

TEST(ProgressBoardTest, TextAfterCloseStays) {
  std::ostringstream out;
  {
    ProgressBoard board(out, /*terminal=*/true);
    board.Update("a", {.done = 1, .total = 2, .unit = "x"});
    board.Close();
    out << "result\n";
  }
  EXPECT_TRUE(out.str().ends_with("result\n")) << out.str();
}

}  // namespace progress_board_test
}  // namespace braid
