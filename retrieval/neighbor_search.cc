#include "retrieval/neighbor_search.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "retrieval/inner_product.h"
#include "retrieval/neighbor_ranking.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int64_t kNeighborSearchDocumentsPerBlock = 64;

// The candidates for a block of documents, [documents, depth].
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

std::vector<ScoredId> RankCandidates(const DocumentVectors& vectors, const float* query,
                                     std::span<const int64_t> candidates) {
  std::vector<ScoredId> ranked;
  for (int64_t id : candidates) {
    if (id < 0) continue;
    ranked.push_back({static_cast<uint32_t>(id), InnerProduct(query, vectors.row(id), vectors.d)});
  }
  std::sort(ranked.begin(), ranked.end(), IsCloser);
  return ranked;
}

void RankRows(const DocumentVectors& vectors, const NeighborQueries& queries, size_t k,
              const Candidates& candidates, NeighborRows rows) {
  const auto rank_block = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const auto ranked = RankCandidates(vectors, queries.row(i), candidates.row(i));
      WriteRow(ranked, queries.excluded(i), k, i, rows);
    }
  };
  ParallelFor(static_cast<int64_t>(queries.size()), kNeighborSearchDocumentsPerBlock, rank_block);
}

// Returns the `count` documents closest to `query`, including itself if it is one.
std::vector<ScoredId> ScanAll(const DocumentVectors& vectors, const float* query, size_t count) {
  ClosestDocuments closest(count);
  for (int64_t id = 0; id < vectors.n; ++id) {
    closest.Add({static_cast<uint32_t>(id), InnerProduct(query, vectors.row(id), vectors.d)});
  }
  return closest.Sorted();
}

class ExactNeighborSearch final : public VectorSearch {
 public:
  ExactNeighborSearch(const DocumentVectors& vectors, int32_t k)
      : vectors_(vectors),
        k_(static_cast<size_t>(k)),
        depth_(static_cast<int32_t>(std::min<int64_t>(vectors.n, k + 1 + kSpareCandidates))) {}

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                    const StopCheck& check) const override {
    return FindVectors({vectors_, documents, true}, 0, rows, check);
  }

  absl::Status FindVectors(const NeighborQueries& queries, int64_t, NeighborRows rows,
                           const StopCheck& check) const override {
    if (queries.size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Candidates candidates,
                     Propose(queries.vectors, queries.rows, depth_, check));
    RankRows(vectors_, queries, k_, candidates, rows);
    std::vector<size_t> undecided_rows;
    for (size_t row = 0; row < queries.size(); ++row) {
      if (IsUndecided(rows.scores[(row + 1) * k_ - 1], row, candidates)) {
        undecided_rows.push_back(row);
      }
    }
    std::vector<SameVector> undecided =
        GroupBySameVector(queries.vectors, queries.rows, undecided_rows);
    for (int64_t depth = kDeeper * int64_t{depth_}; depth < std::min(vectors_.n, kMaxDepth);
         depth *= kDeeper) {
      RETURN_IF_ERROR(SearchDeeper(queries, static_cast<int32_t>(depth), &undecided, rows, check));
    }
    return ScanForRest(queries, undecided, rows, check);
  }

 private:
  static constexpr int64_t kDeeper = 8;
  static constexpr int64_t kMaxDepth = 16'384;
  // Limits the candidates held at once.
  static constexpr int64_t kMaxCandidates = int64_t{1} << 22;

  absl::StatusOr<Candidates> Propose(const DocumentVectors& query_vectors,
                                     std::span<const uint32_t> query_rows, int32_t depth,
                                     const StopCheck& check) const {
    Candidates candidates(query_rows.size(), depth);
    std::vector<float> queries;
    GatherRows(query_vectors, query_rows, &queries);
    RETURN_IF_ERROR(ExactSearch(vectors_.values, queries, vectors_.d, depth,
                                {candidates.ids, candidates.scores}, check));
    return candidates;
  }

  // Returns whether documents that were not proposed could be as close as `score`.
  bool IsUndecided(float score, size_t row, const Candidates& candidates) const {
    if (static_cast<int64_t>(candidates.depth) == vectors_.n) return false;
    return score <= candidates.scores[(row + 1) * candidates.depth - 1] + kProductError;
  }

  // Decides rows with more candidates; leaves the rest in `undecided`.
  absl::Status SearchDeeper(const NeighborQueries& queries, int32_t depth,
                            std::vector<SameVector>* undecided, NeighborRows rows,
                            const StopCheck& check) const {
    std::vector<SameVector> rest;
    const auto piece = static_cast<size_t>(std::max<int64_t>(1, kMaxCandidates / depth));
    for (size_t begin = 0; begin < undecided->size(); begin += piece) {
      const auto groups =
          std::span(*undecided).subspan(begin, std::min(piece, undecided->size() - begin));
      ASSIGN_OR_RETURN(std::vector<bool> settled, SettlePiece(queries, depth, groups, rows, check));
      for (size_t i = 0; i < groups.size(); ++i) {
        if (!settled[i]) rest.push_back(std::move(groups[i]));
      }
    }
    *undecided = std::move(rest);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<bool>> SettlePiece(const NeighborQueries& queries, int32_t depth,
                                                std::span<const SameVector> groups,
                                                NeighborRows rows, const StopCheck& check) const {
    std::vector<uint32_t> representatives;
    for (const SameVector& group : groups) representatives.push_back(queries.rows[group.rows[0]]);
    ASSIGN_OR_RETURN(const Candidates candidates,
                     Propose(queries.vectors, representatives, depth, check));
    std::vector<std::vector<ScoredId>> closest(groups.size());
    ParallelFor(static_cast<int64_t>(groups.size()), 1, [&](int64_t i, int64_t) {
      closest[i] =
          RankCandidates(vectors_, queries.vectors.row(representatives[i]), candidates.row(i));
    });
    std::vector<bool> settled(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      settled[i] = !IsUndecided(closest[i][k_].score, i, candidates);
      if (settled[i]) WriteGroup(queries, groups[i], closest[i], rows);
    }
    return settled;
  }

  // Compares with every document; needed if thousands of documents are equally close.
  absl::Status ScanForRest(const NeighborQueries& queries, std::span<const SameVector> groups,
                           NeighborRows rows, const StopCheck& check) const {
    const auto scan = [&](int64_t i, int64_t, const std::atomic<bool>&) {
      const float* query = queries.row(groups[i].rows[0]);
      WriteGroup(queries, groups[i], ScanAll(vectors_, query, k_ + 1), rows);
    };
    return ParallelForUntil(static_cast<int64_t>(groups.size()), 1, check, scan);
  }

  // Writes the rows of a group; `closest` holds at least the k + 1 documents closest to its vector.
  void WriteGroup(const NeighborQueries& queries, const SameVector& group,
                  const std::vector<ScoredId>& closest, NeighborRows rows) const {
    for (size_t row : group.rows) WriteRow(closest, queries.excluded(row), k_, row, rows);
  }

  DocumentVectors vectors_;
  size_t k_;
  int32_t depth_;
};

class IndexedNeighborSearch final : public NeighborSearch {
 public:
  IndexedNeighborSearch(const DocumentVectors& vectors, int32_t k, int32_t num_candidates,
                        VectorIndex* index)
      : vectors_(vectors),
        k_(static_cast<size_t>(k)),
        depth_(static_cast<int32_t>(std::min<int64_t>(vectors.n, num_candidates))),
        index_(index) {}

  std::optional<int64_t> num_lists() const override { return index_->num_lists(); }
  void SetProbes(int64_t num_probes) override { index_->SetProbes(num_probes); }

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                    const StopCheck& check) const override {
    for (size_t begin = 0; begin < documents.size(); begin += kQueriesPerSearch) {
      if (check) RETURN_IF_ERROR(check());
      const size_t count = std::min(kQueriesPerSearch, documents.size() - begin);
      RETURN_IF_ERROR(FindSome(
          documents.subspan(begin, count),
          {rows.ids.subspan(begin * k_, count * k_), rows.scores.subspan(begin * k_, count * k_)}));
    }
    return absl::OkStatus();
  }

 private:
  // Searches small blocks because FAISS cannot be interrupted within a search.
  static constexpr size_t kQueriesPerSearch = 512;

  absl::Status FindSome(std::span<const uint32_t> documents, NeighborRows rows) const {
    Candidates candidates(documents.size(), depth_);
    std::vector<float> queries;
    GatherRows(vectors_, documents, &queries);
    RETURN_IF_ERROR(index_->Search(queries, depth_, {candidates.ids, candidates.scores}));
    RankRows(vectors_, {vectors_, documents, true}, k_, candidates, rows);
    return absl::OkStatus();
  }

  DocumentVectors vectors_;
  size_t k_;
  int32_t depth_;
  VectorIndex* index_;
};

}  // namespace

std::unique_ptr<VectorSearch> MakeExactNeighborSearch(const DocumentVectors& vectors, int32_t k) {
  BRAID_CHECK(k > 0) << k;
  return std::make_unique<ExactNeighborSearch>(vectors, k);
}

std::unique_ptr<NeighborSearch> MakeIndexedNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                          int32_t num_candidates,
                                                          VectorIndex* index) {
  BRAID_CHECK(k > 0 && num_candidates > k) << k << ", " << num_candidates;
  return std::make_unique<IndexedNeighborSearch>(vectors, k, num_candidates, index);
}

}  // namespace braid
