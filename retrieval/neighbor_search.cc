#include "retrieval/neighbor_search.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "formats/check.h"
#include "formats/status_macros.h"
#include "retrieval/inner_product.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

// Found beyond k + 1 (the document itself is found too), so that rounding in the
// block product seldom decides who is k-th.
constexpr int32_t kSpareCandidates = 8;
// Bound on the difference between the block product and InnerProduct() for unit
// vectors; over ten standard deviations of the rounding error at d = 512.
constexpr float kProductError = 4e-6f;
constexpr int64_t kDocumentsPerBlock = 64;

struct Neighbor {
  uint32_t id;
  float score;
};

bool IsCloser(const Neighbor& a, const Neighbor& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

std::vector<float> GatherRows(const DocumentVectors& vectors, std::span<const uint32_t> documents) {
  std::vector<float> rows;
  rows.reserve(documents.size() * static_cast<size_t>(vectors.d));
  for (uint32_t document : documents) {
    rows.insert(rows.end(), vectors.row(document), vectors.row(document) + vectors.d);
  }
  return rows;
}

// What a search proposed for a block of documents, [documents, depth].
struct Candidates {
  Candidates(size_t num_documents, int32_t depth_)
      : depth(static_cast<size_t>(depth_)),
        ids(num_documents * depth),
        scores(num_documents * depth) {}

  size_t depth;
  std::vector<int64_t> ids;
  std::vector<float> scores;
};

void WriteRow(std::span<const Neighbor> neighbors, size_t k, size_t row, NeighborRows rows) {
  for (size_t j = 0; j < k; ++j) {
    const bool found = j < neighbors.size();
    rows.ids[row * k + j] = found ? neighbors[j].id : kNoNeighbor;
    rows.scores[row * k + j] = found ? neighbors[j].score : 0;
  }
}

std::vector<Neighbor> Rank(const DocumentVectors& vectors, uint32_t document,
                           std::span<const int64_t> candidates) {
  std::vector<Neighbor> ranked;
  for (int64_t id : candidates) {
    if (id < 0 || id == document) continue;
    ranked.push_back({static_cast<uint32_t>(id),
                      InnerProduct(vectors.row(document), vectors.row(id), vectors.d)});
  }
  std::sort(ranked.begin(), ranked.end(), IsCloser);
  return ranked;
}

void RankRows(const DocumentVectors& vectors, std::span<const uint32_t> documents, size_t k,
              const Candidates& candidates, NeighborRows rows) {
  const auto rank_block = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::span ids(candidates.ids.begin() + i * candidates.depth, candidates.depth);
      WriteRow(Rank(vectors, documents[i], ids), k, i, rows);
    }
  };
  ParallelFor(static_cast<int64_t>(documents.size()), kDocumentsPerBlock, rank_block);
}

// The `count` documents closest to `query`, itself included if it is one.
std::vector<Neighbor> ScanAll(const DocumentVectors& vectors, const float* query, size_t count) {
  std::vector<Neighbor> best;  // a heap, the farthest on top
  for (int64_t id = 0; id < vectors.n; ++id) {
    const Neighbor candidate{static_cast<uint32_t>(id),
                             InnerProduct(query, vectors.row(id), vectors.d)};
    if (best.size() == count) {
      if (!IsCloser(candidate, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), IsCloser);
      best.pop_back();
    }
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), IsCloser);
  }
  std::sort_heap(best.begin(), best.end(), IsCloser);
  return best;
}

class ExactNeighborSearch final : public NeighborSearch {
 public:
  ExactNeighborSearch(const DocumentVectors& vectors, int32_t k)
      : vectors_(vectors),
        k_(static_cast<size_t>(k)),
        depth_(static_cast<int32_t>(std::min<int64_t>(vectors.n, k + 1 + kSpareCandidates))) {}

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows) const override {
    if (documents.empty()) return absl::OkStatus();
    Candidates candidates(documents.size(), depth_);
    const std::vector<float> queries = GatherRows(vectors_, documents);
    RETURN_IF_ERROR(ExactSearch(vectors_.values, queries, vectors_.d, depth_,
                                {candidates.ids, candidates.scores}));
    RankRows(vectors_, documents, k_, candidates, rows);
    ScanUndecided(documents, candidates, rows);
    return absl::OkStatus();
  }

 private:
  // Whether a document that is no candidate could still be among the k closest.
  bool IsUndecided(size_t row, const Candidates& candidates, NeighborRows rows) const {
    if (depth_ == vectors_.n) return false;
    const float farthest_candidate = candidates.scores[(row + 1) * candidates.depth - 1];
    return rows.scores[(row + 1) * k_ - 1] <= farthest_candidate + kProductError;
  }

  // Ties at the k-th place, such as more than k copies of one document, are settled
  // by comparing with everything, once for all documents with the same vector.
  void ScanUndecided(std::span<const uint32_t> documents, const Candidates& candidates,
                     NeighborRows rows) const {
    std::map<std::string_view, std::vector<size_t>> rows_of_vector;
    for (size_t row = 0; row < documents.size(); ++row) {
      if (!IsUndecided(row, candidates, rows)) continue;
      rows_of_vector[VectorBytes(documents[row])].push_back(row);
    }
    std::vector<std::span<const size_t>> groups;
    for (const auto& [vector, members] : rows_of_vector) groups.push_back(members);
    ParallelFor(static_cast<int64_t>(groups.size()), 1, [&](int64_t i, int64_t) {
      const std::vector<Neighbor> closest =
          ScanAll(vectors_, vectors_.row(documents[groups[i][0]]), k_ + 1);
      for (size_t row : groups[i]) WriteRow(Without(documents[row], closest), k_, row, rows);
    });
  }

  std::string_view VectorBytes(uint32_t document) const {
    return {reinterpret_cast<const char*>(vectors_.row(document)),
            static_cast<size_t>(vectors_.d) * sizeof(float)};
  }

  static std::vector<Neighbor> Without(uint32_t document, std::vector<Neighbor> neighbors) {
    std::erase_if(neighbors, [&](const Neighbor& neighbor) { return neighbor.id == document; });
    return neighbors;
  }

  DocumentVectors vectors_;
  size_t k_;
  int32_t depth_;
};

class IndexedNeighborSearch final : public NeighborSearch {
 public:
  IndexedNeighborSearch(const DocumentVectors& vectors, int32_t k, int32_t num_candidates,
                        const VectorIndex* index)
      : vectors_(vectors),
        k_(static_cast<size_t>(k)),
        depth_(static_cast<int32_t>(std::min<int64_t>(vectors.n, num_candidates))),
        index_(index) {}

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows) const override {
    if (documents.empty()) return absl::OkStatus();
    Candidates candidates(documents.size(), depth_);
    const std::vector<float> queries = GatherRows(vectors_, documents);
    RETURN_IF_ERROR(index_->Search(queries, depth_, {candidates.ids, candidates.scores}));
    RankRows(vectors_, documents, k_, candidates, rows);
    return absl::OkStatus();
  }

 private:
  DocumentVectors vectors_;
  size_t k_;
  int32_t depth_;
  const VectorIndex* index_;
};

}  // namespace

std::unique_ptr<NeighborSearch> MakeExactNeighborSearch(const DocumentVectors& vectors, int32_t k) {
  BRAID_CHECK(k > 0) << k;
  return std::make_unique<ExactNeighborSearch>(vectors, k);
}

std::unique_ptr<NeighborSearch> MakeIndexedNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                          int32_t num_candidates,
                                                          const VectorIndex* index) {
  BRAID_CHECK(k > 0 && num_candidates > k) << k << ", " << num_candidates;
  return std::make_unique<IndexedNeighborSearch>(vectors, k, num_candidates, index);
}

}  // namespace braid
