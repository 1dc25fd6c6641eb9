// The SwiGLU FFN of plain float arrays on processors, dense or with experts
// averaged per segment (arXiv 2405.03133, section 2), without ever holding a
// whole merged matrix.
//
// The hidden units are worked through in tiles. For a tile of R rows of the three
// matrices the merged rows M_n of up to 16 segments are computed into a buffer
// that stays in cache, used for all products that need them, and forgotten; in
// backward the gradients G_n of the same rows are spread over the experts while
// both are still in cache. So every expert weight is read once a pass, and its
// gradient is read and written once. See docs/model.md for the arithmetic.
//
// Results do not depend on the number of threads.
#ifndef BRAID_MODEL_KERNELS_FUSED_FFN_H_
#define BRAID_MODEL_KERNELS_FUSED_FFN_H_

#include <cstdint>

namespace braid {

struct FfnShape {
  int64_t num_segments;    // N
  int64_t segment_tokens;  // S
  int64_t width;           // D
  int64_t hidden;          // F
  int64_t num_experts;     // E; 1 when dense

  int64_t num_tokens() const { return num_segments * segment_tokens; }
  // Floats that forward keeps for backward: gate and up projections.
  int64_t kept_size() const { return num_tokens() * 2 * hidden; }
};

// [E, F, D] each: rows are hidden units. `down` is the transpose of the usual
// matrix.
struct FfnMatrices {
  const float* gate;
  const float* up;
  const float* down;
};

struct FfnMatrixGradients {
  float* gate;
  float* up;
  float* down;
};

// Whether this processor can run the two functions below.
bool HasFusedFfn();

// y = (silu(x G_n^T) * (x U_n^T)) D_n for each segment's matrices: x, y
// [N * S, D]; routing [N, E], nullptr when dense. `kept` has kept_size() floats,
// or is nullptr when there will be no backward.
void FusedFfnForward(const FfnShape& shape, const float* x, const float* routing,
                     const FfnMatrices& matrices, float* kept, float* y, int num_threads);

// dx [N * S, D] and routing_gradients [N, E] are overwritten; gradients of the
// matrices are added to.
void FusedFfnBackward(const FfnShape& shape, const float* x, const float* routing,
                      const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                      float* routing_gradients, const FfnMatrixGradients& gradients,
                      int num_threads);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_FFN_H_
