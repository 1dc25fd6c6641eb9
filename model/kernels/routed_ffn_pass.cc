#include "model/kernels/routed_ffn_pass.h"

#include <utility>

namespace braid {

RoutedPass::RoutedPass(const TokenGroup& group, const FfnMatrices& matrices)
    : shape_(group.shape),
      group_(group),
      matrices_{matrices.gate, matrices.up, matrices.down},
      sorted_(SortByExpert({group.experts.chosen, static_cast<size_t>(shape_.num_pairs())},
                           shape_.num_experts)),
      slabs_(CutIntoSlabs(sorted_, kSlabPairs)),
      row_stride_(shape_.width + kRoutedRowPadding),
      drops_(group.dropout.kind != UnitDropout::kNone),
      slots_(shape_.num_pairs(), -1) {
  for (size_t i = 0; i < sorted_.pairs.size(); ++i) {
    slots_[sorted_.pairs[i]] = static_cast<int32_t>(i);
  }
  for (const ExpertSlab& slab : slabs_) largest_slab_ = std::max(largest_slab_, slab.count);
}

void RoutedPass::AddPairs(const float* pair_rows, const float* weights, float* out) const {
  const int64_t d = shape_.width, k = shape_.active;
#pragma omp for schedule(static)
  for (int64_t t = 0; t < shape_.num_tokens; ++t) {
    float* const sum = out + t * d;
    bool first = true;
    for (int64_t j = 0; j < k; ++j) {
      if (slots_[t * k + j] < 0) continue;
      const float* const row = pair_rows + slots_[t * k + j] * d;
      const float weight = weights == nullptr ? 1 : weights[t * k + j];
      if (std::exchange(first, false)) {
        for (int64_t i = 0; i < d; ++i) sum[i] = weight * row[i];
      } else {
        for (int64_t i = 0; i < d; ++i) sum[i] += weight * row[i];
      }
    }
    if (first) std::fill_n(sum, d, 0.0f);
  }
}

}  // namespace braid
