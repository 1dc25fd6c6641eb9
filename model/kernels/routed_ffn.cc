#include "model/kernels/routed_ffn.h"

#include <omp.h>

#include <algorithm>

#include "model/kernels/phase_times.h"
#include "model/kernels/routed_ffn_pass.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// The forward pass of a group:
//   for each slab of an expert:                                      (parallel)
//     gather the rows of its tokens
//     for each tile of its hidden units, packed; for each panel:
//       g, u = x W_gate^T, x W_up^T      saved for backward if requested
//       y += (silu(g) * u) W_down
//   for each token: add its pairs                                    (parallel)
class RoutedForward : public RoutedPass {
 public:
  using RoutedPass::RoutedPass;

  void Run(float* y, int num_threads) {
    const int64_t values_size = 3 * tile_rows() * kPanelTokens;
    const int64_t own_size = slab_rows_size() + packed_size() + values_size;
    Scratch scratch(pair_rows_size() + num_threads * own_size + 2 * Scratch::kPadding);
    pair_rows_ = scratch.Take(pair_rows_size());
    float* const own = scratch.Take(num_threads * own_size);
#pragma omp parallel num_threads(num_threads)
    {
      Buffers buffers;
      buffers.x = own + omp_get_thread_num() * own_size;
      buffers.packed = buffers.x + slab_rows_size();
      buffers.values = buffers.packed + packed_size();
#pragma omp for schedule(dynamic)
      for (size_t i = 0; i < slabs_.size(); ++i) ForwardSlab(slabs_[i], buffers);
      AddPairs(pair_rows_, group_.experts.weights, y);
    }
  }

 private:
  struct Buffers {
    float *x, *packed, *values;
  };

  void ForwardSlab(const ExpertSlab& slab, const Buffers& buffers) const {
    Gather(slab, group_.x, buffers.x);
    ForEachTile(slab.expert, [&](const ExpertTile& tile) {
      float* const up = PackColumns(tile, 0, buffers.packed);
      float* const down = PackColumns(tile, 1, up);
      PackRows(tile, 2, down);
      ForEachPanel(slab, [&](const PairPanel& panel) {
        ForwardPanel(panel, tile, buffers.x + (panel.first - slab.first) * row_stride_, up, down,
                     buffers);
      });
    });
  }

  void ForwardPanel(const PairPanel& panel, const ExpertTile& tile, const float* x,
                    const float* up_columns, const float* down_rows, const Buffers& buffers) const {
    const int64_t size = tile.count * panel.count;
    const bool keep = group_.kept != nullptr;
    float* const gate = keep ? Kept(panel, tile, 0) : buffers.values + size;
    float* const up = keep ? Kept(panel, tile, 1) : buffers.values + 2 * size;
    Project(panel, tile, x, buffers.packed, gate);
    Project(panel, tile, x, up_columns, up);
    Vector().swiglu(gate, up, buffers.values, size);
    for (int64_t i = 0; drops_ && i < panel.count; ++i) {
      Vector().drop_units(Dropped(panel.first + i, tile), buffers.values + i * tile.count);
    }
    ProjectBack(panel, tile.count, /*accumulate=*/tile.first > 0, buffers.values, down_rows,
                pair_rows_ + panel.first * shape_.width);
  }

  float* pair_rows_ = nullptr;
};

// The backward pass of a group:
//   for each expert, slab by slab:                                   (parallel over experts)
//     gather the rows of x and dy of its tokens, for the outer products in blocks of features
//     for each tile of its hidden units, packed:
//       for each panel:
//         da = dy W_down^T,  (dg, du, a) = backward of SwiGLU
//         dx += dg W_gate + du W_up
//       G_gate += dg^T x,  G_up += du^T x,  G_down += a^T dy
//   for each token: add its pairs                                    (parallel)
// With weights w, da and a carry the factor w of their token, and dw = <a, dy W_down^T> before it.
// With dropout, dy W_down^T and a are multiplied by their factors first.
class RoutedBackward : public RoutedPass {
 public:
  RoutedBackward(const TokenGroup& group, const FfnMatrices& matrices,
                 const FfnMatrixGradients& gradients)
      : RoutedPass(group, matrices),
        trained_(gradients.gate != nullptr),
        gradients_{gradients.gate, gradients.up, gradients.down},
        logit_shares_(shape_.num_experts) {}

  void Run(const float* dy, float* dx, float* weight_gradients, double* logit_gradient,
           int num_threads) {
    dy_ = dy;
    weight_gradients_ = group_.experts.weights == nullptr ? nullptr : weight_gradients;
    const int64_t values_size = 3 * largest_slab_ * tile_rows();
    const int64_t blocks_size = trained_ ? largest_slab_ * shape_.width : 0;
    const int64_t own_size = slab_rows_size() + 2 * blocks_size + packed_size() + values_size;
    Scratch scratch(pair_rows_size() + num_threads * own_size + 2 * Scratch::kPadding);
    pair_rows_ = scratch.Take(pair_rows_size());
    float* const own = scratch.Take(num_threads * own_size);
#pragma omp parallel num_threads(num_threads)
    {
      Buffers buffers;
      buffers.dy = own + omp_get_thread_num() * own_size;
      buffers.dy_blocks = buffers.dy + slab_rows_size();
      buffers.x_blocks = buffers.dy_blocks + blocks_size;
      buffers.packed = buffers.x_blocks + blocks_size;
      buffers.projections = buffers.packed + packed_size();
      buffers.activation = buffers.projections + 2 * largest_slab_ * tile_rows();
#pragma omp for schedule(dynamic)
      for (int64_t e = 0; e < shape_.num_experts; ++e) BackwardExpert(e, buffers);
      AddPairs(pair_rows_, nullptr, dx);
    }
    if (logit_gradient == nullptr) return;
    for (const double share : logit_shares_) *logit_gradient += share;
  }

 private:
  struct Buffers {
    float *dy, *dy_blocks, *x_blocks, *packed;
    float* projections;  // [slab, 2 * rows]: d(gate), d(up)
    float* activation;   // [slab, rows]: d(activation), then the activation
  };

  void BackwardExpert(int64_t expert, const Buffers& buffers) {
    for (int64_t first = sorted_.begin[expert]; first < sorted_.begin[expert + 1];
         first += kSlabPairs) {
      BackwardSlab({expert, first, std::min(kSlabPairs, sorted_.begin[expert + 1] - first)},
                   buffers);
    }
  }

  void BackwardSlab(const ExpertSlab& slab, const Buffers& buffers) {
    Gather(slab, dy_, buffers.dy);
    if (trained_) {
      GatherBlocks(slab, dy_, buffers.dy_blocks);
      GatherBlocks(slab, group_.x, buffers.x_blocks);
    }
    ForEachTile(slab.expert, [&](const ExpertTile& tile) {
      float* const gate_up = PackColumns(tile, 2, buffers.packed);
      PackRows(tile, 1, PackRows(tile, 0, gate_up));
      ForEachPanel(slab, [&](const PairPanel& panel) {
        BackwardPanel(slab, panel, tile, gate_up, buffers);
      });
      if (trained_) AddMatrixGradients(slab, tile, buffers);
    });
  }

  void BackwardPanel(const ExpertSlab& slab, const PairPanel& panel, const ExpertTile& tile,
                     const float* gate_up_rows, const Buffers& buffers) {
    const int64_t offset = panel.first - slab.first, rows = tile.count;
    float* const activation = buffers.activation + offset * rows;
    float* const projections = buffers.projections + offset * 2 * rows;
    const float* const gate = Kept(panel, tile, 0);
    const float* const up = Kept(panel, tile, 1);
    Project(panel, tile, buffers.dy + offset * row_stride_, buffers.packed, activation);
    for (int64_t i = 0; i < panel.count; ++i) {
      BackwardRow(panel.first + i, tile, gate + i * rows, up + i * rows, activation + i * rows,
                  projections + i * 2 * rows);
    }
    // Gate and up are adjacent in both operands: one product with twice the depth.
    ProjectBack(panel, 2 * rows, /*accumulate=*/tile.first > 0, projections, gate_up_rows,
                pair_rows_ + panel.first * shape_.width);
  }

  // Computes d(gate), d(up) and the activation of one pair. On entry `activation` holds dy
  // W_down^T.
  void BackwardRow(int64_t slot, const ExpertTile& tile, const float* gate, const float* up,
                   float* activation, float* projections) {
    const int64_t rows = tile.count, pair = sorted_.pairs[slot];
    if (drops_) Vector().drop_units(Dropped(slot, tile), activation);
    if (group_.experts.weights == nullptr) {
      Vector().swiglu_backward(gate, up, activation, projections, projections + rows, rows);
      if (drops_) DropAgain(slot, tile, up, activation, projections + rows);
      return;
    }
    const float weight = group_.experts.weights[pair];
    float unscaled[kRoutedTileRows];
    std::copy_n(activation, rows, unscaled);
    for (int64_t i = 0; i < rows; ++i) activation[i] *= weight;
    Vector().swiglu_backward(gate, up, activation, projections, projections + rows, rows);
    if (weight_gradients_ != nullptr) {
      const float share = Vector().dot(activation, unscaled, rows);
      weight_gradients_[pair] = tile.first == 0 ? share : weight_gradients_[pair] + share;
    }
    if (drops_) DropAgain(slot, tile, up, activation, projections + rows);
    for (int64_t i = 0; i < rows; ++i) activation[i] *= weight;
  }

  // Drops the recomputed activation of a pair as in the forward pass, and adds to the gradient of
  // the logit. An expert belongs to one thread.
  void DropAgain(int64_t slot, const ExpertTile& tile, const float* up, float* activation,
                 const float* dup) {
    const DropoutTile dropped = Dropped(slot, tile);
    Vector().drop_units(dropped, activation);
    if (group_.dropout.kind != UnitDropout::kConcrete) return;
    logit_shares_[tile.expert] += Vector().concrete_gradient(dropped, dup, up);
  }

  // Adds the outer products of the slab to the gradients of the tile's rows: full panels in one
  // product, then the last one, so that few different kernels are generated.
  void AddMatrixGradients(const ExpertSlab& slab, const ExpertTile& tile,
                          const Buffers& buffers) const {
    const int64_t full = slab.count / kPanelTokens * kPanelTokens, rows = tile.count;
    for (int64_t matrix = 0; matrix < 3; ++matrix) {
      float* const out =
          gradients_[matrix] + (tile.expert * shape_.hidden + tile.first) * shape_.width;
      const bool down = matrix == 2;
      const float* const values = down ? buffers.activation : buffers.projections + matrix * rows;
      const int64_t stride = down ? rows : 2 * rows;
      const float* const blocks = down ? buffers.dy_blocks : buffers.x_blocks;
      for (int64_t block = 0; block < shape_.width; block += kBlockFeatures) {
        const int64_t features = std::min(kBlockFeatures, shape_.width - block);
        for (const auto [first, count] : {PairPanel{0, full}, PairPanel{full, slab.count - full}}) {
          if (count == 0) continue;
          AddOuterProduct(count, tile, features, values + first * stride, stride,
                          blocks + block * slab.count + first * features, out + block);
        }
      }
    }
  }

  // Computes out [rows, features] += values [pairs, rows]^T * block [pairs, features].
  void AddOuterProduct(int64_t pairs, const ExpertTile& tile, int64_t features, const float* values,
                       int64_t stride, const float* block, float* out) const {
    const SmallGemm product({.rows = tile.count,
                             .columns = features,
                             .depth = pairs,
                             .left_stride = stride,
                             .right_stride = features,
                             .out_stride = shape_.width,
                             .left_transposed = true,
                             .accumulate = true});
    product(values, block, out);
  }

  const bool trained_;
  float* const gradients_[3];
  std::vector<double> logit_shares_;  // one per expert
  const float* dy_ = nullptr;
  float* weight_gradients_ = nullptr;
  float* pair_rows_ = nullptr;
};

int64_t CountPairs(const RoutedFfnShape& shape, const int32_t* chosen) {
  return shape.num_pairs() - std::count(chosen, chosen + shape.num_pairs(), -1);
}

// Returns whether the experts together are one dense FFN: all of them, added with weights of 1.
// Their matrices [N, F, D] are then those of N * F hidden units.
bool IsDense(const RoutedFfnShape& shape, const ChosenExperts& experts) {
  return shape.active == shape.num_experts && experts.weights == nullptr &&
         CountPairs(shape, experts.chosen) == shape.num_pairs();
}

FfnShape DenseShape(const RoutedFfnShape& shape) {
  return {.num_segments = 1,
          .segment_tokens = shape.num_tokens,
          .width = shape.width,
          .hidden = shape.num_experts * shape.hidden,
          .num_experts = 1};
}

// Splits the tokens into groups and calls `run` with each group and its first token.
template <class Run>
void ForEachTokenGroup(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                       const float* kept, const UnitDropout& dropout, Run run) {
  const int64_t size = std::max(kPanelTokens, kGroupPairs / shape.active);
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

}  // namespace

int64_t RoutedKeptSize(const RoutedFfnShape& shape, const ChosenExperts& experts) {
  return CountPairs(shape, experts.chosen) * 2 * shape.hidden;
}

void RoutedFfnForward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                      const FfnMatrices& matrices, float* kept, float* y, int num_threads,
                      const UnitDropout& dropout) {
  if (IsDense(shape, experts)) {
    FusedFfnForward(DenseShape(shape), x, nullptr, matrices, kept, y, num_threads, dropout);
    return;
  }
  const ScopedPhase phase(Phase::kFfn);
  ForEachTokenGroup(shape, x, experts, kept, dropout, [&](const TokenGroup& group, int64_t token) {
    RoutedForward(group, matrices).Run(y + token * shape.width, num_threads);
  });
}

void RoutedFfnBackward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                       const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                       float* weight_gradients, const FfnMatrixGradients& gradients,
                       int num_threads, const UnitDropout& dropout, double* logit_gradient) {
  if (IsDense(shape, experts)) {
    FusedFfnBackward(DenseShape(shape), x, nullptr, matrices, kept, dy, dx, nullptr, gradients,
                     num_threads, dropout, logit_gradient);
    return;
  }
  const ScopedPhase phase(Phase::kFfn);
  if (weight_gradients != nullptr) {
    // Absent pairs have no influence on the result.
    for (int64_t i = 0; i < shape.num_pairs(); ++i) {
      if (experts.chosen[i] < 0) weight_gradients[i] = 0;
    }
  }
  ForEachTokenGroup(shape, x, experts, kept, dropout, [&](const TokenGroup& group, int64_t token) {
    const int64_t offset = token * shape.width;
    RoutedBackward(group, matrices, gradients)
        .Run(dy + offset, dx + offset,
             weight_gradients == nullptr ? nullptr : weight_gradients + token * shape.active,
             logit_gradient, num_threads);
  });
}

}  // namespace braid
