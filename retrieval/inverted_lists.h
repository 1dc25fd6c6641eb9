// Lists of documents, grouped by their nearest centroid.
#ifndef BRAID_RETRIEVAL_INVERTED_LISTS_H_
#define BRAID_RETRIEVAL_INVERTED_LISTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Immutable.
class InvertedLists {
 public:
  // centroids: [num_lists, d]; list_of: [n], the list of each document, each < num_lists.
  InvertedLists(std::vector<float> centroids, int64_t num_lists, std::vector<uint32_t> list_of);

  // Assigns every document to the list of its nearest centroid. The result does not depend on the
  // number of threads. Errors: those of `check`.
  static absl::StatusOr<InvertedLists> Assign(const DocumentVectors& vectors,
                                              std::vector<float> centroids, const StopCheck& check);

  int64_t num_lists() const { return static_cast<int64_t>(starts_.size()) - 1; }
  const std::vector<float>& centroids() const { return centroids_; }
  const std::vector<uint32_t>& list_of() const { return list_of_; }
  // Returns the documents of a list, ascending.
  std::span<const uint32_t> documents(int64_t list) const {
    return std::span(documents_).subspan(starts_[list], starts_[list + 1] - starts_[list]);
  }

 private:
  std::vector<float> centroids_;
  std::vector<uint32_t> list_of_;
  std::vector<size_t> starts_;       // [num_lists + 1]
  std::vector<uint32_t> documents_;  // [n]
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_INVERTED_LISTS_H_
