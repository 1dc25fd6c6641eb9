// What approximate search is measured against: the exact neighbours of some
// documents.
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
  // documents: [m]; ids, scores: [m, k], as exact search finds them.
  RecallSample(int32_t k, std::vector<uint32_t> documents, std::vector<uint32_t> ids,
               std::vector<float> scores)
      : k_(static_cast<size_t>(k)),
        documents_(std::move(documents)),
        ids_(std::move(ids)),
        scores_(std::move(scores)) {}

  // min(count, n) documents by `seed`, searched with `exact`.
  static absl::StatusOr<RecallSample> Measure(const NeighborSearch& exact, int64_t n, int32_t k,
                                              int64_t count, uint64_t seed, const StopCheck& check);

  std::span<const uint32_t> documents() const { return documents_; }
  std::span<const uint32_t> ids() const { return ids_; }
  std::span<const float> scores() const { return scores_; }

  // recall@k: the share of the true neighbours' places that are filled with documents
  // at least as similar as the true k-th. ids, scores: [rows, k]; row_of(i) is the row
  // of documents()[i]. 1 when there are no neighbours.
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
