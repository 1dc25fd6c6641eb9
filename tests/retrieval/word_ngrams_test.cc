#include "retrieval/word_ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>
#include <string>

namespace braid {
namespace word_ngrams_test {

TEST(NormalizeWordsTest, LowerCasesAsciiAndJoinsWithSingleSpaces) {
  EXPECT_EQ(NormalizeWords("  The QUICK,\n\tbrown-fox_2 (jumps)!"), "the quick brown fox_2 jumps");
}

TEST(NormalizeWordsTest, KeepsLettersOfOtherScripts) {
  EXPECT_EQ(NormalizeWords("naïve Ünder"), "naïve Ünder");
}

TEST(NormalizeWordsTest, SeparatesAtUnicodePunctuation) {
  EXPECT_EQ(NormalizeWords("\u201Cquoted\u201D\u2014dash\u00A0space\u3002"), "quoted dash space");
}

TEST(NormalizeWordsTest, EachHanAndKanaCharacterIsAWord) {
  EXPECT_EQ(NormalizeWords("see 漢字かな ok"), "see 漢 字 か な ok");
}

TEST(NormalizeWordsTest, IsEmptyWithoutWords) {
  EXPECT_EQ(NormalizeWords(""), "");
  EXPECT_EQ(NormalizeWords(" .,;\n"), "");
}

TEST(NormalizeWordsTest, AcceptsAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string words = NormalizeWords(bytes);
    EXPECT_LE(words.size(), 2 * bytes.size());
    EXPECT_EQ(words.find("  "), std::string::npos);
  }
}

TEST(WordNgramHashesTest, HashesEveryRunOfWords) {
  std::vector<uint64_t> expected;
  for (std::string_view ngram : {"a", "b", "a", "a b", "b a"}) {
    expected.push_back(XXH3_64bits(ngram.data(), ngram.size()));
  }
  const std::vector<uint64_t> hashes = WordNgramHashes("A b, a", 2);
  EXPECT_THAT(hashes, testing::UnorderedElementsAreArray(expected));
  EXPECT_TRUE(std::is_sorted(hashes.begin(), hashes.end()));
}

TEST(WordNgramHashesTest, IsEmptyWithoutWords) { EXPECT_TRUE(WordNgramHashes("...", 3).empty()); }

}  // namespace word_ngrams_test
}  // namespace braid
