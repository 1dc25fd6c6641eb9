#include "retrieval/coarse_centroids.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "retrieval/best_scores.h"
#include "retrieval/block_product.h"

namespace braid {

void NearestCentroids(std::span<const float> centroids, std::span<const float> rows, int32_t d,
                      int64_t count, std::span<uint32_t> nearest) {
  constexpr int64_t kRowsPerProduct = 128;
  const auto num_lists = static_cast<int64_t>(centroids.size()) / d;
  const auto m = static_cast<int64_t>(rows.size()) / d;
  BRAID_CHECK(count >= 1 && count <= num_lists) << count << " of " << num_lists;
  BRAID_CHECK(static_cast<int64_t>(nearest.size()) == m * count) << nearest.size();
  std::vector<uint32_t> ids(static_cast<size_t>(num_lists));
  std::iota(ids.begin(), ids.end(), 0u);
  std::vector<float> products(static_cast<size_t>(std::min(kRowsPerProduct, m) * num_lists));
  std::vector<ScoredId> buffer(static_cast<size_t>(BestScores::Capacity(count)));
  for (int64_t begin = 0; begin < m; begin += kRowsPerProduct) {
    const int64_t block = std::min(kRowsPerProduct, m - begin);
    BlockProduct(rows.data() + begin * d, block, centroids.data(), num_lists, d, products.data());
    for (int64_t i = 0; i < block; ++i) {
      BestScores best(count, buffer.data());
      best.Offer(std::span(products).subspan(i * num_lists, num_lists), ids.data());
      const std::span<const ScoredId> kept = best.Take();
      BRAID_CHECK(static_cast<int64_t>(kept.size()) == count) << "not finite: row " << begin + i;
      std::ranges::transform(kept, nearest.begin() + (begin + i) * count, &ScoredId::id);
    }
  }
}

}  // namespace braid
