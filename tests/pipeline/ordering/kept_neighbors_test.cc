#include "pipeline/ordering/kept_neighbors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "tests/pipeline/ordering/random_graph.h"

namespace braid {
namespace kept_neighbors_test {

using ::testing::ElementsAre;

constexpr uint32_t kPad = NeighborLists::kPadding;

TEST(RestrictNeighborsTest, RenumbersAndClosesGaps) {
  const std::vector<uint32_t> ids = {1, 2, 3, 0, 2, kPad, 0, 3, 1, 2, 1, 0};
  const std::vector<float> scores = {.9f, .8f, .7f, .9f, .6f, 0, .8f, .5f, .4f, .5f, .3f, .2f};
  const KeptNeighbors kept = RestrictNeighbors({3, ids, scores}, 4, std::array{0u, 2u, 3u});
  EXPECT_THAT(kept.ids, ElementsAre(1, 2, kPad, 0, 2, kPad, 1, 0, kPad));
  EXPECT_THAT(kept.scores, ElementsAre(.8f, .7f, 0, .8f, .5f, 0, .5f, .2f, 0));
}

TEST(RestrictNeighborsTest, KeepsExactlyTheEdgesBetweenKeptDocuments) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 50; ++trial) {
    const RandomGraph graph = MakeRandomGraph(30, 4, 0.2, 10, &random);
    std::vector<uint32_t> kept;
    for (uint32_t i = 0; i < graph.n; ++i) {
      if (random() % 3 != 0) kept.push_back(i);
    }
    const KeptNeighbors restricted = RestrictNeighbors(graph.view(), graph.n, kept);
    std::vector<std::tuple<uint32_t, uint32_t, float>> expected, got;
    for (uint32_t i : kept) {
      for (size_t j = i * 4; j < (i + 1) * 4; ++j) {
        const bool stays = std::find(kept.begin(), kept.end(), graph.ids[j]) != kept.end();
        if (stays) expected.emplace_back(i, graph.ids[j], graph.scores[j]);
      }
    }
    for (size_t j = 0; j < restricted.ids.size(); ++j) {
      if (restricted.ids[j] == kPad) continue;
      got.emplace_back(kept[j / 4], kept[restricted.ids[j]], restricted.scores[j]);
    }
    EXPECT_EQ(got, expected);
  }
}

TEST(OriginalNumbersTest, UndoesTheRenumbering) {
  const DocumentOrder order = OriginalNumbers({{2, 0, 1}, {0}}, std::array{4u, 6u, 9u});
  EXPECT_THAT(order.order, ElementsAre(9, 4, 6));
  EXPECT_THAT(order.path_starts, ElementsAre(0));
}

}  // namespace kept_neighbors_test
}  // namespace braid
