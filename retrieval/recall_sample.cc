#include "retrieval/recall_sample.h"

#include <algorithm>

#include "base/status_macros.h"
#include "retrieval/document_sample.h"

namespace braid {

absl::StatusOr<RecallSample> RecallSample::Measure(const NeighborSearch& exact, int64_t n,
                                                   int32_t k, int64_t count, uint64_t seed,
                                                   const StopCheck& check) {
  std::vector<uint32_t> documents = SampleDocuments(n, count, seed);
  std::vector<uint32_t> ids(documents.size() * static_cast<size_t>(k));
  std::vector<float> scores(ids.size());
  RETURN_IF_ERROR(exact.Find(documents, {ids, scores}, check));
  return RecallSample(k, std::move(documents), std::move(ids), std::move(scores));
}

double RecallSample::Recall(std::span<const uint32_t> ids, std::span<const float> scores,
                            const std::function<size_t(size_t)>& row_of) const {
  int64_t expected = 0, found = 0;
  for (size_t i = 0; i < documents_.size(); ++i) {
    const std::span truth = std::span(ids_).subspan(i * k_, k_);
    const auto num_true = std::ranges::find(truth, kNoNeighbor) - truth.begin();
    if (num_true == 0) continue;
    expected += num_true;
    const float least = scores_[i * k_ + num_true - 1];
    const size_t begin = row_of(i) * k_;
    for (size_t j = begin; j < begin + k_; ++j) {
      found += ids[j] != kNoNeighbor && scores[j] >= least;
    }
  }
  return expected == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(expected);
}

}  // namespace braid
