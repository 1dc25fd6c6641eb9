#include "retrieval/neighbor_ranking.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace braid {

void WriteRow(std::span<const ScoredId> ranked, uint32_t document, size_t k, size_t row,
              NeighborRows rows) {
  size_t out = row * k;
  const size_t end = out + k;
  for (size_t i = 0; i < ranked.size() && out < end; ++i) {
    if (ranked[i].id == document) continue;
    rows.ids[out] = ranked[i].id;
    rows.scores[out++] = ranked[i].score;
  }
  std::fill(rows.ids.begin() + out, rows.ids.begin() + end, kNoNeighbor);
  std::fill(rows.scores.begin() + out, rows.scores.begin() + end, 0.0f);
}

void ClosestDocuments::Add(const ScoredId& candidate) {
  if (heap_.size() == count_) {
    if (!IsCloser(candidate, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), IsCloser);
    heap_.pop_back();
  }
  heap_.push_back(candidate);
  std::push_heap(heap_.begin(), heap_.end(), IsCloser);
}

std::vector<ScoredId> ClosestDocuments::Sorted() const {
  std::vector<ScoredId> sorted = heap_;
  std::sort_heap(sorted.begin(), sorted.end(), IsCloser);
  return sorted;
}

std::vector<SameVector> GroupBySameVector(const DocumentVectors& vectors,
                                          std::span<const uint32_t> queries,
                                          std::span<const size_t> rows) {
  std::map<std::string_view, SameVector> groups;
  for (size_t row : rows) {
    const std::string_view bytes(reinterpret_cast<const char*>(vectors.row(queries[row])),
                                 static_cast<size_t>(vectors.d) * sizeof(float));
    groups[bytes].rows.push_back(row);
  }
  std::vector<SameVector> result;
  for (auto& [bytes, group] : groups) result.push_back(std::move(group));
  return result;
}

}  // namespace braid
