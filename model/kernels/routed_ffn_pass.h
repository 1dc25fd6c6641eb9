// The common part of the routed FFN's forward and backward passes: sorted pairs of a group of
// tokens, packed tiles of matrix rows, and the products of a panel with a tile. Private to
// routed_ffn.
#ifndef BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_
#define BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "model/kernels/expert_slabs.h"
#include "model/kernels/routed_ffn.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {

// Hidden units of an expert that are processed together.
inline constexpr int64_t kRoutedTileRows = 64;
// Padding between rows of D floats. Without it a D that is a power of two would map the same column
// of every row to the same cache sets (see ffn_group_pass.cc).
inline constexpr int64_t kRoutedRowPadding = 16;
// Pairs of one expert that share the packed rows of a tile.
inline constexpr int64_t kSlabPairs = 512;
// Pairs of a group of tokens. Their output rows are written and added up while still in cache.
inline constexpr int64_t kGroupPairs = 16384;

// A group of tokens. Pointers refer to the group's first token or pair.
struct TokenGroup {
  RoutedFfnShape shape;
  const float* x;
  ChosenExperts experts;
  float* kept;
  UnitDropout dropout;
};

// Hidden units [first, first + count) of an expert.
struct ExpertTile {
  int64_t expert, first, count;
};

// Sorted pairs [first, first + count) of one expert, at most 64.
struct PairPanel {
  int64_t first, count;
};

// What the forward and backward passes of a group share: its sorted pairs, and how rows of tokens
// and of matrices are brought into place. Activations are rows, [pairs, features]; a product has
// the hidden units or the model width as its inner dimension, never the pairs of a panel, whose
// number varies.
class RoutedPass {
 public:
  RoutedPass(const TokenGroup& group, const FfnMatrices& matrices);

 protected:
  int64_t tile_rows() const { return std::min(kRoutedTileRows, shape_.hidden); }
  // The room for packed rows of all three matrices, in either form.
  int64_t packed_size() const { return 3 * tile_rows() * row_stride_; }
  int64_t slab_rows_size() const { return largest_slab_ * row_stride_; }
  int64_t pair_rows_size() const { return std::ssize(sorted_.pairs) * shape_.width; }

  template <class Body>
  void ForEachTile(int64_t expert, Body body) const {
    for (int64_t first = 0; first < shape_.hidden; first += kRoutedTileRows) {
      body(ExpertTile{expert, first, std::min(kRoutedTileRows, shape_.hidden - first)});
    }
  }
  template <class Body>
  static void ForEachPanel(const ExpertSlab& slab, Body body) {
    for (int64_t i = 0; i < slab.count; i += kPanelTokens) {
      body(PairPanel{slab.first + i, std::min(kPanelTokens, slab.count - i)});
    }
  }

  // Copies the rows of the slab's tokens from an array [T, D] to rows [count, row stride].
  void Gather(const ExpertSlab& slab, const float* source, float* rows) const {
    for (int64_t i = 0; i < slab.count; ++i) {
      const int64_t token = sorted_.pairs[slab.first + i] / shape_.active;
      std::copy_n(source + token * shape_.width, shape_.width, rows + i * row_stride_);
    }
  }

  // Copies the rows of the slab's tokens from an array [T, D] to blocks of 64 features, each
  // [count, features]: the form in which products that sum over pairs read memory in order.
  void GatherBlocks(const ExpertSlab& slab, const float* source, float* blocks) const {
    for (int64_t i = 0; i < slab.count; ++i) {
      const int64_t token = sorted_.pairs[slab.first + i] / shape_.active;
      const float* const row = source + token * shape_.width;
      for (int64_t block = 0; block < shape_.width; block += kBlockFeatures) {
        const int64_t features = std::min(kBlockFeatures, shape_.width - block);
        std::copy_n(row + block, features, blocks + block * slab.count + i * features);
      }
    }
  }

  const float* TileOf(const ExpertTile& tile, int64_t matrix) const {
    return matrices_[matrix] + (tile.expert * shape_.hidden + tile.first) * shape_.width;
  }

  // Copies the tile's rows of a matrix, [rows, row stride]. Returns the end of the copy.
  float* PackRows(const ExpertTile& tile, int64_t matrix, float* packed) const {
    const float* const source = TileOf(tile, matrix);
    for (int64_t row = 0; row < tile.count; ++row, packed += row_stride_) {
      std::copy_n(source + row * shape_.width, shape_.width, packed);
    }
    return packed;
  }

  // Copies the transpose of the tile's rows of a matrix, [D, rows]. Returns the end of the copy.
  float* PackColumns(const ExpertTile& tile, int64_t matrix, float* packed) const {
    Vector().transpose(TileOf(tile, matrix), shape_.width, tile.count, shape_.width, packed,
                       tile.count);
    return packed + shape_.width * tile.count;
  }

  // Computes sum_j weights[t, j] * (row of pair t, j) for each token; pair_rows [pairs, D] are
  // sorted. Absent pairs add nothing. Collective.
  void AddPairs(const float* pair_rows, const float* weights, float* out) const;

  // Returns the saved projections [pairs, rows] of a panel's tile: matrix 0 gate, 1 up.
  float* Kept(const PairPanel& panel, const ExpertTile& tile, int64_t matrix) const {
    return group_.kept + (panel.first * shape_.hidden + tile.first * panel.count) * 2 +
           matrix * tile.count * panel.count;
  }

  // Computes out [pairs, rows] = rows of tokens [pairs, row stride] * packed columns [D, rows].
  void Project(const PairPanel& panel, const ExpertTile& tile, const float* rows,
               const float* columns, float* out) const {
    const SmallGemm product({.rows = panel.count,
                             .columns = tile.count,
                             .depth = shape_.width,
                             .left_stride = row_stride_,
                             .right_stride = tile.count,
                             .out_stride = tile.count});
    product(rows, columns, out);
  }

  // Computes out [pairs, D] (+)= values [pairs, depth] * packed rows [depth, row stride].
  void ProjectBack(const PairPanel& panel, int64_t depth, bool accumulate, const float* values,
                   const float* rows, float* out) const {
    for (int64_t block = 0; block < shape_.width; block += kBlockFeatures) {
      const SmallGemm product({.rows = panel.count,
                               .columns = std::min(kBlockFeatures, shape_.width - block),
                               .depth = depth,
                               .left_stride = depth,
                               .right_stride = row_stride_,
                               .out_stride = shape_.width,
                               .accumulate = accumulate});
      product(values, rows + block, out + block);
    }
  }

  // The hidden units of a tile for one sorted pair, for dropout.
  DropoutTile Dropped(int64_t slot, const ExpertTile& tile) const {
    return {group_.dropout.From(sorted_.pairs[slot] / shape_.active),
            static_cast<size_t>(tile.expert * shape_.hidden + tile.first),
            static_cast<size_t>(tile.count), 1};
  }

  const RoutedFfnShape shape_;
  const TokenGroup group_;
  const float* const matrices_[3];
  const SortedPairs sorted_;
  const std::vector<ExpertSlab> slabs_;
  const int64_t row_stride_;
  const bool drops_;
  std::vector<int32_t> slots_;  // position of each pair among the sorted ones; -1 when absent
  int64_t largest_slab_ = 0;
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_
