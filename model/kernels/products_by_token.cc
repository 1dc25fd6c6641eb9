#include "model/kernels/products_by_token.h"

#include <algorithm>
#include <array>
#include <optional>

#include "model/kernels/small_gemm.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// Pairs of an expert in a block of tokens, on average: most have fewer than a panel.
constexpr int64_t kBlockPairs = 56;
constexpr int64_t kMaxBlockTokens = 512;

}  // namespace

// The products of a thread by number of pairs: looking them up each time takes 3 % of a pass.
class ProductsByToken::Kernels {
 public:
  explicit Kernels(int64_t depth) : depth_(depth) {}

  const SmallGemm& For(int64_t pairs, int64_t features) {
    if (features != features_) by_pairs_ = {};
    features_ = features;
    std::optional<SmallGemm>& kernel = by_pairs_[pairs];
    if (!kernel) {
      kernel.emplace(SmallGemmShape{.rows = pairs,
                                    .columns = features,
                                    .depth = depth_,
                                    .left_stride = depth_,
                                    .right_stride = features,
                                    .out_stride = features});
    }
    return *kernel;
  }

 private:
  const int64_t depth_;
  int64_t features_ = 0;
  std::array<std::optional<SmallGemm>, kPanelTokens + 1> by_pairs_;
};

ProductsByToken::ProductsByToken(const RoutedFfnShape& shape, const SortedPairs& sorted,
                                 const float* weights)
    : shape_(shape),
      block_tokens_(std::min(kMaxBlockTokens, kBlockPairs * shape.num_experts / shape.active)),
      num_blocks_((shape.num_tokens + block_tokens_ - 1) / block_tokens_),
      tokens_(sorted.pairs.size()),
      factors_(sorted.pairs.size(), 1),
      begin_((num_blocks_ + 1) * shape.num_experts) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    tokens_[i] = sorted.pairs[i] / static_cast<int32_t>(shape.active);
    if (weights != nullptr) factors_[i] = weights[sorted.pairs[i]];
  }
  for (int64_t e = 0; e < shape.num_experts; ++e) {
    int64_t pair = sorted.begin[e];
    for (int64_t block = 0; block <= num_blocks_; ++block) {
      while (pair < sorted.begin[e + 1] && tokens_[pair] < block * block_tokens_) ++pair;
      begin_[block * shape.num_experts + e] = pair;
    }
  }
  for (int32_t& token : tokens_) token %= static_cast<int32_t>(block_tokens_);
}

ProductsByToken::Features ProductsByToken::BlockOf(int64_t i) const {
  const int64_t first = i * kBlockFeatures;
  return {first, std::min(kBlockFeatures, shape_.width - first)};
}

void ProductsByToken::Run(const float* values, std::span<const float* const> matrices,
                          float* packed, float* out) const {
  const int64_t depth = std::ssize(matrices) * shape_.hidden;
  // The packed rows of a block of features are adjacent, expert by expert: they are read in order.
  const int64_t expert_size = depth * kBlockFeatures, size = shape_.num_experts * expert_size;
  Kernels kernels(depth);
  const int64_t num_blocks = NumBlocks(shape_), most = PackedBlocks(shape_, std::ssize(tokens_));
  for (int64_t first = 0; first < num_blocks; first += most) {
    const int64_t count = std::min(most, num_blocks - first);
#pragma omp for schedule(static)
    for (int64_t e = 0; e < shape_.num_experts; ++e) {
      Pack(e, matrices, first, count, packed + e * expert_size, size);
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < num_blocks_ * count; ++i) {
      RunBlock(i / count, BlockOf(first + i % count), values, depth, packed + i % count * size,
               &kernels, out);
    }
  }
}

void ProductsByToken::Pack(int64_t expert, std::span<const float* const> matrices, int64_t first,
                           int64_t count, float* packed, int64_t stride) const {
  const Features last = BlockOf(first + count - 1);
  const int64_t whole = last.count == kBlockFeatures ? count : count - 1;
  float* rest = packed + whole * stride;
  for (const float* const matrix : matrices) {
    const float* row = matrix + expert * shape_.hidden * shape_.width + first * kBlockFeatures;
    for (int64_t u = 0; u < shape_.hidden; ++u, row += shape_.width, packed += kBlockFeatures) {
      Vector().copy_blocks(row, whole, kBlockFeatures, stride, packed);
      if (whole == count) continue;
      rest = std::copy_n(row + whole * kBlockFeatures, last.count, rest);
    }
  }
}

void ProductsByToken::RunBlock(int64_t block, const Features& features, const float* values,
                               int64_t depth, const float* packed, Kernels* kernels,
                               float* out) const {
  const int64_t experts = shape_.num_experts, width = features.count;
  const int64_t end_token = std::min((block + 1) * block_tokens_, shape_.num_tokens);
  const int64_t first_token = block * block_tokens_;
  // Not in `out`, whose rows of D floats would map to few sets of the cache.
  alignas(64) float sums[kMaxBlockTokens * kBlockFeatures];
  std::fill_n(sums, (end_token - first_token) * width, 0.0f);
  alignas(64) float products[kPanelTokens * kBlockFeatures];
  const int64_t* const begin = begin_.data() + block * experts;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t pair = begin[e]; pair < begin[experts + e]; pair += kPanelTokens) {
      const int64_t count = std::min(kPanelTokens, begin[experts + e] - pair);
      kernels->For(count, width)(values + pair * depth, packed + e * depth * kBlockFeatures,
                                 products);
      Vector().add_to_rows(products, tokens_.data() + pair, factors_.data() + pair, count, width,
                           sums, width);
    }
  }
  for (int64_t t = first_token; t < end_token; ++t) {
    std::copy_n(sums + (t - first_token) * width, width, out + t * shape_.width + features.first);
  }
}

}  // namespace braid
