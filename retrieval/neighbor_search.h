// The k nearest documents of given documents, exactly or through an index.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "retrieval/vector_index.h"

namespace braid {

// In place of an id where a document has fewer than k neighbours; score 0.
inline constexpr uint32_t kNoNeighbor = 0xFFFFFFFF;

// The vectors of n documents, row-major [n, d]; each of norm 1 or all zero.
struct DocumentVectors {
  std::span<const float> values;
  int64_t n;
  int32_t d;

  const float* row(int64_t document) const { return values.data() + document * d; }
};

// Both [documents, k], row-major.
struct NeighborRows {
  std::span<uint32_t> ids;
  std::span<float> scores;
};

class NeighborSearch {
 public:
  virtual ~NeighborSearch() = default;

  // For each of `documents`, other documents by descending cosine, ties by
  // ascending id. Scores are InnerProduct() of the two vectors, whatever found
  // them, so they do not depend on threads or on the BLAS in use.
  virtual absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows) const = 0;
};

// Really the k best: equal to comparing with every document, also in ties.
std::unique_ptr<NeighborSearch> MakeExactNeighborSearch(const DocumentVectors& vectors, int32_t k);

// The best k of the `num_candidates` that `index` (ids = rows of `vectors`) proposes.
// Requires: index outlives the result.
std::unique_ptr<NeighborSearch> MakeIndexedNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                          int32_t num_candidates,
                                                          const VectorIndex* index);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_
