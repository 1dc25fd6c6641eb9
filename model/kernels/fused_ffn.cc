#include "model/kernels/fused_ffn.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "model/kernels/ffn_group_pass.h"
#include "model/kernels/phase_times.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// Rows of a matrix that one thread scatters over the experts at a time.
constexpr int64_t kScatterRows = 8;

// Measures the time of thread 0 between calls, by phase. The barriers between phases keep all
// threads in the same phase.
class LapTimer {
 public:
  void Lap(Phase phase) {
    if (omp_get_thread_num() != 0) return;
    const auto now = std::chrono::steady_clock::now();
    AddPhaseSeconds(phase, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The forward pass of a group. Activations are held transposed, [D, tokens] per panel of 64 tokens,
// so that every product has plain row-major operands (see token_panels.h):
//   for each tile of R hidden units:
//     merge the tile's rows of gate, up and down for all segments    (parallel over rows)
//     for each panel:                                                (parallel over panels)
//       g, u = M_gate x, M_up x      saved for backward if requested
//       y += M_down^T (silu(g) * u)
// The order of additions into y is the order of tiles, whatever the number of threads.
class ForwardPass : public FfnGroupPass {
 public:
  using FfnGroupPass::FfnGroupPass;

  void Run(float* y, int num_threads) {
    const int64_t panel_size = kMatrices * tile_rows_ * kPanelTokens;
    Scratch scratch(2 * tokens_size() + merged_size() + num_threads * panel_size +
                    8 * Scratch::kPadding);
    x_columns_ = scratch.Take(tokens_size());
    y_columns_ = scratch.Take(tokens_size());
    merged_ = scratch.Take(merged_size());
    float* const values = scratch.Take(num_threads * panel_size);
#pragma omp parallel num_threads(num_threads)
    RunOnThread(y, values + omp_get_thread_num() * panel_size);
  }

 private:
  void RunOnThread(float* y, float* values) {
    const int64_t num_panels = static_cast<int64_t>(panels_.size()), d = shape_.width;
    LapTimer timer;
#pragma omp for schedule(static)
    for (int64_t p = 0; p < num_panels; ++p) {
      const int64_t begin = panels_[p].first_token * d, tokens = panels_[p].num_tokens;
      ToColumns(group_.x + begin, tokens, d, x_columns_ + begin);
      std::fill_n(y_columns_ + begin, tokens * d, 0.0f);
    }
    for (int64_t t = 0; t < num_tiles(); ++t) {
      timer.Lap(Phase::kFfn);
      MergeTile(tile(t));
      timer.Lap(group_.routing == nullptr ? Phase::kFfn : Phase::kMerge);
#pragma omp for schedule(static)
      for (int64_t p = 0; p < num_panels; ++p) ForwardPanel(panels_[p], tile(t), values);
    }
#pragma omp for schedule(static)
    for (int64_t p = 0; p < num_panels; ++p) {
      const int64_t begin = panels_[p].first_token * d;
      FromColumns(y_columns_ + begin, panels_[p].num_tokens, d, y + begin);
    }
    timer.Lap(Phase::kFfn);
  }

  void ForwardPanel(const TokenPanel& panel, const FfnTile& tile, float* values) const {
    const int64_t begin = panel.first_token * shape_.width, size = tile.count * panel.num_tokens;
    const bool keep = group_.kept != nullptr;
    float* gate = keep ? Kept(panel, 0, tile.first) : values + size;
    float* up = keep ? Kept(panel, 1, tile.first) : values + 2 * size;
    Project(Merged(panel.segment, 0), tile.count, panel, x_columns_ + begin, gate);
    Project(Merged(panel.segment, 1), tile.count, panel, x_columns_ + begin, up);
    Vector().swiglu(gate, up, values, size);
    if (drops_) Vector().drop_units(Dropped(panel, tile), values);
    ProjectBack(Merged(panel.segment, 2), tile.count, panel, values, y_columns_ + begin);
  }

  const bool drops_ = group_.dropout.kind != UnitDropout::kNone;
  float* x_columns_ = nullptr;
  float* y_columns_ = nullptr;
};

// The backward pass of a group. Merged rows are recomputed, which is cheaper than saving them:
//   for each tile of R hidden units:
//     merge the tile's rows again
//     for each panel:                                                (parallel over panels)
//       da = M_down dy,  (dg, du, a) = backward of SwiGLU
//       dx += M_gate^T dg + M_up^T du
//     for each segment:                                              (parallel over columns)
//       G_gate = dg x^T,  G_up = du x^T,  G_down = a dy^T
//     scatter the G_n over the experts and the routing gradients     (parallel over rows)
// dx needs tokens as columns and the G_n need tokens as rows, hence both forms of dy. The three
// inner loops are separated by barriers; within each, no two work items write to the same address.
// With dropout, da and a are multiplied by their factors.
class BackwardPass : public FfnGroupPass {
 public:
  BackwardPass(const FfnGroup& group, const FfnMatrices& matrices,
               const FfnMatrixGradients& gradients)
      : FfnGroupPass(group, matrices),
        gradients_{gradients.gate, gradients.up, gradients.down},
        logit_shares_(panels_.size()) {}

  void Run(const float* dy, float* dx, float* routing_gradients, double* logit_gradient,
           int num_threads) {
    const bool dense = group_.routing == nullptr;
    const int64_t values_size = kMatrices * tile_rows_ * shape_.num_tokens();
    const int64_t merged_gradients_size = dense ? 0 : merged_size();
    const int64_t shares_size = dense ? 0 : num_shares() * share_size();
    Scratch scratch(4 * tokens_size() + merged_size() + values_size + merged_gradients_size +
                    shares_size + 8 * Scratch::kPadding);
    dy_columns_ = scratch.Take(tokens_size());
    dx_columns_ = scratch.Take(tokens_size());
    dy_blocks_ = scratch.Take(tokens_size());
    x_blocks_ = scratch.Take(tokens_size());
    merged_ = scratch.Take(merged_size());
    values_ = scratch.Take(values_size);
    merged_gradients_ = scratch.Take(merged_gradients_size);
    shares_ = scratch.Take(shares_size);
    std::fill_n(shares_, shares_size, 0.0f);
#pragma omp parallel num_threads(num_threads)
    RunOnThread(dy, dx);
    if (!dense) AddShares(routing_gradients);
    if (logit_gradient == nullptr) return;
    for (const double share : logit_shares_) *logit_gradient += share;
  }

 private:
  // The gradients of the routing weights are dot products over all rows. They are accumulated in a
  // fixed number of partial sums, one per block of kScatterRows rows, and added in a fixed order at
  // the end: results do not depend on which thread processed which block, and threads never write
  // to the same address.
  int64_t share_size() const { return shape_.num_segments * shape_.num_experts; }
  int64_t shares_per_matrix() const { return (tile_rows_ + kScatterRows - 1) / kScatterRows; }
  int64_t num_shares() const { return kMatrices * shares_per_matrix(); }

  void RunOnThread(const float* dy, float* dx) {
    const int64_t num_panels = static_cast<int64_t>(panels_.size()), d = shape_.width;
    LapTimer timer;
#pragma omp for schedule(static)
    for (int64_t p = 0; p < num_panels; ++p) PreparePanel(panels_[p], dy);
    for (int64_t t = 0; t < num_tiles(); ++t) {
      timer.Lap(Phase::kFfn);
      MergeTile(tile(t));
      timer.Lap(group_.routing == nullptr ? Phase::kFfn : Phase::kMerge);
#pragma omp for schedule(static)
      for (int64_t p = 0; p < num_panels; ++p) BackwardPanel(panels_[p], tile(t));
      if (gradients_[0] != nullptr) MatrixGradients(tile(t));
      timer.Lap(Phase::kFfn);
      if (group_.routing != nullptr) {
        ScatterTile(tile(t));
        timer.Lap(Phase::kMerge);
      }
    }
#pragma omp for schedule(static)
    for (int64_t p = 0; p < num_panels; ++p) {
      const int64_t begin = panels_[p].first_token * d;
      FromColumns(dx_columns_ + begin, panels_[p].num_tokens, d, dx + begin);
    }
    timer.Lap(Phase::kFfn);
  }

  void PreparePanel(const TokenPanel& panel, const float* dy) const {
    const int64_t d = shape_.width, begin = panel.first_token * d, tokens = panel.num_tokens;
    ToColumns(dy + begin, tokens, d, dy_columns_ + begin);
    std::fill_n(dx_columns_ + begin, tokens * d, 0.0f);
    if (gradients_[0] == nullptr) return;
    ToBlocks(dy + begin, tokens, d, dy_blocks_ + begin);
    ToBlocks(group_.x + begin, tokens, d, x_blocks_ + begin);
  }

  // Returns one of three arrays [rows, tokens] of a panel, in the order of the matrices: d(gate),
  // d(up), and the recomputed activation.
  float* Values(const TokenPanel& panel, const FfnTile& tile, int64_t matrix) const {
    return values_ + panel.first_token * kMatrices * tile_rows_ +
           matrix * tile.count * panel.num_tokens;
  }

  void BackwardPanel(const TokenPanel& panel, const FfnTile& tile) {
    const int64_t begin = panel.first_token * shape_.width;
    float* dgate = Values(panel, tile, 0);
    float* activation = Values(panel, tile, 2);
    Project(Merged(panel.segment, 2), tile.count, panel, dy_columns_ + begin, activation);
    if (drops_) Vector().drop_units(Dropped(panel, tile), activation);
    Vector().swiglu_backward(Kept(panel, 0, tile.first), Kept(panel, 1, tile.first), activation,
                             dgate, Values(panel, tile, 1), tile.count * panel.num_tokens);
    if (drops_) DropAgain(panel, tile, activation);
    if (tile.count == tile_rows_) {
      // A full tile has gate and up adjacent in both operands: one product with twice the depth.
      ProjectBack(Merged(panel.segment, 0), 2 * tile.count, panel, dgate, dx_columns_ + begin);
    } else {
      for (int64_t matrix : {0, 1}) {
        ProjectBack(Merged(panel.segment, matrix), tile.count, panel, Values(panel, tile, matrix),
                    dx_columns_ + begin);
      }
    }
  }

  // Drops the recomputed activation as in the forward pass, and adds to the gradient of the logit.
  // A panel is always processed by one thread at a time, tile by tile.
  void DropAgain(const TokenPanel& panel, const FfnTile& tile, float* activation) {
    const DropoutTile dropped = Dropped(panel, tile);
    Vector().drop_units(dropped, activation);
    if (group_.dropout.kind != UnitDropout::kConcrete) return;
    logit_shares_[&panel - panels_.data()] +=
        Vector().concrete_gradient(dropped, Values(panel, tile, 1), Kept(panel, 1, tile.first));
  }

  // Computes G_n of the tile's rows; for a dense FFN adds to the gradients of the matrices
  // directly. Collective. A work item owns one block of 64 columns of one G_n and adds its panels
  // in order, so the sums have a fixed order.
  void MatrixGradients(const FfnTile& tile) {
    const int64_t num_blocks = (shape_.width + kBlockFeatures - 1) / kBlockFeatures;
    const int64_t panels_per_segment = static_cast<int64_t>(panels_.size()) / shape_.num_segments;
#pragma omp for schedule(static)
    for (int64_t item = 0; item < shape_.num_segments * kMatrices * num_blocks; ++item) {
      const int64_t block = item % num_blocks * kBlockFeatures;
      const int64_t matrix = item / num_blocks % kMatrices;
      const int64_t segment = item / num_blocks / kMatrices;
      float* out = GradientRows(tile, segment, matrix) + block;
      const TokenPanel* panel = &panels_[segment * panels_per_segment];
      for (int64_t i = 0; i < panels_per_segment; ++i) {
        AddOuterProduct(panel[i], tile, matrix, block, i > 0 || group_.routing == nullptr, out);
      }
    }
  }

  float* GradientRows(const FfnTile& tile, int64_t segment, int64_t matrix) const {
    if (group_.routing == nullptr) return gradients_[matrix] + tile.first * shape_.width;
    return merged_gradients_ + (segment * kMatrices + matrix) * tile_rows_ * shape_.width;
  }

  // Computes out [rows, 64 features] (+)= values [rows, tokens] * block [tokens, features].
  void AddOuterProduct(const TokenPanel& panel, const FfnTile& tile, int64_t matrix, int64_t block,
                       bool accumulate, float* out) const {
    const float* source = matrix == 2 ? dy_blocks_ : x_blocks_;
    const int64_t features = std::min(kBlockFeatures, shape_.width - block);
    const SmallGemm product({.rows = tile.count,
                             .columns = features,
                             .depth = panel.num_tokens,
                             .left_stride = panel.num_tokens,
                             .right_stride = features,
                             .out_stride = shape_.width,
                             .accumulate = accumulate});
    product(Values(panel, tile, matrix),
            source + panel.first_token * shape_.width + block * panel.num_tokens, out);
  }

  // Spreads G_n of the tile over the experts: dW_i += sum_n e_ni G_n and de_ni += <G_n, W_i>.
  // Collective. The tile's expert rows and G_n are still in cache from the steps before.
  void ScatterTile(const FfnTile& tile) {
    const int64_t d = shape_.width, per_matrix = shares_per_matrix();
#pragma omp for schedule(static)
    for (int64_t share = 0; share < num_shares(); ++share) {
      const int64_t matrix = share / per_matrix, row = share % per_matrix * kScatterRows;
      if (row >= tile.count) continue;
      const int64_t offset = (tile.first + row) * d;
      Vector().scatter(
          Experts(matrices_[matrix] + offset), group_.routing,
          Segments(GradientRows(tile, 0, matrix) + row * d, kMatrices * tile_rows_ * d),
          gradients_[matrix] + offset, shares_ + share * share_size(),
          std::min(kScatterRows, tile.count - row) * d);
    }
  }

  void AddShares(float* routing_gradients) const {
    std::fill_n(routing_gradients, share_size(), 0.0f);
    for (int64_t share = 0; share < num_shares(); ++share) {
      const float* part = shares_ + share * share_size();
      for (int64_t i = 0; i < share_size(); ++i) routing_gradients[i] += part[i];
    }
  }

  float* const gradients_[kMatrices];
  const bool drops_ = group_.dropout.kind != UnitDropout::kNone;
  std::vector<double> logit_shares_;  // one per panel
  float* dy_columns_ = nullptr;
  float* dx_columns_ = nullptr;
  float* dy_blocks_ = nullptr;
  float* x_blocks_ = nullptr;
  float* values_ = nullptr;
  float* merged_gradients_ = nullptr;  // [N, 3, R, D]
  float* shares_ = nullptr;
};

// Splits the batch into groups and calls `run` with each group, its first token and its first
// segment. A group has at most kMaxTokensPerGroup tokens: its panels of x and y should stay in
// cache during the pass over all tiles.
template <class Run>
void ForEachGroup(const FfnShape& shape, const float* x, const float* routing, const float* kept,
                  const UnitDropout& dropout, Run run) {
  const bool dense = routing == nullptr;
  // Segments are irrelevant for a dense FFN, so any cut will do.
  const int64_t segment_tokens =
      dense ? std::min(shape.num_tokens(), kMaxTokensPerGroup) : shape.segment_tokens;
  const int64_t segments =
      dense ? 1 : std::clamp<int64_t>(kMaxTokensPerGroup / segment_tokens, 1, kMaxSegmentsPerGroup);
  for (int64_t token = 0; token < shape.num_tokens(); token += segments * segment_tokens) {
    const int64_t left = shape.num_tokens() - token;
    FfnShape part = shape;
    part.segment_tokens = std::min(segment_tokens, left);
    part.num_segments = std::min(segments, left / part.segment_tokens);
    const int64_t segment = token / segment_tokens;
    // FfnGroup serves both passes: the forward pass writes `kept`, the backward pass only reads it.
    run(FfnGroup{part, x + token * shape.width,
                 dense ? nullptr : routing + segment * shape.num_experts,
                 kept == nullptr ? nullptr : const_cast<float*>(kept) + token * 2 * shape.hidden,
                 dropout.From(token)},
        token, segment);
  }
}

}  // namespace

bool HasFusedFfn() { return HasSmallGemm(); }

void FusedFfnForward(const FfnShape& shape, const float* x, const float* routing,
                     const FfnMatrices& matrices, float* kept, float* y, int num_threads,
                     const UnitDropout& dropout) {
  const ScopedShownPhase shown(Phase::kFfn);
  ForEachGroup(shape, x, routing, kept, dropout,
               [&](const FfnGroup& group, int64_t token, int64_t) {
                 ForwardPass(group, matrices).Run(y + token * shape.width, num_threads);
               });
}

void FusedFfnBackward(const FfnShape& shape, const float* x, const float* routing,
                      const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                      float* routing_gradients, const FfnMatrixGradients& gradients,
                      int num_threads, const UnitDropout& dropout, double* logit_gradient) {
  const ScopedShownPhase shown(Phase::kFfn);
  ForEachGroup(shape, x, routing, kept, dropout,
               [&](const FfnGroup& group, int64_t token, int64_t segment) {
                 const int64_t offset = token * shape.width;
                 float* const shares =
                     routing == nullptr ? nullptr : routing_gradients + segment * shape.num_experts;
                 BackwardPass(group, matrices, gradients)
                     .Run(dy + offset, dx + offset, shares, logit_gradient, num_threads);
               });
}

}  // namespace braid
