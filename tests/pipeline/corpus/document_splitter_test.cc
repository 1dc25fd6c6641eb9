#include "pipeline/corpus/document_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace braid {
namespace document_splitter_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string RandomText(std::mt19937_64& random) {
  static const std::string kParts[] = {
      "a", "word", "é", "日", "\xF0\x9F\x98\x80", " ", "  ", "\n", "\n\n", "\r\n", "\t", "int x;"};
  std::string text;
  const int length = static_cast<int>(random() % 300);
  for (int i = 0; i < length; ++i) text += kParts[random() % std::size(kParts)];
  return text;
}

TEST(SplitDocumentTest, PiecesConcatenateToTheTextWithinTheLimit) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = RandomText(random);
    const auto limit = static_cast<int64_t>(random() % 120) - 3;
    std::string joined;
    for (const std::string_view piece : SplitDocument(text, limit)) {
      ASSERT_FALSE(piece.empty());
      ASSERT_NE(piece[0] & 0xC0, 0x80) << "inside a code point";
      if (limit > 0) {
        ASSERT_LE(piece.size(), std::max<size_t>(static_cast<size_t>(limit), 4));
      }
      joined += piece;
    }
    ASSERT_EQ(joined, text) << "case " << i;
  }
}

TEST(SplitDocumentTest, SplitsPlainWordsIntoAboutEqualPieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "word ";
  const auto pieces = SplitDocument(text, 450);
  EXPECT_EQ(pieces.size(), 12u);  // 5000 / 450, rounded up
  for (const std::string_view piece : pieces) EXPECT_NEAR(piece.size(), 5000.0 / 12, 10);
}

TEST(SplitDocumentTest, KeepsShortTextWhole) {
  EXPECT_THAT(SplitDocument("", 10), IsEmpty());
  EXPECT_THAT(SplitDocument("short", 5), ElementsAre("short"));
  EXPECT_THAT(SplitDocument("as long as you like", 0), ElementsAre("as long as you like"));
}

TEST(SplitDocumentTest, PrefersParagraphsToLinesToWords) {
  EXPECT_THAT(SplitDocument("one two\nthree\n\nfour five\nsix", 24),
              ElementsAre("one two\nthree\n\n", "four five\nsix"));
  EXPECT_THAT(SplitDocument("one two\nthree four five", 16),
              ElementsAre("one two\n", "three four five"));
  EXPECT_THAT(SplitDocument("onetwo threefour", 12), ElementsAre("onetwo ", "threefour"));
}

TEST(SplitDocumentTest, PrefersDefinitionsToBlankLinesInsideThem) {
  const std::string text = "def f():\n  a = 1\n\n  return a\n\ndef g():\n  pass\n";
  EXPECT_THAT(SplitDocument(text, 36),
              ElementsAre("def f():\n  a = 1\n\n  return a\n\n", "def g():\n  pass\n"));
}

}  // namespace document_splitter_test
}  // namespace braid
