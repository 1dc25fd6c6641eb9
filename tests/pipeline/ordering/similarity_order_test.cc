#include "pipeline/ordering/similarity_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/pipeline/ordering/random_graph.h"

namespace braid {
namespace similarity_order_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kPad = NeighborLists::kPadding;

// The definition of the order, implemented literally in O(n^2).
DocumentOrder ObviousOrder(const RandomGraph& graph) {
  std::vector<std::map<uint32_t, float>> weights(graph.n);
  for (int64_t i = 0; i < graph.n; ++i) {
    for (int32_t j = 0; j < graph.k; ++j) {
      const uint32_t id = graph.ids[i * graph.k + j];
      const float score = graph.scores[i * graph.k + j];
      if (id == kPad || id == i) continue;
      for (const auto& [a, b] : {std::pair<uint32_t, uint32_t>(i, id), {id, i}}) {
        const auto [edge, is_new] = weights[a].emplace(b, score);
        if (!is_new) edge->second = std::max(edge->second, score);
      }
    }
  }
  DocumentOrder result;
  std::set<uint32_t> unvisited;
  for (int64_t i = 0; i < graph.n; ++i) unvisited.insert(static_cast<uint32_t>(i));
  std::optional<uint32_t> at;
  while (!unvisited.empty()) {
    std::optional<uint32_t> next;
    if (at.has_value()) {
      for (const auto& [id, weight] : weights[*at]) {
        if (unvisited.contains(id) && (!next.has_value() || weight > weights[*at][*next]))
          next = id;
      }
    }
    if (!next.has_value()) {
      for (uint32_t id : unvisited) {
        if (!next.has_value() || weights[id].size() < weights[*next].size()) next = id;
      }
      result.path_starts.push_back(static_cast<uint32_t>(result.order.size()));
    }
    result.order.push_back(*next);
    unvisited.erase(*next);
    at = next;
  }
  return result;
}

void ExpectPermutation(std::vector<uint32_t> order) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
}

TEST(SimilarityOrderTest, EqualsTheObviousOrderOnRandomGraphs) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 600; ++trial) {
    const int64_t n = static_cast<int64_t>(random() % 60);
    const int32_t k = static_cast<int32_t>(random() % 7);
    const double padding = std::array{0.0, 0.3, 0.9}[random() % 3];
    const int num_scores = std::array{1, 4, 1000}[random() % 3];
    const RandomGraph graph = MakeRandomGraph(n, k, padding, num_scores, &random);
    const DocumentOrder expected = ObviousOrder(graph);
    const DocumentOrder got = SimilarityOrder(graph.view(), n);
    ExpectPermutation(got.order);
    ASSERT_EQ(got.order, expected.order) << "trial " << trial << " n " << n << " k " << k;
    ASSERT_EQ(got.path_starts, expected.path_starts) << "trial " << trial;
  }
}

TEST(SimilarityOrderTest, IsTheSameForAnyNumberOfThreads) {
  std::mt19937_64 random(2);
  for (const int64_t n : {0, 1, 2, 3, 1000}) {
    const RandomGraph graph = MakeRandomGraph(n, 10, 0.2, 5, &random);
    const DocumentOrder one = SimilarityOrder(graph.view(), n, 1);
    for (const int num_threads : {0, 2, 3, 8}) {
      const DocumentOrder more = SimilarityOrder(graph.view(), n, num_threads);
      EXPECT_EQ(more.order, one.order) << n << " documents, " << num_threads << " threads";
      EXPECT_EQ(more.path_starts, one.path_starts);
    }
  }
}

TEST(SimilarityOrderTest, HandlesEmptyAndEdgelessGraphs) {
  EXPECT_THAT(SimilarityOrder({20, {}, {}}, 0).order, IsEmpty());
  EXPECT_THAT(SimilarityOrder({20, {}, {}}, 0).path_starts, IsEmpty());
  const DocumentOrder edgeless = SimilarityOrder({0, {}, {}}, 3);
  EXPECT_THAT(edgeless.order, ElementsAre(0, 1, 2));
  EXPECT_THAT(edgeless.path_starts, ElementsAre(0, 1, 2));
  EXPECT_THAT(SimilarityOrder({1, std::array{kPad}, std::array{0.f}}, 1).order, ElementsAre(0));
}

TEST(SimilarityOrderTest, StartsAtLowestDegreeAndFollowsHighestScore) {
  // 1 - 0 (.5), 0 - 2 (.9), 0 - 3 (.9), 2 - 3 (.1): degrees 3, 1, 2, 2.
  const std::vector<uint32_t> ids = {kPad, kPad, 0, kPad, 0, 3, 0, kPad};
  const std::vector<float> scores = {0, 0, .5f, 0, .9f, .1f, .9f, 0};
  const DocumentOrder order = SimilarityOrder({2, ids, scores}, 4);
  EXPECT_THAT(order.order, ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(order.path_starts, ElementsAre(0));
}

TEST(SimilarityOrderTest, UsesAnEdgeThatOnlyOneSideLists) {
  const std::vector<uint32_t> ids = {kPad, kPad, 0};
  const std::vector<float> scores = {0, 0, .1f};
  EXPECT_THAT(SimilarityOrder({1, ids, scores}, 3).order, ElementsAre(1, 0, 2));
}

TEST(SimilarityOrderTest, TakesTheHigherOfTwoScoresOfAPair) {
  // The walk starts at 1; from 0 it sees 2 (.5) and 3 (.2 one way, .8 the other).
  const std::vector<uint32_t> ids = {3, 2, 0, kPad, kPad, kPad, 0, kPad};
  const std::vector<float> scores = {.2f, .5f, .9f, 0, 0, 0, .8f, 0};
  EXPECT_THAT(SimilarityOrder({2, ids, scores}, 4).order, ElementsAre(1, 0, 3, 2));
}

TEST(SimilarityOrderTest, PutsNanScoresLast) {
  const float nan = std::nanf("");
  // From 0: 1 (NaN) or 2 (-1); then 2 - 3 (.3), 3 - 1 (.2).
  const std::vector<uint32_t> ids = {1, 2, 2, 3, 3, kPad, kPad, kPad};
  const std::vector<float> scores = {nan, -1, .1f, .2f, .3f, 0, 0, 0};
  const DocumentOrder order = SimilarityOrder({2, ids, scores}, 4);
  EXPECT_THAT(order.order, ElementsAre(0, 2, 3, 1));
}

TEST(SimilarityOrderTest, TreatsBothZerosAsATie) {
  const std::vector<uint32_t> ids = {1, 2, 2, kPad, kPad, kPad};
  const std::vector<float> scores = {-0.0f, 0.0f, 0.5f, 0, 0, 0};
  EXPECT_THAT(SimilarityOrder({2, ids, scores}, 3).order, ElementsAre(0, 1, 2));
}

TEST(SimilarityOrderTest, KeepsClustersTogether) {
  // Document i belongs to cluster i % 10; neighbors are in the same cluster.
  constexpr int kDocuments = 200, kNeighbors = 5, kClusters = 10;
  std::mt19937_64 random(3);
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  for (int i = 0; i < kDocuments; ++i) {
    for (int j = 0; j < kNeighbors; ++j) {
      const int in_cluster = static_cast<int>(random() % (kDocuments / kClusters));
      ids.push_back(in_cluster * kClusters + i % kClusters);
      scores.push_back(static_cast<float>(random() % 100));
    }
  }
  const DocumentOrder order = SimilarityOrder({kNeighbors, ids, scores}, kDocuments);
  std::set<size_t> starts(order.path_starts.begin(), order.path_starts.end());
  EXPECT_LT(starts.size(), size_t{kDocuments / 2}) << "most documents follow a neighbor";
  for (size_t i = 1; i < order.order.size(); ++i) {
    if (starts.contains(i)) continue;
    EXPECT_EQ(order.order[i] % kClusters, order.order[i - 1] % kClusters) << "position " << i;
  }
}

TEST(SimilarityOrderDeathTest, RefusesAnIdOutOfRange) {
  EXPECT_DEATH(SimilarityOrder({1, std::array{1u, 2u}, std::array{0.f, 0.f}}, 2),
               "neighbor 2 of 2");
}

TEST(RandomOrderTest, IsAPermutationThatDependsOnTheSeed) {
  const DocumentOrder a = RandomOrder(1000, 1), b = RandomOrder(1000, 2);
  ExpectPermutation(a.order);
  ExpectPermutation(b.order);
  EXPECT_NE(a.order, b.order);
  EXPECT_EQ(a.order, RandomOrder(1000, 1).order);
  EXPECT_THAT(a.path_starts, IsEmpty());
}

TEST(SourceOrderTest, CountsUp) {
  EXPECT_THAT(SourceOrder(3).order, ElementsAre(0, 1, 2));
  EXPECT_THAT(SourceOrder(0).order, IsEmpty());
}

}  // namespace similarity_order_test
}  // namespace braid
