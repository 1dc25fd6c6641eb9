// The SwiGLU FFN of sparse experts on plain float arrays, for CPUs: each token uses k of N experts
// (arXiv 1701.06538), at the price of the chosen (token, expert) pairs.
//
// Pairs are counting-sorted by expert, tokens ascending. The rows of an expert's tokens are
// gathered in panels of at most 64 and multiplied with tiles of its hidden units, whose matrix rows
// are packed so that every product has plain row-major operands. Every pair has its own output row,
// and each token adds its k rows in ascending order of experts: no atomics. Experts of few hidden
// units store the hidden values of their pairs instead (products_by_token.h). In backward one work
// item owns an expert, and adds its pairs in order to the gradients of its matrices.
//
// Packing pays off when many rows use it: with few pairs, as in decoding, the forward pass of an
// expert reads its matrices in place, once, as dot products and sums of rows.
//
// The alternative for experts with few rows, a dense FFN that masks the units of experts that were
// not chosen, is not implemented: for 64 tokens that use 32 of 64 experts, this kernel takes 0.44
// of the time of a dense FFN (braid-bench-routed-ffn, few_rows).
//
// With all experts and weights of 1 it is the dense kernel on the same memory.
//
// Results do not depend on the number of threads.
#ifndef BRAID_MODEL_KERNELS_ROUTED_FFN_H_
#define BRAID_MODEL_KERNELS_ROUTED_FFN_H_

#include <cstdint>

#include "model/kernels/fused_ffn.h"

namespace braid {

// The matrices of an expert with at most this many pairs are not packed, since reading them in
// place is faster then. braid-bench-routed-ffn measures the limit, which grows with D.
inline constexpr int64_t kUnpackedPairs = 32;

struct RoutedFfnShape {
  int64_t num_tokens;   // T
  int64_t width;        // D
  int64_t hidden;       // F, hidden units of one expert
  int64_t num_experts;  // N
  int64_t active;       // k, at most N
  int64_t unpacked_pairs = kUnpackedPairs;

  int64_t num_pairs() const { return num_tokens * active; }
};

// The experts of each token. `chosen` is [T, k], each row ascending without duplicates, with -1 at
// any place for an absent pair, which costs and adds nothing; `weights` is [T, k], nullptr for 1.
struct ChosenExperts {
  const int32_t* chosen;
  const float* weights;
};

// Returns the number of floats saved for backward: gate and up projections of the pairs that are
// not absent, k F / F' of those of a dense FFN with F' hidden units when none is.
int64_t RoutedKeptSize(const RoutedFfnShape& shape, const ChosenExperts& experts);

// Computes y_t = sum_j weights_tj FFN_chosen_tj(x_t), with x and y [T, D] and matrices of [N, F,
// D]. `kept` receives RoutedKeptSize() floats for the backward pass; nullptr when there will be
// none. `dropout` applies to the hidden values; unit i of expert e is unit e F + i. Requires
// HasFusedFfn().
void RoutedFfnForward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                      const FfnMatrices& matrices, float* kept, float* y, int num_threads,
                      const UnitDropout& dropout = {});

// Computes the gradients of RoutedFfnForward. dx [T, D] and weight_gradients [T, k] are
// overwritten; the gradients of the matrices are accumulated. `weight_gradients` may be nullptr,
// and so may gradients.gate when the matrices are not trained: that work is then left out. With
// concrete dropout the gradient of its logit is added to *logit_gradient.
void RoutedFfnBackward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                       const FfnMatrices& matrices, const float* kept, const float* dy, float* dx,
                       float* weight_gradients, const FfnMatrixGradients& gradients,
                       int num_threads, const UnitDropout& dropout = {},
                       double* logit_gradient = nullptr);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ROUTED_FFN_H_
