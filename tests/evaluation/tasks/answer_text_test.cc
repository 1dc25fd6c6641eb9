#include "evaluation/tasks/answer_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid {
namespace answer_text_test {

TEST(AnswerTextTest, SquadNormalization) {
  EXPECT_EQ(NormalizeAnswer("The  Eiffel-Tower, in\tParis!", v1::SQUAD), "eiffeltower in paris");
  EXPECT_EQ(NormalizeAnswer("An apple a day: theory", v1::SQUAD), "apple day theory");
  EXPECT_EQ(NormalizeAnswer("\xC3\x89"
                            "dith \xCE\x91 \xD0\x96",
                            v1::SQUAD),
            "\xC3\xA9"
            "dith \xCE\xB1 \xD0\xB6");
  EXPECT_EQ(NormalizeAnswer("", v1::SQUAD), "");
  EXPECT_EQ(NormalizeAnswer("the", v1::ANSWER_NORMALIZATION_UNSPECIFIED), "");
}

// Expected values are the results of the authors' scripts.
TEST(AnswerTextTest, ArticlesEndAtAnyCharacterOfNoWord) {
  EXPECT_EQ(NormalizeAnswer("The–end", v1::SQUAD), "–end");
  EXPECT_EQ(NormalizeAnswer("“The Stone” of the—a", v1::SQUAD), "“ stone” of —");
  EXPECT_EQ(NormalizeAnswer("a½ the² thé aé", v1::SQUAD), "a½ the² thé aé");
  EXPECT_EQ(NormalizeAnswer("the_a", v1::SQUAD), "thea");
  EXPECT_EQ(NormalizeAnswer("the_a", v1::TRIVIAQA), "");
  EXPECT_EQ(NormalizeAnswer("un\u00A0café", v1::SQUAD), "un café");
}

TEST(AnswerTextTest, LowerCaseFollowsUnicode) {
  EXPECT_EQ(NormalizeAnswer("ŠKODA Łódź ŐRSÉG İ", v1::SQUAD), "škoda łódź őrség i̇");
  EXPECT_EQ(NormalizeAnswer("ΟΔΟΣ ẞ Ⴀ", v1::TRIVIAQA), "οδος ß ⴀ");
  EXPECT_EQ(NormalizeAnswer("\xFFx", v1::SQUAD), "\uFFFDx");
}

TEST(AnswerTextTest, TriviaQaNormalization) {
  EXPECT_EQ(NormalizeAnswer("The_Beatles\xE2\x80\x99 song", v1::TRIVIAQA), "beatles song");
  EXPECT_EQ(NormalizeAnswer("Rock'n'roll", v1::TRIVIAQA), "rock n roll");
  EXPECT_EQ(NormalizeAnswer("Rock'n'roll", v1::SQUAD), "rocknroll");
  EXPECT_EQ(NormalizeAnswer("\xE2\x80\x98x\xE2\x80\x99 \xC2\xB4y`", v1::TRIVIAQA), "x y");
}

TEST(AnswerTextTest, ExactMatchTakesAnyReference) {
  const std::vector<std::string> references = {"Ada Stone", "The Stone"};
  EXPECT_TRUE(IsExactMatch("stone!", references, v1::SQUAD));
  EXPECT_FALSE(IsExactMatch("ada", references, v1::SQUAD));
  EXPECT_FALSE(IsExactMatch("stone!", references, v1::VERBATIM));
  EXPECT_TRUE(IsExactMatch("The Stone", references, v1::VERBATIM));
}

// Such as the cell after "2 + 2?, 4" of a CSV file; answers are stored without it.
TEST(AnswerTextTest, WhiteSpaceAroundAReferenceDoesNotCount) {
  const std::vector<std::string> references = {" 4\n"};
  EXPECT_TRUE(IsExactMatch("4", references, v1::VERBATIM));
  EXPECT_TRUE(IsExactMatch("4", references, v1::SQUAD));
}

TEST(AnswerTextTest, F1CountsWordsAsBags) {
  const std::vector<std::string> references = {"red red fish", "blue"};
  // Common: red, fish; 2 * 2 / (3 + 3).
  EXPECT_DOUBLE_EQ(AnswerF1("a red fish fish", references, v1::SQUAD), 4.0 / 6);
  EXPECT_DOUBLE_EQ(AnswerF1("blue", references, v1::SQUAD), 1);
  EXPECT_DOUBLE_EQ(AnswerF1("green", references, v1::SQUAD), 0);
  EXPECT_DOUBLE_EQ(AnswerF1("", references, v1::SQUAD), 0);
  EXPECT_DOUBLE_EQ(AnswerF1("the", std::vector<std::string>{"a"}, v1::SQUAD), 1);
}

}  // namespace answer_text_test
}  // namespace braid
