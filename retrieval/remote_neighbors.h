// The interface of a neighbor search on other machines.
#ifndef BRAID_RETRIEVAL_REMOTE_NEIGHBORS_H_
#define BRAID_RETRIEVAL_REMOTE_NEIGHBORS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "retrieval/document_vectors.h"
#include "retrieval/neighbor_search.h"
#include "retrieval/parallel_for.h"

namespace braid {

class RemoteNeighbors {
 public:
  virtual ~RemoteNeighbors() = default;

  // Sends the documents to the servers, as far as they do not have them yet. `centroids` [lists, d]
  // divide them into lists; empty: exact search only. Both must outlive this object. Errors: those
  // of `check` and of the servers.
  virtual absl::Status Load(const DocumentVectors& vectors, std::span<const float> centroids,
                            const StopCheck& check) = 0;

  // Create searches equal to MakeExactNeighborSearch and MakeListNeighborSearch of the same
  // vectors. Require Load(), and that this object outlives the result.
  virtual std::unique_ptr<NeighborSearch> MakeExactSearch(int32_t k) = 0;
  virtual std::unique_ptr<NeighborSearch> MakeListSearch(int32_t k) = 0;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_REMOTE_NEIGHBORS_H_
