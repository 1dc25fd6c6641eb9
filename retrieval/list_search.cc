#include "retrieval/list_search.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "retrieval/best_scores.h"
#include "retrieval/byte_product.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/faiss_call.h"
#include "retrieval/inner_product.h"
#include "retrieval/list_scorer.h"
#include "retrieval/neighbor_ranking.h"

namespace braid {
namespace {

// The search of one block of queries by one thread, in four steps:
//
//   1. ChooseLists: finds the num_probes nearest centroids of each query.
//   2. GroupByList: inverts (query -> lists) to (list -> visiting queries).
//   3. ScoreList: multiplies, list by list, the visitors with the documents of the list; keeps the
//      best `depth` candidates per query by approximate scores.
//   4. RankRow: ranks the candidates by InnerProduct().
//
// Invariant: every document that is not a candidate has an approximate score of at most the lowest
// candidate score. If even the upper bound of the exact score for that (ListScorer::UpperBound) is
// below the k-th exact score, the row is proven correct; otherwise it is undecided, and the caller
// searches it with a more exact method.
class BlockSearch {
 public:
  BlockSearch(const DocumentVectors& vectors, const InvertedLists& lists, int64_t num_probes,
              int32_t k, const NeighborQueries& queries, std::unique_ptr<ListScorer> scorer)
      : vectors_(vectors),
        lists_(lists),
        num_probes_(num_probes),
        k_(static_cast<size_t>(k)),
        depth_(scorer->Depth(k)),
        queries_(queries),
        scorer_(std::move(scorer)),
        candidates_(queries.size() * static_cast<size_t>(BestScores::Capacity(depth_))) {
    for (size_t i = 0; i < queries.size(); ++i) {
      best_.emplace_back(depth_, candidates_.data() + i * BestScores::Capacity(depth_));
    }
  }

  // Writes the rows of all queries, unless `stopping`; returns the positions of undecided rows, for
  // which documents that are not candidates could be as close.
  std::vector<size_t> Run(const std::atomic<bool>& stopping, NeighborRows rows) {
    ChooseLists(stopping);
    if (stopping) return {};
    GroupByList();
    scorer_->SetQueries(queries_);
    for (int64_t list = 0; list < lists_.num_lists() && !stopping; ++list) {
      const auto visitors =
          std::span(visitors_).subspan(starts_[list], starts_[list + 1] - starts_[list]);
      if (!visitors.empty()) scorer_->ScoreList(list, visitors, best_);
    }
    std::vector<size_t> undecided;
    for (size_t i = 0; i < queries_.size() && !stopping; ++i) {
      if (!RankRow(i, rows)) undecided.push_back(i);
    }
    return undecided;
  }

  // Writes the rows of queries with the same vector by comparing with every document of their
  // lists.
  void CompareWithAll(const SameVector& group, NeighborRows rows) const {
    ClosestDocuments closest(k_ + 1);
    const float* query = queries_.row(group.rows[0]);
    for (uint32_t list : std::span(probes_).subspan(group.rows[0] * num_probes_, num_probes_)) {
      for (uint32_t document : lists_.documents(list)) {
        closest.Add({document, InnerProduct(query, vectors_.row(document), vectors_.d)});
      }
    }
    const std::vector<ScoredId> sorted = closest.Sorted();
    for (size_t row : group.rows) WriteRow(sorted, queries_.excluded(row), k_, row, rows);
  }

 private:
  void ChooseLists(const std::atomic<bool>& stopping) {
    constexpr size_t kQueriesAtOnce = 1024;
    probes_.resize(queries_.size() * num_probes_);
    std::vector<float> rows;
    for (size_t begin = 0; begin < queries_.size() && !stopping; begin += kQueriesAtOnce) {
      const size_t count = std::min(kQueriesAtOnce, queries_.size() - begin);
      GatherRows(queries_.vectors, queries_.rows.subspan(begin, count), &rows);
      NearestCentroids(lists_.centroids(), rows, vectors_.d, num_probes_,
                       std::span(probes_).subspan(begin * num_probes_, count * num_probes_));
    }
  }

  // Sorts the (list, query) pairs by list with a counting sort.
  void GroupByList() {
    starts_.assign(lists_.num_lists() + 1, 0);
    for (uint32_t list : probes_) ++starts_[list + 1];
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    std::vector<size_t> next(starts_.begin(), starts_.end() - 1);
    visitors_.resize(probes_.size());
    for (size_t i = 0; i < probes_.size(); ++i) {
      visitors_[next[probes_[i]]++] = static_cast<uint32_t>(i / num_probes_);
    }
  }

  // Writes row i; returns false if it is undecided.
  bool RankRow(size_t i, NeighborRows rows) {
    const std::span<ScoredId> candidates = best_[i].Take();
    float lowest = std::numeric_limits<float>::infinity();
    for (ScoredId& candidate : candidates) {
      lowest = std::min(lowest, candidate.score);
      candidate.score = InnerProduct(queries_.row(i), vectors_.row(candidate.id), vectors_.d);
    }
    std::ranges::sort(candidates, IsCloser);
    WriteRow(candidates, queries_.excluded(i), k_, i, rows);
    const bool all_kept = static_cast<int64_t>(candidates.size()) < depth_;
    return all_kept || rows.scores[(i + 1) * k_ - 1] > scorer_->UpperBound(i, lowest);
  }

  const DocumentVectors& vectors_;
  const InvertedLists& lists_;
  const size_t num_probes_, k_;
  const int64_t depth_;
  const NeighborQueries queries_;
  const std::unique_ptr<ListScorer> scorer_;
  std::vector<ScoredId> candidates_;  // [queries, capacity], the buffers of best_
  std::vector<BestScores> best_;      // [queries]
  std::vector<uint32_t> probes_;      // [queries, num_probes]
  std::vector<size_t> starts_;        // [num_lists + 1], first visitor of each list
  std::vector<uint32_t> visitors_;    // positions in queries_, list by list
};

class ListNeighborSearch final : public VectorSearch {
 public:
  ListNeighborSearch(const DocumentVectors& vectors, int32_t k, const InvertedLists* lists,
                     bool use_bytes)
      : vectors_(vectors), k_(k), lists_(lists) {
    if (use_bytes) bytes_.emplace(vectors_, *lists);
  }

  std::optional<int64_t> num_lists() const override { return lists_->num_lists(); }

  void SetProbes(int64_t num_probes) override {
    BRAID_CHECK(num_probes >= 1 && num_probes <= lists_->num_lists()) << num_probes;
    num_probes_ = num_probes;
  }

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                    const StopCheck& check) const override {
    return FindVectors({vectors_, documents, true}, num_probes_, rows, check);
  }

  absl::Status FindVectors(const NeighborQueries& queries, int64_t num_probes, NeighborRows rows,
                           const StopCheck& check) const override {
    BRAID_CHECK(num_probes >= 1 && num_probes <= lists_->num_lists()) << num_probes;
    SetFaissThreads(1);
    const auto k = static_cast<size_t>(k_);
    const auto search = [&](int64_t begin, int64_t end, const std::atomic<bool>& stopping) {
      const auto count = static_cast<size_t>(end - begin);
      FindBlock(
          queries.subspan(begin, count), num_probes, stopping,
          {rows.ids.subspan(begin * k, count * k), rows.scores.subspan(begin * k, count * k)});
    };
    return ParallelForUntil(static_cast<int64_t>(queries.size()), BlockSize(num_probes), check,
                            search);
  }

 private:
  // Returns a power of two that bounds the pairs of query and list that a thread holds.
  static int64_t BlockSize(int64_t num_probes) {
    constexpr uint64_t kMostPairs = uint64_t{1} << 24;
    constexpr uint64_t kLeast = 16;
    const uint64_t fits = std::bit_floor(kMostPairs / static_cast<uint64_t>(num_probes));
    return std::clamp<int64_t>(std::max(fits, kLeast), kLeast, kListSearchBlock);
  }

  // Searches with bytes, then the undecided queries with floats, and those still undecided one by
  // one.
  void FindBlock(const NeighborQueries& queries, int64_t num_probes,
                 const std::atomic<bool>& stopping, NeighborRows rows) const {
    if (!bytes_) return FindWithFloats(queries, num_probes, stopping, rows);
    std::vector<size_t> undecided;
    {
      BlockSearch search(vectors_, *lists_, num_probes, k_, queries,
                         MakeByteScorer(*lists_, *bytes_));
      undecided = search.Run(stopping, rows);
    }
    if (undecided.empty() || stopping) return;
    const auto k = static_cast<size_t>(k_);
    std::vector<uint32_t> rest;
    for (size_t i : undecided) rest.push_back(queries.rows[i]);
    std::vector<uint32_t> ids(rest.size() * k);
    std::vector<float> scores(ids.size());
    FindWithFloats({queries.vectors, rest, queries.are_documents}, num_probes, stopping,
                   {ids, scores});
    for (size_t j = 0; j < undecided.size(); ++j) {
      std::copy_n(ids.begin() + j * k, k, rows.ids.begin() + undecided[j] * k);
      std::copy_n(scores.begin() + j * k, k, rows.scores.begin() + undecided[j] * k);
    }
  }

  void FindWithFloats(const NeighborQueries& queries, int64_t num_probes,
                      const std::atomic<bool>& stopping, NeighborRows rows) const {
    BlockSearch search(vectors_, *lists_, num_probes, k_, queries,
                       MakeFloatScorer(vectors_, *lists_));
    const std::vector<size_t> undecided = search.Run(stopping, rows);
    for (const SameVector& group : GroupBySameVector(queries.vectors, queries.rows, undecided)) {
      if (stopping) return;
      search.CompareWithAll(group, rows);
    }
  }

  DocumentVectors vectors_;
  int32_t k_;
  const InvertedLists* lists_;
  std::optional<ByteLists> bytes_;
  int64_t num_probes_ = 1;
};

}  // namespace

std::unique_ptr<VectorSearch> MakeListNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                     const InvertedLists* lists,
                                                     ListArithmetic arithmetic) {
  BRAID_CHECK(k > 0) << k;
  const bool use_bytes = arithmetic == ListArithmetic::kBytes ||
                         (arithmetic == ListArithmetic::kFastest && HasFastByteProduct());
  return std::make_unique<ListNeighborSearch>(vectors, k, lists, use_bytes);
}

}  // namespace braid
