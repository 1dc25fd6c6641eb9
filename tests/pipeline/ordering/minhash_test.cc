#include "pipeline/ordering/minhash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace minhash_test {

using Pairs = std::set<std::pair<uint32_t, uint32_t>>;

absl::Status Continue(const StagePosition&) { return absl::OkStatus(); }

std::vector<uint32_t> AllDistinct(int64_t n) {
  std::vector<uint32_t> first(static_cast<size_t>(n));
  std::iota(first.begin(), first.end(), 0u);
  return first;
}

Pairs Candidates(const DocumentStore& documents, const MinHashOptions& options) {
  const auto found = MinHashCandidates(documents, AllDistinct(documents.size()), options, Continue);
  EXPECT_TRUE(found.ok()) << found.status();
  Pairs pairs;
  for (const DuplicateCandidate& candidate : *found) {
    EXPECT_GT(candidate.later, candidate.earlier);
    EXPECT_TRUE(pairs.emplace(candidate.later, candidate.earlier).second) << "each once";
  }
  return pairs;
}

std::string RandomLetters(size_t length, std::mt19937_64* random) {
  std::string text;
  while (text.size() < length) {
    text += static_cast<char>('a' + (*random)() % 26);
    if ((*random)() % 6 == 0) text += ' ';
  }
  return text;
}

// Pairs of documents 2 i and 2 i + 1 whose similarity goes from 1 down to about .5.
std::vector<std::string> EditedPairs(int num_pairs, std::mt19937_64* random) {
  std::vector<std::string> texts;
  for (int i = 0; i < num_pairs; ++i) {
    std::string text = RandomLetters(600, random);
    texts.push_back(text);
    for (int edit = 0; edit < i % 30; ++edit) text[(*random)() % text.size()] = 'z';
    texts.push_back(text);
  }
  return texts;
}

double SimilarityOf(std::string_view a, std::string_view b) {
  return Jaccard(CharacterNgrams(NormalizeText(a)), CharacterNgrams(NormalizeText(b)));
}

TEST(MinHashTest, FindsNearlyAllPairsOfTheThreshold) {
  std::mt19937_64 random(8);
  const std::vector<std::string> texts = EditedPairs(1500, &random);
  const DocumentStore documents = StoreOf(texts);
  const Pairs found = Candidates(documents, {.seed = 5});
  int similar = 0, hits = 0, barely = 0, barely_hits = 0;
  for (uint32_t i = 0; i < texts.size(); i += 2) {
    const double jaccard = SimilarityOf(texts[i], texts[i + 1]);
    if (jaccard < 0.8) continue;
    const int hit = found.contains({i + 1, i}) ? 1 : 0;
    ++similar;
    hits += hit;
    barely += jaccard < 0.85 ? 1 : 0;
    barely_hits += jaccard < 0.85 ? hit : 0;
  }
  ASSERT_GT(similar, 300);
  ASSERT_GT(barely, 50);
  EXPECT_GE(hits, 0.99 * similar);
  EXPECT_GE(barely_hits, 0.98 * barely) << "whole bands find 92 % of these";
  EXPECT_LT(found.size(), 1500u) << "few unrelated pairs are compared";
}

TEST(MinHashTest, DependsOnTheSeedButNotOnThreads) {
  std::mt19937_64 random(9);
  const DocumentStore documents = StoreOf(EditedPairs(200, &random));
  SetRetrievalThreads(1);
  const Pairs one = Candidates(documents, {.bands = 2, .rows = 12, .seed = 1});
  SetRetrievalThreads(3);
  EXPECT_EQ(Candidates(documents, {.bands = 2, .rows = 12, .seed = 1}), one);
  EXPECT_NE(Candidates(documents, {.bands = 2, .rows = 12, .seed = 2}), one);
  SetRetrievalThreads(0);
}

TEST(MinHashTest, PairsALargeGroupWithItsFirstDocumentsOnly) {
  std::mt19937_64 random(10);
  const std::string original = RandomLetters(400, &random);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(original + std::to_string(i));
  const DocumentStore documents = StoreOf(texts);
  const Pairs found = Candidates(documents, {});
  for (uint32_t i = 1; i < texts.size(); ++i) EXPECT_TRUE(found.contains({i, 0u})) << i;
  EXPECT_LT(found.size(), 300u * 100u);
  const auto duplicates = FindDuplicates({}, documents.size(), [&](uint32_t i) { return texts[i]; },
                                         {.candidates = [&](std::span<const uint32_t> first) {
                                           return MinHashCandidates(documents, first, {}, Continue);
                                         }});
  ASSERT_TRUE(duplicates.ok()) << duplicates.status();
  EXPECT_EQ(duplicates->num_near, 299);
}

}  // namespace minhash_test
}  // namespace braid
