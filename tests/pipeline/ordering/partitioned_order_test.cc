#include "pipeline/ordering/partitioned_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pipeline/ordering/kept_neighbors.h"
#include "tests/pipeline/ordering/random_graph.h"

namespace braid {
namespace partitioned_order_test {

constexpr uint32_t kPad = NeighborLists::kPadding;

// Returns the paths of each part: the walk over the graph without the edges between parts.
std::vector<std::vector<uint32_t>> ObviousPaths(RandomGraph graph,
                                                const std::vector<uint32_t>& partition_of,
                                                uint32_t num_partitions) {
  std::vector<std::vector<uint32_t>> paths;
  for (uint32_t part = 0; part < num_partitions; ++part) {
    std::vector<uint32_t> members, place(graph.n, kPad);
    for (uint32_t i = 0; i < graph.n; ++i) {
      if (partition_of[i] != part) continue;
      place[i] = static_cast<uint32_t>(members.size());
      members.push_back(i);
    }
    std::vector<uint32_t> ids;
    std::vector<float> scores;
    for (uint32_t i : members) {
      for (int32_t j = 0; j < graph.k; ++j) {
        const uint32_t id = graph.ids[i * graph.k + j];
        ids.push_back(id == kPad ? kPad : place[id]);
        scores.push_back(graph.scores[i * graph.k + j]);
      }
    }
    const auto order =
        SimilarityOrder({graph.k, ids, scores}, static_cast<int64_t>(members.size()));
    for (size_t at = 0, path = 0; at < order.order.size(); ++at) {
      if (path < order.path_starts.size() && order.path_starts[path] == at) {
        paths.emplace_back();
        ++path;
      }
      paths.back().push_back(members[order.order[at]]);
    }
  }
  return paths;
}

// Joins the paths by comparing all pairs.
DocumentOrder ObviousJoin(const RandomGraph& graph, std::vector<std::vector<uint32_t>> paths) {
  std::map<std::pair<uint32_t, uint32_t>, float> edges;
  for (uint32_t i = 0; i < graph.n; ++i) {
    for (int32_t j = 0; j < graph.k; ++j) {
      const uint32_t id = graph.ids[i * graph.k + j];
      const float score = graph.scores[i * graph.k + j];
      if (id == kPad || id == i) continue;
      for (const auto& pair : {std::pair(i, id), std::pair(id, i)}) {
        const auto [edge, is_new] = edges.emplace(pair, score);
        edge->second = std::max(edge->second, score);
      }
    }
  }
  DocumentOrder result;
  bool joined = false;
  size_t at = 0;
  while (!paths.empty()) {
    if (!joined) result.path_starts.push_back(static_cast<uint32_t>(result.order.size()));
    const std::vector<uint32_t> path = paths[joined ? at : 0];
    paths.erase(paths.begin() + static_cast<int64_t>(joined ? at : 0));
    result.order.insert(result.order.end(), path.begin(), path.end());
    joined = false;
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto edge = edges.find({path.back(), paths[i].front()});
      if (edge == edges.end()) continue;
      const float best = joined ? edges.at({path.back(), paths[at].front()}) : 0;
      const bool tie = joined && edge->second == best && paths[i].front() < paths[at].front();
      if (!joined || edge->second > best || tie) at = i;
      joined = true;
    }
  }
  return result;
}

TEST(PartitionedOrderTest, EqualsTheObviousOneOnRandomGraphs) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const auto n = static_cast<int64_t>(random() % 80);
    const auto k = static_cast<int32_t>(random() % 6);
    const auto num_partitions = static_cast<uint32_t>(2 + random() % 5);
    const RandomGraph graph = MakeRandomGraph(n, k, 0.3, trial % 2 ? 4 : 1000, &random);
    std::vector<uint32_t> partition_of(n);
    for (uint32_t& part : partition_of) part = static_cast<uint32_t>(random() % num_partitions);
    const DocumentOrder expected =
        ObviousJoin(graph, ObviousPaths(graph, partition_of, num_partitions));
    for (int threads : {1, 3}) {
      const DocumentOrder got =
          PartitionedOrder(graph.view(), n, partition_of, num_partitions, threads);
      ASSERT_EQ(got.order, expected.order) << "trial " << trial;
      ASSERT_EQ(got.path_starts, expected.path_starts) << "trial " << trial;
    }
    std::vector<uint32_t> sorted = expected.order;
    std::ranges::sort(sorted);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(sorted[i], i);
  }
}

TEST(PartitionedOrderTest, EqualsTheSimilarityOrderForOnePart) {
  std::mt19937_64 random(2);
  const RandomGraph graph = MakeRandomGraph(500, 8, 0.2, 10, &random);
  const std::vector<uint32_t> one(500, 0);
  const DocumentOrder whole = SimilarityOrder(graph.view(), 500);
  EXPECT_EQ(PartitionedOrder(graph.view(), 500, one, 1).order, whole.order);
  EXPECT_EQ(PartitionedOrder(graph.view(), 500, one, 3).order, whole.order);
}

TEST(PartitionedOrderTest, OmitsDocumentsOfNoPart) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const auto n = static_cast<int64_t>(1 + random() % 80);
    const RandomGraph graph = MakeRandomGraph(n, 5, 0.3, 1000, &random);
    std::vector<uint32_t> partition_of(n), kept;
    for (uint32_t i = 0; i < n; ++i) {
      partition_of[i] = random() % 4 == 0 ? kNoPartition : static_cast<uint32_t>(random() % 3);
      if (partition_of[i] != kNoPartition) kept.push_back(i);
    }
    const KeptNeighbors rest = RestrictNeighbors(graph.view(), n, kept);
    std::vector<uint32_t> parts_of_rest;
    for (uint32_t i : kept) parts_of_rest.push_back(partition_of[i]);
    const DocumentOrder expected = OriginalNumbers(
        PartitionedOrder(rest.view(), static_cast<int64_t>(kept.size()), parts_of_rest, 3), kept);
    const DocumentOrder got = PartitionedOrder(graph.view(), n, partition_of, 3);
    ASSERT_EQ(got.order, expected.order) << "trial " << trial;
    ASSERT_EQ(got.path_starts, expected.path_starts) << "trial " << trial;
  }
}

TEST(PartitionedOrderTest, JoinsPathsOfDifferentPartsByTheirEdges) {
  // Parts {0, 1}, {2, 3}, {4, 5}; an edge joins the end of the first to the third.
  const std::vector<uint32_t> ids = {1, kPad, 4, kPad, 3, kPad, kPad, kPad, 5, kPad, kPad, kPad};
  const std::vector<float> scores = {.9f, 0, .5f, 0, .9f, 0, 0, 0, .9f, 0, 0, 0};
  const DocumentOrder order =
      PartitionedOrder({2, ids, scores}, 6, std::vector<uint32_t>{0, 0, 1, 1, 2, 2}, 3);
  EXPECT_THAT(order.order, testing::ElementsAre(0, 1, 4, 5, 2, 3));
  EXPECT_THAT(order.path_starts, testing::ElementsAre(0, 4));
}

}  // namespace partitioned_order_test
}  // namespace braid
