// Scores of the documents of a list, for all queries of a block that probe it.
#ifndef BRAID_RETRIEVAL_LIST_SCORER_H_
#define BRAID_RETRIEVAL_LIST_SCORER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "retrieval/best_scores.h"
#include "retrieval/byte_lists.h"
#include "retrieval/inverted_lists.h"

namespace braid {

// One thread's, with its scratch.
class ListScorer {
 public:
  virtual ~ListScorer() = default;

  // Candidates to keep for a query that wants k neighbours, itself among them.
  virtual int64_t Depth(int32_t k) const = 0;

  virtual void SetQueries(const NeighborQueries& queries) = 0;

  // Offers the score of each document of `list` to best[v] for each v of `visitors`,
  // positions in the queries.
  virtual void ScoreList(int64_t list, std::span<const uint32_t> visitors,
                         std::span<BestScores> best) = 0;

  // No document offered with at most `score` is closer to the query than this.
  virtual float UpperBound(size_t query, float score) const = 0;
};

// By products of floats, rounded as the BLAS likes.
std::unique_ptr<ListScorer> MakeFloatScorer(const DocumentVectors& vectors,
                                            const InvertedLists& lists);

// By products of bytes (byte_product.h). Scores are off by the rounding of vectors: the
// bound is six standard deviations of that, for errors that do not depend on each other.
std::unique_ptr<ListScorer> MakeByteScorer(const InvertedLists& lists, const ByteLists& bytes);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_LIST_SCORER_H_
