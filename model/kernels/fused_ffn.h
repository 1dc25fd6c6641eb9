// The SwiGLU FFN on plain float arrays, for CPUs: dense, or with experts averaged per segment
// (arXiv 2405.03133, section 2; SMEAR, arXiv 2306.03745). No merged matrix ever exists as a whole.
//
// Hidden units are processed in tiles. For a tile of R rows of the three matrices, the merged rows
// M_n of up to 16 segments are computed into a buffer that stays in cache, used for all products
// that need them, and discarded. In backward, the gradients G_n of the same rows are spread over
// the experts while both are still in cache. So every expert weight is read once per pass, and its
// gradient is read and written once. docs/model.md has the arithmetic.
//
// Results do not depend on the number of threads.
#ifndef BRAID_MODEL_KERNELS_FUSED_FFN_H_
#define BRAID_MODEL_KERNELS_FUSED_FFN_H_

#include <cstdint>

#include "model/kernels/unit_dropout.h"

namespace braid {

struct FfnShape {
  int64_t num_segments;    // N
  int64_t segment_tokens;  // S
  int64_t width;           // D
  int64_t hidden;          // F
  int64_t num_experts;     // E; 1 when dense

  int64_t num_tokens() const { return num_segments * segment_tokens; }
  // Returns the number of floats saved for backward: gate and up projections.
  int64_t kept_size() const { return num_tokens() * 2 * hidden; }
};

// The matrices of all experts, [E, F, D] each; rows are hidden units. `down` is the transpose of
// the usual matrix.
struct FfnMatrices {
  const float* gate;
  const float* up;
  const float* down;
};

// The gradients of FfnMatrices, [E, F, D] each.
struct FfnMatrixGradients {
  float* gate;
  float* up;
  float* down;
};

// Returns whether this CPU can run the two functions below.
bool HasFusedFfn();

// Computes y = (silu(x G_n^T) * (x U_n^T)) D_n with the merged matrices of each segment n. x and y
// are [N * S, D]; routing is [N, E], nullptr when dense. `kept` receives kept_size() floats for the
// backward pass; nullptr when there will be none. `dropout` applies to the hidden values, the first
// operand of the product with D_n.
void FusedFfnForward(const FfnShape& shape, const float* x, const float* routing,
                     const FfnMatrices& matrices, float* kept, float* y, int num_threads,
                     const UnitDropout& dropout = {});

// Computes the gradients of FusedFfnForward. dx [N * S, D] and routing_gradients [N, E] are
// overwritten; the gradients of the matrices are accumulated. For a dense FFN, gradients.gate may
// be nullptr when the matrices are not trained: that work is then left out. With concrete dropout
// the gradient of its logit is added to *logit_gradient.
void FusedFfnBackward(const FfnShape& shape, const float* x, const float* routing,
                      const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                      float* routing_gradients, const FfnMatrixGradients& gradients,
                      int num_threads, const UnitDropout& dropout = {},
                      double* logit_gradient = nullptr);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_FFN_H_
