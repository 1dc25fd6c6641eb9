#include "pipeline/ordering/near_duplicate_index.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "pipeline/ordering/deduplicate.h"

namespace braid {
namespace near_duplicate_index_test {

std::vector<std::string_view> Views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

double SimilarityOf(const std::string& a, const std::string& b) {
  return Jaccard(CharacterNgrams(NormalizeText(a)), CharacterNgrams(NormalizeText(b)));
}

// Returns the first of `texts` that is similar enough by comparing all of them.
std::optional<uint32_t> FirstNearDuplicate(const std::vector<std::string>& texts,
                                           const std::string& text, double min_jaccard) {
  for (uint32_t i = 0; i < texts.size(); ++i) {
    if (SimilarityOf(texts[i], text) >= min_jaccard) return i;
  }
  return std::nullopt;
}

// Returns a text with words of a small vocabulary, so that texts share frequent grams, and a few
// rare words.
std::string RandomText(int num_words, std::mt19937_64* random) {
  std::string text;
  for (int i = 0; i < num_words; ++i) {
    uint64_t word = (*random)() % 8 == 0 ? (*random)() : (*random)() % 60;
    for (int letter = 0; letter < 5; ++letter, word /= 26) text += char('a' + word % 26);
    text += ' ';
  }
  return text;
}

std::string Edited(std::string text, uint64_t num_edits, std::mt19937_64* random) {
  for (; num_edits > 0; --num_edits) {
    const size_t at = (*random)() % text.size();
    switch ((*random)() % 3) {
      case 0:
        text[at] = char('a' + (*random)() % 26);
        break;
      case 1:
        text.insert(at, 1, char('a' + (*random)() % 26));
        break;
      default:
        text.erase(at, 1);
        if (text.empty()) text = "x";
    }
  }
  return text;
}

TEST(NearDuplicateIndexTest, FindsWhatComparingAllPairsFinds) {
  std::mt19937_64 random(11);
  for (const double min_jaccard : {0.05, 0.3, 0.5, 0.8, 0.9, 1.0}) {
    int num_found = 0, num_queries = 0;
    for (int trial = 0; trial < 4; ++trial) {
      std::vector<std::string> texts;
      for (int i = 0; i < 60; ++i) {
        const bool derived = i > 0 && random() % 3 == 0;
        texts.push_back(derived ? Edited(texts[random() % i], random() % 30, &random)
                                : RandomText(1 + static_cast<int>(random() % 60), &random));
      }
      const NearDuplicateIndex index(Views(texts), min_jaccard);
      NearDuplicateIndex::Scratch scratch(index);
      for (int query = 0; query < 100; ++query, ++num_queries) {
        // Ranges from exact copies to unrelated texts.
        const std::string text = random() % 4 == 0
                                     ? RandomText(1 + static_cast<int>(random() % 60), &random)
                                     : Edited(texts[random() % 60], random() % 30, &random);
        const auto expected = FirstNearDuplicate(texts, text, min_jaccard);
        const auto match = index.Find(text, &scratch);
        ASSERT_EQ(match.has_value(), expected.has_value()) << text;
        num_found += match.has_value();
        if (!match.has_value()) continue;
        EXPECT_EQ(match->text, *expected);
        EXPECT_EQ(match->jaccard, SimilarityOf(texts[*expected], text));
      }
    }
    EXPECT_GT(num_found, 0) << min_jaccard;
    EXPECT_LT(num_found, num_queries) << min_jaccard;
  }
}

TEST(NearDuplicateIndexTest, FindsPairsExactlyAtTheThreshold) {
  // 18 grams each, 16 of them in common: Jaccard 16 / 20.
  const std::string a = "abcdefghijklmnopqrstuv", b = "cdefghijklmnopqrstuvwx";
  ASSERT_DOUBLE_EQ(SimilarityOf(a, b), 0.8);
  const NearDuplicateIndex index(std::vector<std::string_view>{a}, 0.8);
  NearDuplicateIndex::Scratch scratch(index);
  EXPECT_TRUE(index.Find(b, &scratch).has_value());
  EXPECT_FALSE(index.Find(b + "y", &scratch).has_value());
}

TEST(NearDuplicateIndexTest, ShortTextsAndOtherScripts) {
  const std::vector<std::string> texts = {"a", "\xC3\xA4\xC3\xB6\xC3\xBC", "----", "Hello, World!"};
  const NearDuplicateIndex index(Views(texts), 0.8);
  NearDuplicateIndex::Scratch scratch(index);
  EXPECT_EQ(index.Find("A.", &scratch)->text, 0u);
  EXPECT_EQ(index.Find("\xC3\xA4\xC3\xB6\xC3\xBC", &scratch)->text, 1u);
  EXPECT_EQ(index.Find("----", &scratch)->text, 2u);
  EXPECT_EQ(index.Find("hello  world", &scratch)->text, 3u);
  EXPECT_FALSE(index.Find("####", &scratch).has_value());
  EXPECT_FALSE(index.Find("", &scratch).has_value());
}

TEST(NearDuplicateIndexTest, AnEmptyIndexHasNoMatch) {
  const NearDuplicateIndex index({}, 0.8);
  NearDuplicateIndex::Scratch scratch(index);
  EXPECT_FALSE(index.Find("anything at all", &scratch).has_value());
}

TEST(NearDuplicateIndexTest, ManyTextsOfOneTemplate) {
  // Almost all grams are in every text: the worst case of an inverted index.
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back("the same long introduction stands before every one of these numbers " +
                    std::to_string(1000003 * i) + " " + std::to_string(700001 * i));
  }
  const NearDuplicateIndex index(Views(texts), 0.8);
  NearDuplicateIndex::Scratch scratch(index);
  for (int i = 0; i < 300; i += 7) {
    EXPECT_EQ(index.Find(texts[i], &scratch)->text, *FirstNearDuplicate(texts, texts[i], 0.8));
  }
}

}  // namespace near_duplicate_index_test
}  // namespace braid
