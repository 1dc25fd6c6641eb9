#include "pipeline/ordering/heldout_order.h"

#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "pipeline/ordering/kept_neighbors.h"
#include "retrieval/neighbor_search.h"

namespace braid {

absl::StatusOr<std::vector<uint32_t>> OrderAmongThemselves(const DocumentVectors& vectors,
                                                           std::vector<uint32_t> documents,
                                                           int32_t k, const StopCheck& check) {
  std::ranges::sort(documents);
  const auto m = static_cast<int64_t>(documents.size());
  k = static_cast<int32_t>(std::min<int64_t>(k, m - 1));
  if (k < 1) return documents;
  std::vector<float> rows;
  GatherRows(vectors, documents, &rows);
  std::vector<uint32_t> all(documents.size());
  std::iota(all.begin(), all.end(), uint32_t{0});
  std::vector<uint32_t> ids(static_cast<size_t>(m * k));
  std::vector<float> scores(ids.size());
  RETURN_IF_ERROR(
      MakeExactNeighborSearch({rows, m, vectors.d}, k)->Find(all, {ids, scores}, check));
  return OriginalNumbers(SimilarityOrder({k, ids, scores}, m, RetrievalThreads()), documents).order;
}

}  // namespace braid
