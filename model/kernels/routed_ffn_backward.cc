#include <omp.h>

#include <algorithm>
#include <vector>

#include "model/kernels/phase_times.h"
#include "model/kernels/routed_ffn.h"
#include "model/kernels/routed_ffn_pass.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// The backward pass of a group:
//   for each phase of experts:
//     for each expert, slab by slab:                                 (parallel over experts)
//       for each panel, with the rows of x and dy gathered; for each tile of hidden units, packed:
//         da = dy W_down^T,  (dg, du, a) = backward of SwiGLU
//         dx += [dg, du] [W_gate, W_up]
//       G_gate += dg^T x,  G_up += du^T x,  G_down += a^T dy
//     for each token: add its pairs                                  (parallel)
// Where an expert has few units, [dg, du] is stored, and ProductsByToken computes dx.
// With weights w, da and a carry the factor w of their token, and dw = <a, dy W_down^T> before it.
// With dropout, dy W_down^T and a are multiplied by their factors first.
class RoutedBackward : public RoutedPass {
 public:
  RoutedBackward(const TokenGroup& group, const FfnMatrices& matrices,
                 const FfnMatrixGradients& gradients)
      : RoutedPass(group, matrices, nullptr,
                   PackedRows(group.shape) == group.shape.hidden ? kCachedSlabPairs : kSlabPairs),
        trained_(gradients.gate != nullptr),
        gradients_{gradients.gate, gradients.up, gradients.down},
        logit_shares_(shape_.num_experts) {}

  void Run(const float* dy, float* dx, float* weight_gradients, double* logit_gradient,
           int num_threads) {
    dy_ = dy;
    weight_gradients_ = group_.experts.weights == nullptr ? nullptr : weight_gradients;
    const int64_t values_size = 3 * largest_slab_ * packed_rows();
    const int64_t pairs_size = pair_rows_size(2 * shape_.hidden);
    const int64_t own_size = (trained_ ? 2 : 1) * blocks_size() + packed_size() + values_size;
    const int64_t shared_size = by_token_size(2);
    Scratch scratch(pairs_size + shared_size + num_threads * own_size + 3 * Scratch::kPadding);
    pair_rows_ = scratch.Take(pairs_size);
    float* const shared = scratch.Take(shared_size);
    float* const own = scratch.Take(num_threads * own_size);
#pragma omp parallel num_threads(num_threads)
    {
      Buffers buffers;
      buffers.packed = own + omp_get_thread_num() * own_size;
      buffers.projections = buffers.packed + packed_size();
      buffers.activation = buffers.projections + 2 * largest_slab_ * packed_rows();
      buffers.dy = buffers.activation + largest_slab_ * packed_rows();
      buffers.x = buffers.dy + blocks_size();
      for (const ExpertPhase& phase : phases_) {
#pragma omp for schedule(dynamic)
        for (int64_t i = phase.first_expert; i < phase.end_expert; ++i) {
          BackwardExpert(order_[i], phase, buffers);
        }
        if (by_token_) {
          by_token_->Run(pair_rows_, {{matrices_[0], matrices_[1]}}, shared, dx);
        } else {
          AddPairs(phase, pair_rows_, dx);
        }
      }
    }
    if (logit_gradient == nullptr) return;
    for (const double share : logit_shares_) *logit_gradient += share;
  }

 private:
  struct Buffers {
    float *packed, *dy, *x;
    float* projections;  // [slab, 2 * rows] of each tile: d(gate), d(up)
    float* activation;   // [slab, rows] of each tile: d(activation), then the activation
  };

  void BackwardExpert(int64_t expert, const ExpertPhase& phase, Buffers buffers) {
    bool packed = false;
    for (const ExpertSlab& slab : SlabsOf(sorted_, expert, slab_pairs_)) {
      if (by_token_) buffers.projections = pair_rows_ + slab.first * 2 * shape_.hidden;
      float* const out =
          by_token_ ? nullptr : pair_rows_ + (slab.first - phase.first_pair) * row_stride_;
      ForEachPackedTile(expert, [&](const ExpertTile& together) {
        if (!packed) Pack(together, buffers.packed);
        packed = together.count == shape_.hidden;
        BackwardSlab(slab, together, buffers, out);
      });
    }
  }

  void Pack(const ExpertTile& together, float* all) const {
    ForEachTile(together, all, [&](const ExpertTile& tile, float* packed) {
      PackColumns(tile, 2, tile.count, packed);
      if (!by_token_) PackRows(tile, 1, PackRows(tile, 0, packed + tile.count * shape_.width));
    });
  }

  void BackwardSlab(const ExpertSlab& slab, const ExpertTile& together, const Buffers& buffers,
                    float* out) {
    ForEachPanel(slab, [&](const PairPanel& panel) {
      if (together.first == 0) {
        Gather(slab, panel, dy_, buffers.dy);
        if (trained_) Gather(slab, panel, group_.x, buffers.x);
      }
      ForEachTile(together, buffers.packed, [&](const ExpertTile& tile, float* packed) {
        BackwardPanel(slab, panel, tile, packed, ValuesOf(slab, together, tile, buffers),
                      out + (panel.first - slab.first) * row_stride_);
      });
    });
    if (!trained_) return;
    ForEachTile(together, buffers.packed, [&](const ExpertTile& tile, float*) {
      AddMatrixGradients(slab, tile, ValuesOf(slab, together, tile, buffers));
    });
  }

  // Returns the buffers with projections and activations of one of the tiles packed together.
  static Buffers ValuesOf(const ExpertSlab& slab, const ExpertTile& together,
                          const ExpertTile& tile, Buffers buffers) {
    const int64_t before = (tile.first - together.first) * slab.count;
    buffers.projections += 2 * before;
    buffers.activation += before;
    return buffers;
  }

  void BackwardPanel(const ExpertSlab& slab, const PairPanel& panel, const ExpertTile& tile,
                     const float* packed, const Buffers& buffers, float* out) {
    const int64_t offset = panel.first - slab.first, rows = tile.count;
    float* const activation = buffers.activation + offset * rows;
    float* const projections = buffers.projections + offset * 2 * rows;
    const float* const gate_up = Kept(panel, tile);
    Project(slab, panel, buffers.dy, packed, rows, activation, rows);
    for (int64_t i = 0; i < panel.count; ++i) {
      BackwardRow(panel.first + i, tile, gate_up + i * 2 * rows, activation + i * rows,
                  projections + i * 2 * rows);
    }
    if (by_token_) return;
    // Gate and up are adjacent in both operands: one product with twice the depth.
    ProjectBack(panel, 2 * rows, /*accumulate=*/tile.first > 0, projections,
                packed + rows * shape_.width, out);
  }

  // Computes d(gate), d(up) and the activation of one pair. On entry `activation` holds dy
  // W_down^T.
  void BackwardRow(int64_t slot, const ExpertTile& tile, const float* gate_up, float* activation,
                   float* projections) {
    const int64_t rows = tile.count, pair = sorted_.pairs[slot];
    const float* const weights = group_.experts.weights;
    if (drops_) Vector().drop_units(Dropped(slot, tile), activation);
    const float share = Vector().swiglu_row_backward(
        gate_up, weights == nullptr ? 1 : weights[pair], rows, activation, projections);
    if (weight_gradients_ != nullptr) {
      weight_gradients_[pair] = tile.first == 0 ? share : weight_gradients_[pair] + share;
    }
    if (!drops_) return;
    const DropoutTile dropped = Dropped(slot, tile);
    Vector().drop_units(dropped, activation);
    if (group_.dropout.kind != UnitDropout::kConcrete) return;
    // An expert belongs to one thread.
    logit_shares_[tile.expert] +=
        Vector().concrete_gradient(dropped, projections + rows, gate_up + rows);
  }

  // Adds the outer products of the slab to the gradients of the tile's rows: full panels in one
  // product, then the last one, so that few different kernels are generated.
  void AddMatrixGradients(const ExpertSlab& slab, const ExpertTile& tile,
                          const Buffers& buffers) const {
    const int64_t full = slab.count / kPanelTokens * kPanelTokens;
    const int64_t whole = shape_.width / kBlockFeatures * kBlockFeatures;
    for (const PairPanel& pairs : {PairPanel{0, full}, PairPanel{full, slab.count - full}}) {
      if (pairs.count == 0) continue;
      AddOuterProducts(slab, tile, pairs, {0, whole}, kBlockFeatures, buffers);
      AddOuterProducts(slab, tile, pairs, {whole, shape_.width}, shape_.width - whole, buffers);
    }
  }

  struct Range {
    int64_t first, end;
  };

  // Computes gradients [rows, features] += values [pairs, rows]^T * x or dy [pairs, features], for
  // all three matrices and blocks of `features` in the range.
  void AddOuterProducts(const ExpertSlab& slab, const ExpertTile& tile, const PairPanel& pairs,
                        const Range& range, int64_t features, const Buffers& buffers) const {
    if (range.first == range.end) return;
    const int64_t rows = tile.count,
                  offset = (tile.expert * shape_.hidden + tile.first) * shape_.width;
    SmallGemmShape product = {.rows = rows,
                              .columns = features,
                              .depth = pairs.count,
                              .left_stride = 2 * rows,
                              .right_stride = features,
                              .out_stride = shape_.width,
                              .left_transposed = true,
                              .accumulate = true};
    const SmallGemm add_projection(product);
    product.left_stride = rows;
    const SmallGemm add_activation(product);
    const float* const projections = buffers.projections + pairs.first * 2 * rows;
    const float* const activation = buffers.activation + pairs.first * rows;
    // The inner loop is over matrices: gate and up read the same block of x.
    for (int64_t block = range.first; block < range.end; block += features) {
      const int64_t place = block * slab.count + pairs.first * features, out = offset + block;
      add_projection(projections, buffers.x + place, gradients_[0] + out);
      add_projection(projections + rows, buffers.x + place, gradients_[1] + out);
      add_activation(activation, buffers.dy + place, gradients_[2] + out);
    }
  }

  const bool trained_;
  float* const gradients_[3];
  std::vector<double> logit_shares_;  // one per expert
  const float* dy_ = nullptr;
  float* weight_gradients_ = nullptr;
  // Rows of dx of the pairs of a phase, or, for by_token_, [dg, du] of all, [pairs, 2 F].
  float* pair_rows_ = nullptr;
};

}  // namespace

void RoutedFfnBackward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                       const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                       float* weight_gradients, const FfnMatrixGradients& gradients,
                       int num_threads, const UnitDropout& dropout, double* logit_gradient) {
  if (AreDense(shape, experts)) {
    FusedFfnBackward(DenseShapeOf(shape), x, nullptr, matrices, kept, dy, dx, nullptr, gradients,
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
