#include "retrieval/list_scorer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "retrieval/block_product.h"
#include "retrieval/byte_product.h"
#include "retrieval/neighbor_ranking.h"

namespace braid {
namespace {

class FloatScorer final : public ListScorer {
 public:
  FloatScorer(const DocumentVectors& vectors, const InvertedLists& lists)
      : vectors_(vectors), lists_(lists), products_(kQueriesPerProduct * kVectorsPerProduct) {}

  int64_t Depth(int32_t k) const override { return k + 1 + kSpareCandidates; }
  void SetQueries(const NeighborQueries& queries) override { queries_ = queries; }
  float UpperBound(size_t, float score) const override { return score + kProductError; }

  void ScoreList(int64_t list, std::span<const uint32_t> visitors,
                 std::span<BestScores> best) override {
    const std::span<const uint32_t> documents = lists_.documents(list);
    for (size_t begin = 0; begin < documents.size(); begin += kVectorsPerProduct) {
      const size_t count = std::min(kVectorsPerProduct, documents.size() - begin);
      GatherRows(vectors_, documents.subspan(begin, count), &list_rows_);
      for (size_t at = 0; at < visitors.size(); at += kQueriesPerProduct) {
        Score(visitors.subspan(at, std::min(kQueriesPerProduct, visitors.size() - at)),
              documents.subspan(begin, count), best);
      }
    }
  }

 private:
  // Sizes of one product: its operands and its result stay in the cache of a core.
  static constexpr size_t kQueriesPerProduct = 256;
  static constexpr size_t kVectorsPerProduct = 512;

  // documents: those whose vectors are in list_rows_.
  void Score(std::span<const uint32_t> visitors, std::span<const uint32_t> documents,
             std::span<BestScores> best) {
    visiting_.clear();
    for (uint32_t visitor : visitors) visiting_.push_back(queries_.rows[visitor]);
    GatherRows(queries_.vectors, visiting_, &query_rows_);
    BlockProduct(query_rows_.data(), static_cast<int64_t>(visitors.size()), list_rows_.data(),
                 static_cast<int64_t>(documents.size()), vectors_.d, products_.data());
    for (size_t i = 0; i < visitors.size(); ++i) {
      best[visitors[i]].Offer(std::span(products_).subspan(i * documents.size(), documents.size()),
                              documents.data());
    }
  }

  const DocumentVectors& vectors_;
  const InvertedLists& lists_;
  NeighborQueries queries_{};
  std::vector<uint32_t> visiting_;
  std::vector<float> query_rows_, list_rows_, products_;
};

class ByteScorer final : public ListScorer {
 public:
  ByteScorer(const InvertedLists& lists, const ByteLists& bytes)
      : lists_(lists), bytes_(bytes), products_(kByteQueries * kTilesPerProduct * kTileVectors) {}

  // Several times k, so that the k-th candidate is seldom within the rounding error of the last.
  int64_t Depth(int32_t k) const override { return 4 * (k + 1) + kSpareCandidates; }

  void SetQueries(const NeighborQueries& queries) override {
    const int64_t d = bytes_.padded_dimension();
    query_bytes_.resize(queries.size() * d);
    rounded_.resize(queries.size());
    for (size_t i = 0; i < queries.size(); ++i) {
      rounded_[i] = RoundToBytes(queries.row(i), queries.vectors.d, query_bytes_.data() + i * d);
    }
  }

  float UpperBound(size_t query, float score) const override {
    constexpr float kDeviations = 6;
    const ByteVector& x = rounded_[query];
    // The error of a score has two parts. The errors e of x contribute sum y_i e_i; each e_i is
    // uniform within one step, so the variance is at most step^2 / 12, as |y| = 1. The errors of y
    // contribute sum x_i e_i, whose variance sum x_i^2 e_i^2 is bounded by the fourth powers
    // (Cauchy-Schwarz).
    const float variance =
        x.scale * x.scale / 12 + std::sqrt(x.fourth_powers * bytes_.max_error_fourth_powers());
    return score * x.scale + kDeviations * std::sqrt(variance) + kProductError;
  }

  void ScoreList(int64_t list, std::span<const uint32_t> visitors,
                 std::span<BestScores> best) override {
    const std::span<const uint32_t> documents = lists_.documents(list);
    for (int64_t first = 0; first < bytes_.num_tiles(list); first += kTilesPerProduct) {
      const int64_t begin = first * kTileVectors;
      const auto count =
          std::min<size_t>(kTilesPerProduct * kTileVectors, documents.size() - begin);
      for (size_t at = 0; at < visitors.size(); at += kByteQueries) {
        Score(list, first,
              visitors.subspan(at, std::min<size_t>(kByteQueries, visitors.size() - at)),
              documents.subspan(begin, count), best);
      }
    }
  }

 private:
  // Keeps the products in the first-level cache of a core.
  static constexpr int64_t kTilesPerProduct =
      30;  // a multiple of the three tiles that ByteProduct takes at a time

  void Score(int64_t list, int64_t first_tile, std::span<const uint32_t> visitors,
             std::span<const uint32_t> documents, std::span<BestScores> best) {
    const int64_t d = bytes_.padded_dimension();
    const int8_t* queries[kByteQueries];
    int32_t sums[kByteQueries];
    for (size_t i = 0; i < visitors.size(); ++i) {
      queries[i] = query_bytes_.data() + visitors[i] * d;
      sums[i] = rounded_[visitors[i]].sum;
    }
    const int64_t num_tiles =
        (static_cast<int64_t>(documents.size()) + kTileVectors - 1) / kTileVectors;
    const int64_t stride = num_tiles * kTileVectors;
    ByteProduct(queries, sums, static_cast<int64_t>(visitors.size()),
                bytes_.tiles(list) + first_tile * kTileVectors * d,
                bytes_.scales(list) + first_tile * kTileVectors, num_tiles, d, products_.data(),
                stride);
    for (size_t i = 0; i < visitors.size(); ++i) {
      best[visitors[i]].Offer(std::span(products_).subspan(i * stride, documents.size()),
                              documents.data());
    }
  }

  const InvertedLists& lists_;
  const ByteLists& bytes_;
  std::vector<int8_t> query_bytes_;  // [queries, padded dimension]
  std::vector<ByteVector> rounded_;  // [queries]
  std::vector<float> products_;
};

}  // namespace

std::unique_ptr<ListScorer> MakeFloatScorer(const DocumentVectors& vectors,
                                            const InvertedLists& lists) {
  return std::make_unique<FloatScorer>(vectors, lists);
}

std::unique_ptr<ListScorer> MakeByteScorer(const InvertedLists& lists, const ByteLists& bytes) {
  return std::make_unique<ByteScorer>(lists, bytes);
}

}  // namespace braid
