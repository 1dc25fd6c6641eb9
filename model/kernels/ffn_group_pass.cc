#include "model/kernels/ffn_group_pass.h"

#include "model/kernels/small_gemm.h"

namespace braid {
namespace {

constexpr int64_t kMinTileRows = 16;
// Padding between merged rows. Without it a D that is a power of two would map the same column of
// every row to the same cache sets, and the products would evict their own operands.
constexpr int64_t kRowPadding = 16;

// The most rows, in multiples of 16, whose merged copies of all segments fit into kMergedBudget.
// Small tiles keep the merged rows in cache between merging and the products; large tiles make the
// products more efficient. The count depends on the shape only, never on the number of threads,
// because it determines the order of the sums.
int64_t TileRows(const FfnShape& shape) {
  const int64_t segments = std::min(shape.num_segments, kMaxSegmentsPerGroup);
  const int64_t fitting = kMergedBudget / (segments * kMatrices * shape.width);
  return std::min(shape.hidden, std::clamp(fitting / 16 * 16, kMinTileRows, kMaxTileRows));
}

}  // namespace

FfnGroupPass::FfnGroupPass(const FfnGroup& group, const FfnMatrices& matrices)
    : shape_(group.shape),
      group_(group),
      matrices_{matrices.gate, matrices.up, matrices.down},
      panels_(CutIntoPanels(shape_.num_segments, shape_.segment_tokens)),
      tile_rows_(TileRows(shape_)),
      row_stride_(shape_.width + kRowPadding) {}

void FfnGroupPass::MergeTile(const FfnTile& tile) {
  const int64_t d = shape_.width;
// One work item is one row of one matrix for all segments: merge() loads every expert's row once
// and keeps one accumulator per segment, so the traffic does not grow with the number of segments.
#pragma omp for schedule(static)
  for (int64_t item = 0; item < kMatrices * tile.count; ++item) {
    const int64_t matrix = item / tile.count, row = item % tile.count;
    const float* source = matrices_[matrix] + (tile.first + row) * d;
    float* place = merged_ + (matrix * tile_rows_ + row) * row_stride_;
    if (group_.routing == nullptr) {
      std::copy_n(source, d, place);
    } else {
      Vector().merge(Experts(source), group_.routing,
                     Segments(place, kMatrices * tile_rows_ * row_stride_), d);
    }
  }
}

void FfnGroupPass::Project(const float* rows, int64_t count, const TokenPanel& panel,
                           const float* columns, float* out) const {
  const SmallGemm product({.rows = count,
                           .columns = panel.num_tokens,
                           .depth = shape_.width,
                           .left_stride = row_stride_,
                           .right_stride = panel.num_tokens,
                           .out_stride = panel.num_tokens});
  product(rows, columns, out);
}

void FfnGroupPass::ProjectBack(const float* rows, int64_t count, const TokenPanel& panel,
                               const float* values, float* columns) const {
  const SmallGemm product({.rows = shape_.width,
                           .columns = panel.num_tokens,
                           .depth = count,
                           .left_stride = row_stride_,
                           .right_stride = panel.num_tokens,
                           .out_stride = panel.num_tokens,
                           .left_transposed = true,
                           .accumulate = true});
  product(rows, values, columns);
}

}  // namespace braid
