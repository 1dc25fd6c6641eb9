#include "retrieval/inverted_lists.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/faiss_call.h"

namespace braid {

InvertedLists::InvertedLists(std::vector<float> centroids, int64_t num_lists,
                             std::vector<uint32_t> list_of)
    : centroids_(std::move(centroids)),
      list_of_(std::move(list_of)),
      starts_(static_cast<size_t>(num_lists) + 1, 0),
      documents_(list_of_.size()) {
  for (uint32_t list : list_of_) {
    BRAID_CHECK(list < num_lists) << list << " of " << num_lists;
    ++starts_[list + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<size_t> next(starts_.begin(), starts_.end() - 1);
  for (size_t document = 0; document < list_of_.size(); ++document) {
    documents_[next[list_of_[document]]++] = static_cast<uint32_t>(document);
  }
}

absl::StatusOr<InvertedLists> InvertedLists::Assign(const DocumentVectors& vectors,
                                                    std::vector<float> centroids,
                                                    const StopCheck& check) {
  constexpr int64_t kDocumentsPerBlock = 1024;
  SetFaissThreads(1);
  std::vector<uint32_t> list_of(static_cast<size_t>(vectors.n));
  RETURN_IF_ERROR(ParallelForUntil(
      vectors.n, kDocumentsPerBlock, check,
      [&](int64_t begin, int64_t end, const std::atomic<bool>&) {
        NearestCentroids(centroids,
                         vectors.values.subspan(begin * vectors.d, (end - begin) * vectors.d),
                         vectors.d, 1, std::span(list_of).subspan(begin, end - begin));
      }));
  const auto num_lists = static_cast<int64_t>(centroids.size()) / vectors.d;
  return InvertedLists(std::move(centroids), num_lists, std::move(list_of));
}

}  // namespace braid
