#include "model/kernels/routed_ffn_pass.h"

namespace braid {
namespace {

// Rows of a token that are added at a time; bounded, so that their addresses fit on the stack
// whatever k is.
constexpr int64_t kRowsInTurn = 16;

int64_t CountPairs(const RoutedFfnShape& shape, const int32_t* chosen) {
  return shape.num_pairs() - std::count(chosen, chosen + shape.num_pairs(), -1);
}

}  // namespace

int64_t RoutedKeptSize(const RoutedFfnShape& shape, const ChosenExperts& experts) {
  return CountPairs(shape, experts.chosen) * 2 * shape.hidden;
}

bool AreDense(const RoutedFfnShape& shape, const ChosenExperts& experts) {
  return shape.active == shape.num_experts && experts.weights == nullptr &&
         CountPairs(shape, experts.chosen) == shape.num_pairs();
}

FfnShape DenseShapeOf(const RoutedFfnShape& shape) {
  return {.num_segments = 1,
          .segment_tokens = shape.num_tokens,
          .width = shape.width,
          .hidden = shape.num_experts * shape.hidden,
          .num_experts = 1};
}

RoutedPass::RoutedPass(const TokenGroup& group, const FfnMatrices& matrices, const float* weights,
                       int64_t slab_pairs)
    : shape_(group.shape),
      group_(group),
      matrices_{matrices.gate, matrices.up, matrices.down},
      weights_(weights),
      slab_pairs_(slab_pairs),
      sorted_(SortByExpert({group.experts.chosen, static_cast<size_t>(shape_.num_pairs())},
                           shape_.num_experts)),
      by_token_(ProductsByToken::Suits(shape_, std::ssize(sorted_.pairs))
                    ? std::make_optional<ProductsByToken>(shape_, sorted_, weights)
                    : std::nullopt),
      phases_(CutIntoPhases(sorted_, by_token_ ? shape_.num_pairs() : kPhasePairs, &order_)),
      row_stride_(shape_.width + kRoutedRowPadding),
      drops_(group.dropout.kind != UnitDropout::kNone),
      slots_(by_token_ ? 0 : shape_.num_pairs(), -1) {
  for (size_t i = 0; !by_token_ && i < sorted_.pairs.size(); ++i) {
    slots_[sorted_.pairs[i]] = static_cast<int32_t>(i);
  }
  for (const ExpertPhase& phase : phases_) {
    largest_phase_ = std::max(largest_phase_, phase.num_pairs());
  }
  for (int64_t e = 0; e < shape_.num_experts; ++e) {
    largest_slab_ =
        std::max(largest_slab_, std::min(slab_pairs_, sorted_.begin[e + 1] - sorted_.begin[e]));
  }
}

void RoutedPass::AddPairs(const ExpertPhase& phase, const float* pair_rows, float* out) const {
  const int64_t d = shape_.width, k = shape_.active;
#pragma omp for schedule(static)
  for (int64_t t = 0; t < shape_.num_tokens; ++t) {
    const float* rows[kRowsInTurn];
    float factors[kRowsInTurn];
    int64_t count = 0;
    bool accumulate = phase.first_pair > 0;
    for (int64_t pair = t * k; pair < (t + 1) * k; ++pair) {
      const int64_t slot = slots_[pair];
      if (slot < phase.first_pair || slot >= phase.end_pair) continue;
      if (count == kRowsInTurn) {
        Vector().add_rows(rows, factors, count, accumulate, d, out + t * d);
        accumulate = true;
        count = 0;
      }
      rows[count] = pair_rows + (slot - phase.first_pair) * row_stride_;
      factors[count++] = weights_ == nullptr ? 1 : weights_[pair];
    }
    // In the first phase a token without pairs is written as well, since `out` is not initialized.
    if (count > 0 || !accumulate) {
      Vector().add_rows(rows, factors, count, accumulate, d, out + t * d);
    }
  }
}

void RoutedPass::Project(const ExpertSlab& slab, const PairPanel& panel, const float* blocks,
                         const float* packed, int64_t columns, float* out,
                         int64_t out_stride) const {
  // The gathered rows lie in blocks of 64 features, so the product is a sum over the blocks.
  SmallGemmShape product = {.rows = panel.count,
                            .columns = columns,
                            .depth = std::min(kBlockFeatures, shape_.width),
                            .left_stride = std::min(kBlockFeatures, shape_.width),
                            .right_stride = columns,
                            .out_stride = out_stride};
  const auto run = [&](const SmallGemm& gemm, int64_t block) {
    gemm(Block(slab, panel, blocks, block), packed + block * columns, out);
  };
  run(SmallGemm(product), 0);
  product.accumulate = true;
  const int64_t whole = shape_.width / kBlockFeatures * kBlockFeatures;
  if (whole > kBlockFeatures) {
    const SmallGemm add(product);
    for (int64_t block = kBlockFeatures; block < whole; block += kBlockFeatures) run(add, block);
  }
  if (whole == 0 || whole == shape_.width) return;
  product.depth = product.left_stride = shape_.width - whole;
  run(SmallGemm(product), whole);
}

void RoutedPass::ProjectBack(const PairPanel& panel, int64_t depth, bool accumulate,
                             const float* values, const float* rows, float* out) const {
  SmallGemmShape product = {.rows = panel.count,
                            .columns = kBlockFeatures,
                            .depth = depth,
                            .left_stride = depth,
                            .right_stride = row_stride_,
                            .out_stride = row_stride_,
                            .accumulate = accumulate};
  const int64_t whole = shape_.width / kBlockFeatures * kBlockFeatures;
  if (whole > 0) {
    const SmallGemm gemm(product);
    for (int64_t block = 0; block < whole; block += kBlockFeatures) {
      gemm(values, rows + block, out + block);
    }
  }
  if (whole == shape_.width) return;
  product.columns = shape_.width - whole;
  const SmallGemm rest(product);
  rest(values, rows + whole, out + whole);
}

}  // namespace braid
