// Sums of the routed FFN by token, for experts of few hidden units. Private to routed_ffn.
#ifndef BRAID_MODEL_KERNELS_PRODUCTS_BY_TOKEN_H_
#define BRAID_MODEL_KERNELS_PRODUCTS_BY_TOKEN_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/kernels/expert_slabs.h"
#include "model/kernels/routed_ffn.h"
#include "model/kernels/token_panels.h"

namespace braid {

// Multiplies the values of each pair with matrix rows of its expert, and adds the products up by
// token. Products of all pairs, rows of D floats, would not stay in cache, and for few units
// writing and reading them takes as long as computing them. So blocks of tokens and of 64 features
// are completed one after the other, while products stay in the first-level cache.
//
// A token adds its pairs in ascending order of experts. Results do not depend on the number of
// threads.
class ProductsByToken {
 public:
  // The most hidden units of an expert: one tile of a panel.
  static constexpr int64_t kMaxUnits = 64;

  // Returns whether this is faster than products in rows of D floats for `pairs` pairs that are not
  // absent: an expert has few units, and 64 pairs or more on average.
  static bool Suits(const RoutedFfnShape& shape, int64_t pairs) {
    return shape.hidden <= kMaxUnits && pairs >= kMinPairs * shape.num_experts;
  }

  // Returns the floats that Run() needs for packed rows of `num_matrices` matrices, at most as many
  // as the values have. Requires Suits().
  static int64_t PackedSize(const RoutedFfnShape& shape, int64_t pairs, int64_t num_matrices) {
    return PackedBlocks(shape, pairs) * kBlockFeatures * num_matrices * shape.hidden *
           shape.num_experts;
  }

  // `weights` [T, k] are factors of the pairs, nullptr for 1. Requires Suits().
  ProductsByToken(const RoutedFfnShape& shape, const SortedPairs& sorted, const float* weights);

  // Computes out [T, D] from values [pairs, depth], in sorted order, where depth is F times the
  // number of matrices [N, F, D], at most 2. To be called by all threads of a parallel region with
  // the same `packed` [PackedSize()].
  void Run(const float* values, std::span<const float* const> matrices, float* packed,
           float* out) const;

 private:
  class Kernels;
  // Features that are multiplied together.
  struct Features {
    int64_t first, count;
  };

  static constexpr int64_t kMinPairs = 64;
  // The most blocks of features whose matrix rows are packed together.
  static constexpr int64_t kMaxPackedBlocks = 8;

  static int64_t NumBlocks(const RoutedFfnShape& shape) {
    return (shape.width + kBlockFeatures - 1) / kBlockFeatures;
  }
  static int64_t PackedBlocks(const RoutedFfnShape& shape, int64_t pairs) {
    return std::min(
        {NumBlocks(shape), pairs / shape.num_experts / kBlockFeatures, kMaxPackedBlocks});
  }
  Features BlockOf(int64_t i) const;
  // Copies the expert's rows, `count` blocks of features from block `first` on: block i to packed +
  // i * stride, [depth, features].
  void Pack(int64_t expert, std::span<const float* const> matrices, int64_t first, int64_t count,
            float* packed, int64_t stride) const;
  void RunBlock(int64_t block, const Features& features, const float* values, int64_t depth,
                const float* packed, Kernels* kernels, float* out) const;

  const RoutedFfnShape shape_;
  int64_t block_tokens_, num_blocks_;
  std::vector<int32_t> tokens_;  // the token of each sorted pair, within its block
  std::vector<float> factors_;   // the weight of each sorted pair
  std::vector<int64_t> begin_;   // [blocks + 1, N]: the first pair of each expert from the block on
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_PRODUCTS_BY_TOKEN_H_
