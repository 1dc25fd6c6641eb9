// The exact neighbors of a sample of documents, the reference for approximate search.
#ifndef BRAID_RETRIEVAL_RECALL_SAMPLE_H_
#define BRAID_RETRIEVAL_RECALL_SAMPLE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/neighbor_search.h"

namespace braid {

class RecallSample {
 public:
  RecallSample() = default;
  // documents: [m]; ids, scores: [m, k], as found by exact search.
  RecallSample(int32_t k, std::vector<uint32_t> documents, std::vector<uint32_t> ids,
               std::vector<float> scores)
      : k_(static_cast<size_t>(k)),
        documents_(std::move(documents)),
        ids_(std::move(ids)),
        scores_(std::move(scores)) {}

  // Searches min(count, n) documents, chosen by `seed`, with `exact`.
  static absl::StatusOr<RecallSample> Measure(const NeighborSearch& exact, int64_t n, int32_t k,
                                              int64_t count, uint64_t seed, const StopCheck& check);

  std::span<const uint32_t> documents() const { return documents_; }
  std::span<const uint32_t> ids() const { return ids_; }
  std::span<const float> scores() const { return scores_; }

  // Returns recall@k: the share of the entries that are at least as similar as the true k-th
  // neighbor. ids, scores: [rows, k]; row_of(i) is the row of documents()[i]. 1 if there are no
  // neighbors.
  double Recall(std::span<const uint32_t> ids, std::span<const float> scores,
                const std::function<size_t(size_t)>& row_of) const;

 private:
  size_t k_ = 0;
  std::vector<uint32_t> documents_;
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_RECALL_SAMPLE_H_
