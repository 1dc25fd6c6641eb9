#include "pipeline/ordering/deduplicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

namespace braid {
namespace deduplicate_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kPad = NeighborLists::kPadding;

// A small corpus in which every document is a neighbor of every other with the same cosine.
struct Corpus {
  explicit Corpus(std::vector<std::string> documents, float cosine = 1.0f)
      : texts(std::move(documents)) {
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t j = 0; j < texts.size(); ++j) ids.push_back(static_cast<uint32_t>(j));
    }
    scores.assign(ids.size(), cosine);
  }

  absl::StatusOr<Duplicates> Find(const DeduplicateOptions& options = {}) const {
    const NeighborLists lists{static_cast<int32_t>(texts.size()), ids, scores};
    return FindDuplicates(
        lists, static_cast<int64_t>(texts.size()), [&](uint32_t i) { return texts[i]; }, options);
  }

  std::vector<std::string> texts;
  std::vector<uint32_t> ids;
  std::vector<float> scores;
};

TEST(NormalizeTextTest, FoldsCaseSpaceAndPunctuation) {
  EXPECT_EQ(NormalizeText("  Hello,\t\n World!  42 "), "hello world 42");
  EXPECT_EQ(NormalizeText("a - b"), "a b");
  EXPECT_EQ(NormalizeText("\xC3\x89t\xC3\xA9"), "\xC3\x89t\xC3\xA9");  // only ASCII is folded
  EXPECT_EQ(NormalizeText(""), "");
}

TEST(NormalizeTextTest, DoesNotChangeATextOfPunctuation) {
  EXPECT_EQ(NormalizeText("----"), "----");
  EXPECT_EQ(NormalizeText(" # "), " # ");
}

TEST(NormalizeTextTest, DropsExactlyTheAsciiPunctuation) {
  for (int c = 1; c < 128; ++c) {
    const std::string text = {'a', static_cast<char>(c), 'b'};
    const std::string middle = std::ispunct(c)   ? ""
                               : std::isspace(c) ? " "
                                                 : std::string(1, std::tolower(c));
    EXPECT_EQ(NormalizeText(text), "a" + middle + "b") << "character " << c;
  }
}

TEST(CharacterNgramsTest, CountsDistinctCodePointGrams) {
  EXPECT_THAT(CharacterNgrams(""), IsEmpty());
  EXPECT_THAT(CharacterNgrams("abc"), SizeIs(1));
  EXPECT_THAT(CharacterNgrams("abcde"), SizeIs(1));
  EXPECT_THAT(CharacterNgrams("abcdefg"), SizeIs(3));
  EXPECT_THAT(CharacterNgrams("aaaaaaaaaa"), SizeIs(1));
  EXPECT_THAT(CharacterNgrams("\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xE2\x82\xAC!"), SizeIs(2));
}

TEST(JaccardTest, EqualsTheSetDefinition) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::set<uint64_t> a, b, all;
    for (size_t i = random() % 12; i > 0; --i) a.insert(random() % 20);
    for (size_t i = random() % 12; i > 0; --i) b.insert(random() % 20);
    all = a;
    all.insert(b.begin(), b.end());
    const double common = static_cast<double>(a.size() + b.size() - all.size());
    const double expected = all.empty() ? 1 : common / static_cast<double>(all.size());
    const std::vector<uint64_t> x(a.begin(), a.end()), y(b.begin(), b.end());
    EXPECT_DOUBLE_EQ(Jaccard(x, y), expected);
  }
}

TEST(FindDuplicatesTest, RemovesLaterExactCopiesWithoutAnyEdge) {
  const std::vector<std::string> texts = {"One text.", "other", "one  TEXT", "One text"};
  const std::vector<uint32_t> ids(4, kPad);
  const std::vector<float> scores(4, 0);
  const auto found = FindDuplicates({1, ids, scores}, 4, [&](uint32_t i) { return texts[i]; }, {});
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->removed, ElementsAre(2, 3));
  EXPECT_EQ(found->num_exact, 2);
  EXPECT_EQ(found->num_near, 0);
  EXPECT_EQ(found->num_compared, 0);
  ASSERT_THAT(found->pairs, SizeIs(2));
  EXPECT_EQ(found->pairs[1].removed, 3u);
  EXPECT_EQ(found->pairs[1].kept, 0u);
  EXPECT_TRUE(found->pairs[1].exact);
}

TEST(FindDuplicatesTest, NeedsBothCosineAndJaccard) {
  const std::string base = "the quick brown fox jumps over the lazy dog near the river bank today";
  const Corpus alike({base, base + " ok"});
  const auto found = alike.Find();
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->removed, ElementsAre(1));
  EXPECT_EQ(found->num_near, 1);
  EXPECT_EQ(found->num_compared, 1);
  EXPECT_FALSE(found->pairs.at(0).exact);
  EXPECT_NEAR(found->pairs.at(0).jaccard, 62.0 / 65.0, 0.05);
  EXPECT_THAT(Corpus({base, base + " ok"}, 0.89f).Find()->removed, IsEmpty());
  EXPECT_THAT(Corpus({base, "entirely different words stand here"}).Find()->removed, IsEmpty());
  EXPECT_THAT(alike.Find({.min_jaccard = 0.99})->removed, IsEmpty());
}

TEST(FindDuplicatesTest, KeepsBothEndsOfAChain) {
  // 0 ~ 1 and 1 ~ 2, but not 0 ~ 2: only 1 is removed.
  const std::string body = "abcdefghijklmnopqrstuvwxyz0123456789";
  const Corpus chain({body, body.substr(5) + "ABCDEfghij", body.substr(10) + "abcdefghij98765"});
  const auto grams = [&](int i) { return CharacterNgrams(NormalizeText(chain.texts[i])); };
  const double far = Jaccard(grams(0), grams(2));
  const double near = std::min(Jaccard(grams(0), grams(1)), Jaccard(grams(1), grams(2)));
  ASSERT_LT(far, near);
  const auto found = chain.Find({.min_jaccard = near});
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->removed, ElementsAre(1));
}

TEST(FindDuplicatesTest, RemovesACopyOfARemovedNearDuplicate) {
  const std::string base = "the quick brown fox jumps over the lazy dog near the river bank today";
  const std::vector<std::string> texts = {base, base + " ok", base + " OK!"};
  // Only document 2 is joined to document 0; document 1 is reached by its text.
  const std::vector<uint32_t> ids = {kPad, kPad, 0};
  const std::vector<float> scores = {0, 0, .95f};
  const auto found = FindDuplicates({1, ids, scores}, 3, [&](uint32_t i) { return texts[i]; }, {});
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->removed, ElementsAre(1, 2));
  EXPECT_EQ(found->pairs.at(1).kept, 0u);
  EXPECT_TRUE(found->pairs.at(1).exact) << "an exact copy of document 1, which is removed too";
  EXPECT_EQ(found->num_exact, 1);
  EXPECT_EQ(found->num_near, 1);
  EXPECT_EQ(found->pairs.at(1).jaccard, found->pairs.at(0).jaccard);
}

TEST(FindDuplicatesTest, EqualsTheObviousRuleOnRandomCorpora) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::string> texts;
    for (int i = 0; i < 25; ++i) {
      std::string text = i > 0 && random() % 2 ? texts[random() % i] : "";
      for (int c = text.empty() ? 40 : static_cast<int>(random() % 6); c > 0; --c) {
        text += static_cast<char>('a' + random() % 26);
      }
      texts.push_back(text);
    }
    const Corpus corpus(texts);
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < texts.size(); ++i) {
      bool goes = false;
      for (uint32_t j = 0; j < i; ++j) {
        const bool gone = std::find(expected.begin(), expected.end(), j) != expected.end();
        const double jaccard = Jaccard(CharacterNgrams(texts[i]), CharacterNgrams(texts[j]));
        goes |= texts[i] == texts[j] || (!gone && jaccard >= 0.8);
      }
      if (goes) expected.push_back(i);
    }
    const auto found = corpus.Find();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->removed, expected) << "trial " << trial;
    EXPECT_EQ(found->num_exact + found->num_near, static_cast<int64_t>(expected.size()));
    ASSERT_EQ(found->pairs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found->pairs[i].removed, expected[i]);
      EXPECT_LT(found->pairs[i].kept, expected[i]);
    }
  }
}

TEST(FindDuplicatesTest, ReturnsAnErrorOfTheTextAccess) {
  const auto found = FindDuplicates(
      {0, {}, {}}, 1,
      [](uint32_t) -> absl::StatusOr<std::string> { return absl::DataLossError("bad chunk"); }, {});
  EXPECT_EQ(found.status().message(), "bad chunk");
}

}  // namespace deduplicate_test
}  // namespace braid
