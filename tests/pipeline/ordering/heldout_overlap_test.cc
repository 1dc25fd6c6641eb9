#include "pipeline/ordering/heldout_overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "pipeline/ordering/deduplicate.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace heldout_overlap_test {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kPad = NeighborLists::kPadding;

absl::Status GoOn(const StagePosition&) { return absl::OkStatus(); }

std::vector<HeldoutOverlap> Find(const DocumentStore& documents, const NeighborLists& lists,
                                 const std::vector<uint32_t>& training,
                                 const std::vector<uint32_t>& heldout,
                                 const HeldoutOverlapOptions& options = {}) {
  const auto found = FindHeldoutOverlaps(documents, lists, training, heldout, options, GoOn);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(std::vector<HeldoutOverlap>());
}

double SimilarityOf(std::string_view a, std::string_view b) {
  return Jaccard(CharacterNgrams(NormalizeText(a)), CharacterNgrams(NormalizeText(b)));
}

std::string RandomSentence(std::mt19937_64* random) {
  std::string text;
  for (int word = 0; word < 30; ++word) {
    uint64_t letters = (*random)() % 400;
    for (int i = 0; i < 5; ++i, letters /= 3) text += static_cast<char>('a' + letters % 26);
    text += ' ';
  }
  return text;
}

// Returns the text with a few characters replaced.
std::string Edited(std::string text, int num_edits, std::mt19937_64* random) {
  for (; num_edits > 0; --num_edits) {
    text[(*random)() % text.size()] = static_cast<char>('a' + (*random)() % 26);
  }
  return text;
}

TEST(HeldoutOverlapTest, FindsEveryOverlapThatComparingAllPairsFinds) {
  std::mt19937_64 random(3);
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    // Includes chains: an edited copy is copied and edited again.
    const bool copy = i > 0 && random() % 3 == 0;
    const int num_edits = static_cast<int>(random() % 10);
    texts.push_back(copy ? Edited(texts[random() % i], num_edits, &random)
                         : RandomSentence(&random));
  }
  const DocumentStore documents = StoreOf(texts);
  std::vector<uint32_t> training, heldout;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    const uint64_t draw = random() % 10;
    if (draw == 0) heldout.push_back(i);
    if (draw > 1) training.push_back(i);  // the others were removed before
  }
  for (const double min_jaccard : {0.5, 0.8, 0.95}) {
    std::vector<uint32_t> expected;
    for (const uint32_t i : training) {
      const bool overlaps = std::any_of(heldout.begin(), heldout.end(), [&](uint32_t j) {
        return SimilarityOf(texts[i], texts[j]) >= min_jaccard;
      });
      if (overlaps) expected.push_back(i);
    }
    ASSERT_GE(expected.size(), 3u) << min_jaccard;
    for (const int64_t max_index_bytes : {int64_t{1} << 30, int64_t{1000}}) {
      for (const int num_threads : {1, 3}) {
        SetRetrievalThreads(num_threads);
        const auto found = Find(documents, {}, training, heldout,
                                {.min_jaccard = min_jaccard, .max_index_bytes = max_index_bytes});
        std::vector<uint32_t> dropped;
        for (const HeldoutOverlap& overlap : found) {
          dropped.push_back(overlap.document);
          EXPECT_TRUE(std::binary_search(heldout.begin(), heldout.end(), overlap.heldout));
          EXPECT_EQ(overlap.jaccard, SimilarityOf(texts[overlap.document], texts[overlap.heldout]));
        }
        EXPECT_EQ(dropped, expected);
      }
    }
  }
  SetRetrievalThreads(0);
}

// Overlaps that deduplication by the graph misses: of a ~ b ~ c, b is removed, and then a and c are
// on different sides; or the documents are in no neighbor list.
TEST(HeldoutOverlapTest, FindsOverlapsThatNoNeighborListHas) {
  std::mt19937_64 random(4);
  const std::string a = RandomSentence(&random), stranger = RandomSentence(&random);
  const DocumentStore documents = StoreOf({a, Edited(a, 2, &random), stranger});
  const std::vector<uint32_t> nobody(3, kPad);
  const std::vector<float> scores(3, 0);
  const auto found = Find(documents, {1, nobody, scores}, {1, 2}, {0});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].document, 1u);
  EXPECT_EQ(found[0].heldout, 0u);
  EXPECT_EQ(found[0].cosine, 0) << "not in the lists";
}

TEST(HeldoutOverlapTest, CosineCountsInEitherDirectionOfAList) {
  std::mt19937_64 random(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 6; ++i) texts.push_back(RandomSentence(&random));
  const DocumentStore documents = StoreOf(texts);
  // 0 and 1 are held out. Edges: 0 -> 2; 3 -> 1; 4 -> 1 with too low a cosine; 5 -> 2.
  const std::vector<uint32_t> ids = {2, kPad, kPad, 1, 1, 2};
  const std::vector<float> scores = {.95f, 0, 0, .9f, .89f, .99f};
  const NeighborLists lists = {1, ids, scores};
  const auto found = Find(documents, lists, {2, 3, 4, 5}, {0, 1}, {.max_cosine = .9f - 1e-6});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].document, 2u);
  EXPECT_EQ(found[0].heldout, 0u);
  EXPECT_FLOAT_EQ(static_cast<float>(found[0].cosine), .95f);
  EXPECT_EQ(found[0].jaccard, SimilarityOf(texts[0], texts[2]));
  EXPECT_EQ(found[1].document, 3u);
  EXPECT_THAT(Find(documents, lists, {2, 3, 4, 5}, {0, 1}, {.max_cosine = 1.5}), IsEmpty());
  EXPECT_THAT(Find(documents, lists, {4, 5}, {0, 1}), IsEmpty()) << "2 and 3 are on no side";
}

TEST(HeldoutOverlapTest, FindsNothingWithoutHeldOutDocuments) {
  const DocumentStore documents = StoreOf({"some text", "some text"});
  EXPECT_THAT(Find(documents, {}, {0, 1}, {}), IsEmpty());
}

TEST(HeldoutOverlapTest, StopsWhenTheCallbackFails) {
  const DocumentStore documents = StoreOf({"some text", "some text"});
  const auto found =
      FindHeldoutOverlaps(documents, {}, std::vector<uint32_t>{0}, std::vector<uint32_t>{1}, {},
                          [](const StagePosition&) { return absl::CancelledError("stop"); });
  EXPECT_EQ(found.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace heldout_overlap_test
}  // namespace braid
