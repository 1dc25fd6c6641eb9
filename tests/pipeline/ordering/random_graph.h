// Seeded random neighbor lists for the tests of this folder.
#ifndef BRAID_TESTS_PIPELINE_ORDERING_RANDOM_GRAPH_H_
#define BRAID_TESTS_PIPELINE_ORDERING_RANDOM_GRAPH_H_

#include <cstdint>
#include <random>
#include <vector>

#include "pipeline/ordering/similarity_order.h"

namespace braid {

struct RandomGraph {
  int64_t n = 0;
  int32_t k = 0;
  std::vector<uint32_t> ids;
  std::vector<float> scores;

  NeighborLists view() const { return {k, ids, scores}; }
};

// Returns lists with all irregularities that real ones may have: padding anywhere, the document
// itself, repeats, few distinct scores (ties, both signs), asymmetric scores, isolated documents.
// `padding` is the fraction of empty cells.
inline RandomGraph MakeRandomGraph(int64_t n, int32_t k, double padding, int num_scores,
                                   std::mt19937_64* random) {
  RandomGraph graph{n, k, {}, {}};
  std::bernoulli_distribution empty(padding), isolated(0.1);
  std::uniform_int_distribution<int> score(-num_scores / 2, num_scores / 2);
  for (int64_t i = 0; i < n; ++i) {
    const bool alone = isolated(*random);
    for (int32_t j = 0; j < k; ++j) {
      const bool pad = alone || empty(*random);
      graph.ids.push_back(pad ? NeighborLists::kPadding : static_cast<uint32_t>((*random)() % n));
      graph.scores.push_back(static_cast<float>(score(*random)) / static_cast<float>(num_scores));
    }
  }
  return graph;
}

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_ORDERING_RANDOM_GRAPH_H_
