// Ranking of candidates, shared by all neighbor searches.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_RANKING_H_
#define BRAID_RETRIEVAL_NEIGHBOR_RANKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "retrieval/best_scores.h"
#include "retrieval/document_vectors.h"
#include "retrieval/neighbor_search.h"

namespace braid {

// Candidates searched in addition to k + 1 (the document itself is found too), so that rounding in
// a block product seldom decides which is the k-th.
inline constexpr int32_t kSpareCandidates = 8;
// Bound on the difference between a block product and InnerProduct() for unit vectors: more than
// ten standard deviations of the rounding error at d = 512.
inline constexpr float kProductError = 4e-6f;

// Writes row `row` of the result: the first k of `ranked` without the document itself, padded with
// kNoNeighbor.
void WriteRow(std::span<const ScoredId> ranked, uint32_t document, size_t k, size_t row,
              NeighborRows rows);

// Collects the `count` closest of the documents added, ties by ascending id.
class ClosestDocuments {
 public:
  explicit ClosestDocuments(size_t count) : count_(count) {}

  void Add(const ScoredId& candidate);
  std::vector<ScoredId> Sorted() const;

 private:
  size_t count_;
  std::vector<ScoredId> heap_;  // the farthest on top
};

// Queries of a block with equal vectors: their positions, never empty.
struct SameVector {
  std::vector<size_t> rows;
};

// Groups the queries at `rows` by vector, so that each vector is searched once. The order of the
// groups depends on the vectors only.
std::vector<SameVector> GroupBySameVector(const DocumentVectors& vectors,
                                          std::span<const uint32_t> queries,
                                          std::span<const size_t> rows);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_RANKING_H_
