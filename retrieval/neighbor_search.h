// The k nearest documents of given documents, exactly or through an index.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "base/check.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"
#include "retrieval/vector_index.h"

namespace braid {

// Both [documents, k], row-major; kNoNeighbor and score 0 where there are fewer.
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
  // Errors: those of `check`, within a second of its first; rows are then not written.
  virtual absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                            const StopCheck& check) const = 0;

  // Lists into which documents are divided, when only some are searched.
  virtual std::optional<int64_t> num_lists() const { return std::nullopt; }
  // Lists searched for each document. Requires: num_lists(), and no Find meanwhile.
  virtual void SetProbes(int64_t num_probes) { BRAID_CHECK(false) << num_probes; }
};

// A search that holds the vectors it searches, so that others can be looked for too.
class VectorSearch : public NeighborSearch {
 public:
  // As Find. `num_probes`: lists searched, as by SetProbes(), for this call; means
  // nothing without lists. Thread-safe.
  virtual absl::Status FindVectors(const NeighborQueries& queries, int64_t num_probes,
                                   NeighborRows rows, const StopCheck& check) const = 0;
};

// Really the k best: equal to comparing with every document, also in ties.
std::unique_ptr<VectorSearch> MakeExactNeighborSearch(const DocumentVectors& vectors, int32_t k);

// The best k of the `num_candidates` that `index` (ids = rows of `vectors`) proposes.
// Requires: index outlives the result.
std::unique_ptr<NeighborSearch> MakeIndexedNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                          int32_t num_candidates,
                                                          VectorIndex* index);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_
