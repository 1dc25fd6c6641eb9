#include "retrieval/best_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace braid {
namespace best_scores_test {

TEST(BestScoresTest, EqualsSorting) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t depth : {1, 2, 29, 100}) {
    for (int64_t n : {0, 1, 31, 32, 33, 1000, 5000}) {
      std::vector<ScoredId> buffer(BestScores::Capacity(depth)), expected;
      BestScores best(depth, buffer.data());
      for (int64_t begin = 0; begin < n;) {
        const int64_t count = std::min<int64_t>(n - begin, 1 + random() % 100);
        std::vector<float> scores(count);
        for (float& score : scores) score = normal(random);
        std::vector<uint32_t> ids(count);
        std::iota(ids.begin(), ids.end(), static_cast<uint32_t>(begin));
        best.Offer(scores, ids.data());
        for (int64_t i = 0; i < count; ++i) expected.push_back({ids[i], scores[i]});
        begin += count;
      }
      std::ranges::sort(expected, IsCloser);
      expected.resize(std::min<size_t>(expected.size(), depth));
      const std::span<ScoredId> kept = best.Take();
      std::ranges::sort(kept, IsCloser);
      ASSERT_EQ(kept.size(), expected.size());
      for (size_t i = 0; i < kept.size(); ++i) {
        EXPECT_EQ(kept[i].id, expected[i].id);
        EXPECT_EQ(kept[i].score, expected[i].score);
      }
    }
  }
}

TEST(BestScoresTest, DropsNaN) {
  std::vector<ScoredId> buffer(BestScores::Capacity(3));
  BestScores best(3, buffer.data());
  const std::vector<float> scores = {NAN, -1, NAN, 2};
  const std::vector<uint32_t> ids = {0, 1, 2, 3};
  best.Offer(scores, ids.data());
  EXPECT_EQ(best.Take().size(), 2u);
}

}  // namespace best_scores_test
}  // namespace braid
