// Scores of the documents of a list for all queries of a block that probe it.
#ifndef BRAID_RETRIEVAL_LIST_SCORER_H_
#define BRAID_RETRIEVAL_LIST_SCORER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "retrieval/best_scores.h"
#include "retrieval/byte_lists.h"
#include "retrieval/inverted_lists.h"

namespace braid {

// Scores lists. One per thread, because it contains scratch memory.
class ListScorer {
 public:
  virtual ~ListScorer() = default;

  // Returns how many candidates to keep for a query for k neighbors, the query itself among them.
  virtual int64_t Depth(int32_t k) const = 0;

  // Sets the block of queries.
  virtual void SetQueries(const NeighborQueries& queries) = 0;

  // Offers the score of each document of `list` to best[v] for each v of `visitors`, which are
  // positions in the queries.
  virtual void ScoreList(int64_t list, std::span<const uint32_t> visitors,
                         std::span<BestScores> best) = 0;

  // Returns a bound: no document offered with at most `score` is closer to the query.
  virtual float UpperBound(size_t query, float score) const = 0;
};

// Scores by products of floats; the order of additions is that of the BLAS.
std::unique_ptr<ListScorer> MakeFloatScorer(const DocumentVectors& vectors,
                                            const InvertedLists& lists);

// Scores by products of bytes (byte_product.h). Scores have the rounding errors of the vectors: the
// bound is six standard deviations of them, assuming independent errors.
std::unique_ptr<ListScorer> MakeByteScorer(const InvertedLists& lists, const ByteLists& bytes);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_LIST_SCORER_H_
