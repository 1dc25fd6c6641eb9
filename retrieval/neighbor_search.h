// Searches for the k nearest documents of given documents, exactly or through an index.
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

// A result: both [documents, k], row-major; kNoNeighbor and score 0 where there are fewer.
struct NeighborRows {
  std::span<uint32_t> ids;
  std::span<float> scores;
};

class NeighborSearch {
 public:
  virtual ~NeighborSearch() = default;

  // Finds, for each of `documents`, other documents by descending cosine, ties by ascending id.
  // Scores are InnerProduct() of the two vectors whatever method found them, so they do not depend
  // on threads or on the BLAS. Errors: those of `check`, within a second after its first; rows are
  // not written then.
  virtual absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                            const StopCheck& check) const = 0;

  // Returns the number of lists of documents; nullopt if all documents are always searched.
  virtual std::optional<int64_t> num_lists() const { return std::nullopt; }
  // Sets the number of lists searched per document. Requires num_lists(), and no concurrent Find.
  virtual void SetProbes(int64_t num_probes) { BRAID_CHECK(false) << num_probes; }
};

// A search that stores the vectors it searches, so it can search other vectors too.
class VectorSearch : public NeighborSearch {
 public:
  // Finds the neighbors of vectors, as Find does. `num_probes` is the number of lists searched by
  // this call, ignored without lists. Thread-safe.
  virtual absl::Status FindVectors(const NeighborQueries& queries, int64_t num_probes,
                                   NeighborRows rows, const StopCheck& check) const = 0;
};

// Creates an exact search: equal to comparing with every document, ties included.
std::unique_ptr<VectorSearch> MakeExactNeighborSearch(const DocumentVectors& vectors, int32_t k);

// Creates a search that returns the best k of the `num_candidates` that `index` (ids are rows of
// `vectors`) proposes. Requires that the index outlives the result.
std::unique_ptr<NeighborSearch> MakeIndexedNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                          int32_t num_candidates,
                                                          VectorIndex* index);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SEARCH_H_
