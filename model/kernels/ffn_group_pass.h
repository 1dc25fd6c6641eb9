// The common part of the fused FFN's forward and backward passes: groups of segments, tiles of
// matrix rows, and merging one tile. Private to fused_ffn.
#ifndef BRAID_MODEL_KERNELS_FFN_GROUP_PASS_H_
#define BRAID_MODEL_KERNELS_FFN_GROUP_PASS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/kernels/fused_ffn.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {

inline constexpr int64_t kMatrices = 3;  // gate, up, down
// Limits of a group and a tile, so that what they use together stays in cache.
inline constexpr int64_t kMaxSegmentsPerGroup = 16;
inline constexpr int64_t kMaxTokensPerGroup = 4096;
inline constexpr int64_t kMaxTileRows = 64;
// Capacity of the merged-row buffer of a group, in floats: 8 MiB, over all segments.
inline constexpr int64_t kMergedBudget = int64_t{2} << 20;

// A group of segments that are processed together. Pointers refer to the group's first token or
// segment.
struct FfnGroup {
  FfnShape shape;
  const float* x;        // [N S, D]
  const float* routing;  // [N, E]; null when dense
  float* kept;           // saved for backward, see Kept(); null without a backward pass
  UnitDropout dropout;
};

// Rows [first, first + count) of each of the three matrices; rows are hidden units.
struct FfnTile {
  int64_t first;
  int64_t count;
};

// One group's pass over the tiles.
//
// The passes run inside an OpenMP parallel region. Functions documented as collective are called by
// every thread of the team and end with a barrier, so the tile they produce is complete when they
// return, and no thread overwrites it before all threads have finished using it.
class FfnGroupPass {
 public:
  FfnGroupPass(const FfnGroup& group, const FfnMatrices& matrices);

  int64_t num_tiles() const { return (shape_.hidden + tile_rows_ - 1) / tile_rows_; }
  FfnTile tile(int64_t index) const {
    const int64_t first = index * tile_rows_;
    return {first, std::min(tile_rows_, shape_.hidden - first)};
  }

 protected:
  int64_t merged_size() const { return shape_.num_segments * kMatrices * tile_rows_ * row_stride_; }
  int64_t tokens_size() const { return shape_.num_tokens() * shape_.width; }

  // Returns the merged rows of one segment's matrix (0 gate, 1 up, 2 down) of the current tile.
  // Gate and up are adjacent.
  const float* Merged(int64_t segment, int64_t matrix) const {
    return merged_ + (segment * kMatrices + matrix) * tile_rows_ * row_stride_;
  }

  // Computes the merged rows of `tile` for all segments of the group. Collective.
  void MergeTile(const FfnTile& tile);

  // Returns the saved projections of a panel: [F, tokens] of gate, then [F, tokens] of up.
  float* Kept(const TokenPanel& panel, int64_t matrix, int64_t row) const {
    return group_.kept + panel.first_token * 2 * shape_.hidden +
           (matrix * shape_.hidden + row) * panel.num_tokens;
  }

  ExpertArray Experts(const float* first) const {
    return {first, static_cast<size_t>(shape_.hidden * shape_.width),
            static_cast<size_t>(shape_.num_experts)};
  }
  SegmentArray Segments(float* first, int64_t stride) const {
    return {first, static_cast<size_t>(stride), static_cast<size_t>(shape_.num_segments)};
  }

  // Computes out [rows, tokens] = merged rows [rows, D] * columns [D, tokens].
  void Project(const float* rows, int64_t count, const TokenPanel& panel, const float* columns,
               float* out) const;

  // Computes columns [D, tokens] += merged rows [rows, D]^T * values [rows, tokens].
  void ProjectBack(const float* rows, int64_t count, const TokenPanel& panel, const float* values,
                   float* columns) const;

  // The hidden units of a tile and tokens of a panel, for dropout.
  DropoutTile Dropped(const TokenPanel& panel, const FfnTile& tile) const {
    return {group_.dropout.From(panel.first_token), static_cast<size_t>(tile.first),
            static_cast<size_t>(tile.count), static_cast<size_t>(panel.num_tokens)};
  }

  const FfnShape shape_;
  const FfnGroup group_;
  const float* const matrices_[kMatrices];
  const std::vector<TokenPanel> panels_;
  const int64_t tile_rows_;
  const int64_t row_stride_;
  float* merged_ = nullptr;  // [N, 3, R, row stride]
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FFN_GROUP_PASS_H_
