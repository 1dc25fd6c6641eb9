#include "retrieval/list_search.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "formats/check.h"
#include "retrieval/best_scores.h"
#include "retrieval/block_product.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/faiss_call.h"
#include "retrieval/inner_product.h"
#include "retrieval/neighbor_ranking.h"

namespace braid {
namespace {

// Of one product: its operands and its result stay in a core's cache.
constexpr int64_t kQueriesPerProduct = 256;
constexpr int64_t kVectorsPerProduct = 512;

// One block of queries, searched by one thread.
class BlockSearch {
 public:
  BlockSearch(const DocumentVectors& vectors, const InvertedLists& lists, int64_t num_probes,
              int32_t k, std::span<const uint32_t> queries)
      : vectors_(vectors),
        lists_(lists),
        num_probes_(num_probes),
        k_(static_cast<size_t>(k)),
        depth_(k + 1 + kSpareCandidates),
        queries_(queries),
        candidates_(queries.size() * static_cast<size_t>(BestScores::Capacity(depth_))),
        products_(kQueriesPerProduct * kVectorsPerProduct) {
    for (size_t i = 0; i < queries.size(); ++i) {
      best_.emplace_back(depth_, candidates_.data() + i * BestScores::Capacity(depth_));
    }
  }

  // Writes nothing once `stopping`.
  void Run(const std::atomic<bool>& stopping, NeighborRows rows) {
    ChooseLists();
    GroupByList();
    for (int64_t list = 0; list < lists_.num_lists() && !stopping; ++list) SearchList(list);
    for (size_t i = 0; i < queries_.size() && !stopping; ++i) RankRow(i, rows);
    for (const SameVector& group : GroupBySameVector(vectors_, queries_, undecided_)) {
      if (stopping) return;
      CompareWithAll(group, rows);
    }
  }

 private:
  std::span<const uint32_t> ProbesOf(size_t query) const {
    return std::span(probes_).subspan(query * num_probes_, num_probes_);
  }

  void ChooseLists() {
    constexpr size_t kQueriesAtOnce = 1024;
    probes_.resize(queries_.size() * num_probes_);
    for (size_t begin = 0; begin < queries_.size(); begin += kQueriesAtOnce) {
      const size_t count = std::min(kQueriesAtOnce, queries_.size() - begin);
      GatherRows(vectors_, queries_.subspan(begin, count), &query_rows_);
      NearestCentroids(lists_.centroids(), query_rows_, vectors_.d, num_probes_,
                       std::span(probes_).subspan(begin * num_probes_, count * num_probes_));
    }
  }

  // Counting sort of (list, query) pairs by list.
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

  void SearchList(int64_t list) {
    const auto visitors =
        std::span(visitors_).subspan(starts_[list], starts_[list + 1] - starts_[list]);
    if (visitors.empty()) return;
    const std::span<const uint32_t> documents = lists_.documents(list);
    for (size_t begin = 0; begin < documents.size(); begin += kVectorsPerProduct) {
      const size_t count = std::min<size_t>(kVectorsPerProduct, documents.size() - begin);
      GatherRows(vectors_, documents.subspan(begin, count), &list_rows_);
      for (size_t at = 0; at < visitors.size(); at += kQueriesPerProduct) {
        Compare(visitors.subspan(at, std::min<size_t>(kQueriesPerProduct, visitors.size() - at)),
                documents.subspan(begin, count));
      }
    }
  }

  // documents: those whose vectors stand in list_rows_.
  void Compare(std::span<const uint32_t> visitors, std::span<const uint32_t> documents) {
    query_documents_.clear();
    for (uint32_t visitor : visitors) query_documents_.push_back(queries_[visitor]);
    GatherRows(vectors_, query_documents_, &query_rows_);
    BlockProduct(query_rows_.data(), static_cast<int64_t>(visitors.size()), list_rows_.data(),
                 static_cast<int64_t>(documents.size()), vectors_.d, products_.data());
    for (size_t i = 0; i < visitors.size(); ++i) {
      best_[visitors[i]].Offer(std::span(products_).subspan(i * documents.size(), documents.size()),
                               documents.data());
    }
  }

  void RankRow(size_t i, NeighborRows rows) {
    const std::span<ScoredId> candidates = best_[i].Take();
    float lowest = std::numeric_limits<float>::infinity();
    for (ScoredId& candidate : candidates) {
      lowest = std::min(lowest, candidate.score);
      candidate.score =
          InnerProduct(vectors_.row(queries_[i]), vectors_.row(candidate.id), vectors_.d);
    }
    std::ranges::sort(candidates, IsCloser);
    WriteRow(candidates, queries_[i], k_, i, rows);
    const bool all_kept = static_cast<int64_t>(candidates.size()) < depth_;
    if (!all_kept && rows.scores[(i + 1) * k_ - 1] <= lowest + kProductError) {
      undecided_.push_back(i);
    }
  }

  // For queries with many others about as close as the k-th.
  void CompareWithAll(const SameVector& group, NeighborRows rows) const {
    ClosestDocuments closest(k_ + 1);
    const float* query = vectors_.row(queries_[group.rows[0]]);
    for (uint32_t list : ProbesOf(group.rows[0])) {
      for (uint32_t document : lists_.documents(list)) {
        closest.Add({document, InnerProduct(query, vectors_.row(document), vectors_.d)});
      }
    }
    const std::vector<ScoredId> sorted = closest.Sorted();
    for (size_t row : group.rows) WriteRow(sorted, queries_[row], k_, row, rows);
  }

  const DocumentVectors& vectors_;
  const InvertedLists& lists_;
  const size_t num_probes_, k_;
  const int64_t depth_;
  const std::span<const uint32_t> queries_;
  std::vector<ScoredId> candidates_;  // [queries, capacity], the buffers of best_
  std::vector<BestScores> best_;      // [queries]
  std::vector<uint32_t> probes_;      // [queries, num_probes]
  std::vector<size_t> starts_;        // [num_lists + 1], of each list's visitors
  std::vector<uint32_t> visitors_;    // positions in queries_, list by list
  std::vector<size_t> undecided_;     // positions in queries_
  // Scratch of one product.
  std::vector<uint32_t> query_documents_;
  std::vector<float> query_rows_, list_rows_, products_;
};

class ListNeighborSearch final : public NeighborSearch {
 public:
  ListNeighborSearch(const DocumentVectors& vectors, int32_t k, const InvertedLists* lists)
      : vectors_(vectors), k_(k), lists_(lists) {}

  std::optional<int64_t> num_lists() const override { return lists_->num_lists(); }

  void SetProbes(int64_t num_probes) override {
    BRAID_CHECK(num_probes >= 1 && num_probes <= lists_->num_lists()) << num_probes;
    num_probes_ = num_probes;
  }

  absl::Status Find(std::span<const uint32_t> documents, NeighborRows rows,
                    const StopCheck& check) const override {
    SetFaissThreads(1);
    return ParallelForUntil(
        static_cast<int64_t>(documents.size()), kListSearchBlock, check,
        [&](int64_t begin, int64_t end, const std::atomic<bool>& stopping) {
          const size_t k = static_cast<size_t>(k_), count = static_cast<size_t>(end - begin);
          BlockSearch(vectors_, *lists_, num_probes_, k_, documents.subspan(begin, count))
              .Run(stopping, {rows.ids.subspan(begin * k, count * k),
                              rows.scores.subspan(begin * k, count * k)});
        });
  }

 private:
  DocumentVectors vectors_;
  int32_t k_;
  const InvertedLists* lists_;
  int64_t num_probes_ = 1;
};

}  // namespace

std::unique_ptr<NeighborSearch> MakeListNeighborSearch(const DocumentVectors& vectors, int32_t k,
                                                       const InvertedLists* lists) {
  BRAID_CHECK(k > 0) << k;
  return std::make_unique<ListNeighborSearch>(vectors, k, lists);
}

}  // namespace braid
