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

  std::span<const int64_t> row(size_t document) const {
    return std::span(ids).subspan(document * depth, depth);
  }

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

std::vector<Neighbor> Without(uint32_t document, std::vector<Neighbor> neighbors) {
  std::erase_if(neighbors, [&](const Neighbor& neighbor) { return neighbor.id == document; });
  return neighbors;
}

std::vector<Neighbor> RankWithItself(const DocumentVectors& vectors, uint32_t document,
                                     std::span<const int64_t> candidates) {
  std::vector<Neighbor> ranked;
  for (int64_t id : candidates) {
    if (id < 0) continue;
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
      const auto ranked = RankWithItself(vectors, documents[i], candidates.row(i));
      WriteRow(Without(documents[i], ranked), k, i, rows);
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

// Documents of a block that have the same vector: `rows` of the block, never empty.
struct SameVector {
  uint32_t representative;
  std::vector<size_t> rows;
};

class ExactNeighborSearch final : public NeighborSearch {
 public:
  ExactNeighborSearch(const DocumentVectors& vectors, int32_t k)
      : vectors_(vectors),
        k_(static_cast<size_t>(k)),
        depth_(static_cast<int32_t>(std::min<int64_t>(vectors.n, k + 1 + kSpareCandidates))) {}

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows) const override {
    if (documents.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Candidates candidates, Propose(documents, depth_));
    RankRows(vectors_, documents, k_, candidates, rows);
    std::vector<SameVector> undecided = CollectUndecided(documents, candidates, rows);
    for (int64_t depth = kDeeper * int64_t{depth_}; depth < std::min(vectors_.n, kMaxDepth);
         depth *= kDeeper) {
      RETURN_IF_ERROR(SearchDeeper(documents, static_cast<int32_t>(depth), &undecided, rows));
    }
    ScanForRest(documents, undecided, rows);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kDeeper = 8;
  static constexpr int64_t kMaxDepth = 16'384;
  // Bounds the candidates held at once.
  static constexpr int64_t kMaxCandidates = int64_t{1} << 22;

  absl::StatusOr<Candidates> Propose(std::span<const uint32_t> documents, int32_t depth) const {
    Candidates candidates(documents.size(), depth);
    const std::vector<float> queries = GatherRows(vectors_, documents);
    RETURN_IF_ERROR(ExactSearch(vectors_.values, queries, vectors_.d, depth,
                                {candidates.ids, candidates.scores}));
    return candidates;
  }

  // Whether documents that were not proposed could still be as close as `score`.
  bool IsUndecided(float score, size_t row, const Candidates& candidates) const {
    if (static_cast<int64_t>(candidates.depth) == vectors_.n) return false;
    return score <= candidates.scores[(row + 1) * candidates.depth - 1] + kProductError;
  }

  std::vector<SameVector> CollectUndecided(std::span<const uint32_t> documents,
                                           const Candidates& candidates, NeighborRows rows) const {
    std::map<std::string_view, SameVector> groups;
    for (size_t row = 0; row < documents.size(); ++row) {
      if (!IsUndecided(rows.scores[(row + 1) * k_ - 1], row, candidates)) continue;
      SameVector& group = groups[VectorBytes(documents[row])];
      group.representative = documents[row];
      group.rows.push_back(row);
    }
    std::vector<SameVector> undecided;
    for (auto& [vector, group] : groups) undecided.push_back(std::move(group));
    return undecided;
  }

  // Settles what more candidates can settle; leaves the rest in `undecided`.
  absl::Status SearchDeeper(std::span<const uint32_t> documents, int32_t depth,
                            std::vector<SameVector>* undecided, NeighborRows rows) const {
    std::vector<SameVector> rest;
    const auto piece = static_cast<size_t>(std::max<int64_t>(1, kMaxCandidates / depth));
    for (size_t begin = 0; begin < undecided->size(); begin += piece) {
      const auto groups =
          std::span(*undecided).subspan(begin, std::min(piece, undecided->size() - begin));
      ASSIGN_OR_RETURN(std::vector<bool> settled, SettlePiece(documents, depth, groups, rows));
      for (size_t i = 0; i < groups.size(); ++i) {
        if (!settled[i]) rest.push_back(std::move(groups[i]));
      }
    }
    *undecided = std::move(rest);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<bool>> SettlePiece(std::span<const uint32_t> documents, int32_t depth,
                                                std::span<const SameVector> groups,
                                                NeighborRows rows) const {
    std::vector<uint32_t> representatives;
    for (const SameVector& group : groups) representatives.push_back(group.representative);
    ASSIGN_OR_RETURN(const Candidates candidates, Propose(representatives, depth));
    std::vector<std::vector<Neighbor>> closest(groups.size());
    ParallelFor(static_cast<int64_t>(groups.size()), 1, [&](int64_t i, int64_t) {
      closest[i] = RankWithItself(vectors_, representatives[i], candidates.row(i));
    });
    std::vector<bool> settled(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      settled[i] = !IsUndecided(closest[i][k_].score, i, candidates);
      if (settled[i]) WriteGroup(documents, groups[i], closest[i], rows);
    }
    return settled;
  }

  // Thousands of equally close documents: compares with every one.
  void ScanForRest(std::span<const uint32_t> documents, std::span<const SameVector> groups,
                   NeighborRows rows) const {
    ParallelFor(static_cast<int64_t>(groups.size()), 1, [&](int64_t i, int64_t) {
      const float* query = vectors_.row(groups[i].representative);
      WriteGroup(documents, groups[i], ScanAll(vectors_, query, k_ + 1), rows);
    });
  }

  // `closest` holds at least the k + 1 documents closest to the group's vector.
  void WriteGroup(std::span<const uint32_t> documents, const SameVector& group,
                  const std::vector<Neighbor>& closest, NeighborRows rows) const {
    for (size_t row : group.rows) WriteRow(Without(documents[row], closest), k_, row, rows);
  }

  std::string_view VectorBytes(uint32_t document) const {
    return {reinterpret_cast<const char*>(vectors_.row(document)),
            static_cast<size_t>(vectors_.d) * sizeof(float)};
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
