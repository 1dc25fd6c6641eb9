// The similarity order of a few documents of a corpus, such as the held-out ones of a domain.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_ORDER_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Returns `documents`, which are rows of `vectors`, in the order of the greedy path
// (similarity_order.h) through the exact graph of the k nearest neighbors among them. The neighbor
// graph of the corpus would not do: few neighbors of a held-out document are held out.
//
// Guarantees: the result does not depend on the order of `documents` or on the number of threads.
// Complexity: O(m^2 d) time for m documents. Errors: those of `check`.
absl::StatusOr<std::vector<uint32_t>> OrderAmongThemselves(const DocumentVectors& vectors,
                                                           std::vector<uint32_t> documents,
                                                           int32_t k, const StopCheck& check);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_ORDER_H_
