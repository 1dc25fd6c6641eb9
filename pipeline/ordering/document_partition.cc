#include "pipeline/ordering/document_partition.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/inner_product.h"
#include "retrieval/inverted_lists.h"

namespace braid {
namespace {

constexpr int64_t kDocumentsPerPartition = 50'000'000;
constexpr int64_t kListsPerPartition = 8;

// Returns the lists as a chain that starts with list 0 and continues with the nearest unused one.
// O(lists^2 d).
std::vector<uint32_t> ChainLists(const InvertedLists& lists, int32_t d) {
  const int64_t num_lists = lists.num_lists();
  const float* centroids = lists.centroids().data();
  std::vector<uint32_t> chain = {0};
  std::vector<bool> used(num_lists, false);
  used[0] = true;
  while (static_cast<int64_t>(chain.size()) < num_lists) {
    int64_t nearest = -1;
    float best = 0;
    for (int64_t list = 0; list < num_lists; ++list) {
      if (used[list]) continue;
      const float score = InnerProduct(centroids + chain.back() * d, centroids + list * d, d);
      if (nearest < 0 || score > best) nearest = list, best = score;
    }
    used[nearest] = true;
    chain.push_back(static_cast<uint32_t>(nearest));
  }
  return chain;
}

}  // namespace

int64_t NumOrderPartitions(int64_t requested, int64_t n) {
  const int64_t by_size = (n + kDocumentsPerPartition - 1) / kDocumentsPerPartition;
  return std::clamp<int64_t>(requested > 0 ? requested : by_size, 1, std::max<int64_t>(n, 1));
}

absl::StatusOr<std::vector<uint32_t>> PartitionDocuments(const DocumentVectors& vectors,
                                                         int64_t num_partitions, uint64_t seed,
                                                         const StopCheck& check) {
  std::vector<uint32_t> partition_of(vectors.n, 0);
  if (num_partitions <= 1 || vectors.n == 0) return partition_of;
  const int64_t num_lists = std::min(num_partitions * kListsPerPartition, vectors.n);
  ASSIGN_OR_RETURN(std::vector<float> centroids, TrainCentroids(vectors, num_lists, seed, check));
  ASSIGN_OR_RETURN(const InvertedLists lists,
                   InvertedLists::Assign(vectors, std::move(centroids), check));
  int64_t placed = 0;
  for (uint32_t list : ChainLists(lists, vectors.d)) {
    const std::span<const uint32_t> documents = lists.documents(list);
    // The part that contains the middle of the list.
    const int64_t middle = placed + static_cast<int64_t>(documents.size()) / 2;
    const int64_t part = std::min(num_partitions - 1, middle * num_partitions / vectors.n);
    for (uint32_t document : documents) partition_of[document] = static_cast<uint32_t>(part);
    placed += static_cast<int64_t>(documents.size());
  }
  return partition_of;
}

}  // namespace braid
