// The common part of the routed FFN's forward and backward passes: sorted pairs of a group of
// tokens, packed tiles of matrix rows, and the products of a panel with a tile. Private to
// routed_ffn.
#ifndef BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_
#define BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/kernels/expert_slabs.h"
#include "model/kernels/products_by_token.h"
#include "model/kernels/routed_ffn.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {

// Hidden units of an expert that are multiplied together.
inline constexpr int64_t kRoutedTileRows = 64;
static_assert(ProductsByToken::kMaxUnits <= kRoutedTileRows);
// Tiles of an expert that are packed together, where the rows of their three matrices take no more
// than this many floats: half of a second-level cache of 1 MiB at D 512.
inline constexpr int64_t kPackedTiles = 2;
inline constexpr int64_t kPackedFloats = int64_t{192} << 10;
// Padding between rows of D floats. Without it a D that is a power of two would map the same column
// of every row to the same cache sets (see ffn_group_pass.cc).
inline constexpr int64_t kRoutedRowPadding = 16;
// The most pairs of one expert that share packed rows.
inline constexpr int64_t kSlabPairs = 1280;
// The same in backward where the rows of an expert are packed once for all of its slabs: the
// gathered rows of x and dy then stay in the second-level cache.
inline constexpr int64_t kCachedSlabPairs = 64;
// Pairs of a phase: their output rows are written, and then added up by token.
inline constexpr int64_t kPhasePairs = 16384;
// Tokens of a group, or more if they have fewer pairs than a phase: their pairs are sorted
// together, and the rows of an expert are packed once for all of them.
inline constexpr int64_t kGroupTokens = 4096;

// A group of tokens. Pointers refer to the group's first token or pair.
struct TokenGroup {
  RoutedFfnShape shape;
  const float* x;
  ChosenExperts experts;
  float* kept;
  UnitDropout dropout;
};

// Returns whether the experts together are one dense FFN: all of them, added with weights of 1.
// Their matrices [N, F, D] are then those of N * F hidden units.
bool AreDense(const RoutedFfnShape& shape, const ChosenExperts& experts);

// Returns the shape of that FFN.
FfnShape DenseShapeOf(const RoutedFfnShape& shape);

// Splits the tokens into groups and calls `run` with each group and its first token.
template <class Run>
void ForEachTokenGroup(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                       const float* kept, const UnitDropout& dropout, Run run) {
  const int64_t size = std::max(kGroupTokens, kPhasePairs / shape.active);
  int64_t kept_before = 0;
  for (int64_t token = 0; token < shape.num_tokens; token += size) {
    const int64_t pair = token * shape.active;
    RoutedFfnShape part = shape;
    part.num_tokens = std::min(size, shape.num_tokens - token);
    const ChosenExperts own = {experts.chosen + pair,
                               experts.weights == nullptr ? nullptr : experts.weights + pair};
    run(TokenGroup{part, x + token * shape.width, own,
                   kept == nullptr ? nullptr : const_cast<float*>(kept) + kept_before,
                   dropout.From(token)},
        token);
    kept_before += RoutedKeptSize(part, own);
  }
}

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
  // Each pair is multiplied by its one of `weights` [T, k], nullptr for 1, when pairs are added up.
  RoutedPass(const TokenGroup& group, const FfnMatrices& matrices, const float* weights,
             int64_t slab_pairs);

 protected:
  static int64_t PackedRows(const RoutedFfnShape& shape) {
    const bool fits = 3 * kPackedTiles * kRoutedTileRows * shape.width <= kPackedFloats;
    return std::min(shape.hidden, (fits ? kPackedTiles : 1) * kRoutedTileRows);
  }
  int64_t packed_rows() const { return PackedRows(shape_); }
  // The room for packed rows of all three matrices, in either form.
  int64_t packed_size() const { return 3 * packed_rows() * row_stride_; }
  // The room for what ProductsByToken packs.
  int64_t by_token_size(int64_t num_matrices) const {
    if (!by_token_) return 0;
    return ProductsByToken::PackedSize(shape_, std::ssize(sorted_.pairs), num_matrices);
  }
  // The room for what a phase leaves for each pair: a row of D floats, or `depth` values that
  // by_token_ multiplies.
  int64_t pair_rows_size(int64_t depth) const {
    return by_token_ ? std::ssize(sorted_.pairs) * depth : largest_phase_ * row_stride_;
  }
  int64_t blocks_size() const { return largest_slab_ * shape_.width; }

  // Calls body with the tiles [first, first + count) of an expert that are packed together.
  template <class Body>
  void ForEachPackedTile(int64_t expert, Body body) const {
    for (int64_t first = 0; first < shape_.hidden; first += packed_rows()) {
      body(ExpertTile{expert, first, std::min(packed_rows(), shape_.hidden - first)});
    }
  }
  // Calls body with each tile of those, and with where its packed rows begin.
  template <class Body>
  void ForEachTile(const ExpertTile& together, float* packed, Body body) const {
    for (int64_t i = 0; i < together.count; i += kRoutedTileRows) {
      body(ExpertTile{together.expert, together.first + i,
                      std::min(kRoutedTileRows, together.count - i)},
           packed + 3 * i * row_stride_);
    }
  }
  template <class Body>
  static void ForEachPanel(const ExpertSlab& slab, Body body) {
    for (int64_t i = 0; i < slab.count; i += kPanelTokens) {
      body(PairPanel{slab.first + i, std::min(kPanelTokens, slab.count - i)});
    }
  }

  // Copies the rows of a panel's tokens from an array [T, D] into its part of the slab's blocks of
  // 64 features, [slab.count, features] each: the form in which products that sum over features
  // and products that sum over pairs both read memory in order.
  void Gather(const ExpertSlab& slab, const PairPanel& panel, const float* source,
              float* blocks) const {
    for (int64_t i = 0; i < panel.count; ++i) {
      const float* const row = source + TokenOf(panel.first + i) * shape_.width;
      CopyToBlocks(row, slab, panel.first + i - slab.first, blocks);
    }
  }

  // Returns the part of a panel in the block of the features from `block` on.
  const float* Block(const ExpertSlab& slab, const PairPanel& panel, const float* blocks,
                     int64_t block) const {
    return blocks + block * slab.count +
           (panel.first - slab.first) * std::min(kBlockFeatures, shape_.width - block);
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

  // Copies the transpose of the tile's rows of a matrix, [D, stride].
  void PackColumns(const ExpertTile& tile, int64_t matrix, int64_t stride, float* packed) const {
    Vector().transpose(TileOf(tile, matrix), shape_.width, tile.count, shape_.width, packed,
                       stride);
  }

  // Adds sum_j weights[t, j] * (row of pair t, j), over the pairs of the phase, for each token; the
  // first phase overwrites. pair_rows [pairs of the phase, row stride] are sorted. Collective.
  void AddPairs(const ExpertPhase& phase, const float* pair_rows, float* out) const;

  // Returns the saved projections of a panel's tile, [pairs, 2 * rows]: gate and up of each pair.
  float* Kept(const PairPanel& panel, const ExpertTile& tile) const {
    return group_.kept + (panel.first * shape_.hidden + tile.first * panel.count) * 2;
  }

  // Computes out [pairs, columns] = gathered rows [pairs, D] * packed columns [D, columns].
  void Project(const ExpertSlab& slab, const PairPanel& panel, const float* blocks,
               const float* packed, int64_t columns, float* out, int64_t out_stride) const;

  // Computes out [pairs, row stride] (+)= values [pairs, depth] * packed rows [depth, row stride].
  void ProjectBack(const PairPanel& panel, int64_t depth, bool accumulate, const float* values,
                   const float* rows, float* out) const;

  int64_t TokenOf(int64_t slot) const { return sorted_.pairs[slot] / shape_.active; }

  // The hidden units of a tile for one sorted pair, for dropout.
  DropoutTile Dropped(int64_t slot, const ExpertTile& tile) const {
    return {group_.dropout.From(TokenOf(slot)),
            static_cast<size_t>(tile.expert * shape_.hidden + tile.first),
            static_cast<size_t>(tile.count), 1};
  }

  const RoutedFfnShape shape_;
  const TokenGroup group_;
  const float* const matrices_[3];
  const float* const weights_;
  const int64_t slab_pairs_;
  const SortedPairs sorted_;
  std::optional<ProductsByToken> by_token_;  // if it is faster than AddPairs
  std::vector<int64_t> order_;
  const std::vector<ExpertPhase> phases_;
  const int64_t row_stride_;
  const bool drops_;
  std::vector<int32_t> slots_;  // position of each pair among the sorted ones; -1 when absent
  int64_t largest_phase_ = 0, largest_slab_ = 0;

 private:
  void CopyToBlocks(const float* row, const ExpertSlab& slab, int64_t i, float* blocks) const {
    const int64_t whole = shape_.width / kBlockFeatures * kBlockFeatures;
    Vector().copy_blocks(row, whole / kBlockFeatures, kBlockFeatures, slab.count * kBlockFeatures,
                         blocks + i * kBlockFeatures);
    std::copy_n(row + whole, shape_.width - whole,
                blocks + whole * slab.count + i * (shape_.width - whole));
  }
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ROUTED_FFN_PASS_H_
