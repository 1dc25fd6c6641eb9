// The soft-MoE FFN (arXiv 2405.03133, section 2; SMEAR, arXiv 2306.03745): every segment uses its
// own SwiGLU FFN, whose matrices are averages of the experts' matrices.
//
// For segment n with routing weights e_n and experts W_i of [out, in]:
//   M_n = sum_i e_ni W_i          y_n = x_n M_n^T
//   dx_n = dy_n M_n               G_n = dy_n^T x_n
//   dW_i = sum_n e_ni G_n         de_ni = <G_n, W_i>
// for each of gate, up (M1, M3) and down (M2): y = (silu(x M1^T) * (x M3^T)) M2^T. Down is stored
// transposed, so that the rows of all three are hidden units.
//
// Merged matrices are not saved for backward, which merges again. In single precision on a CPU the
// fused kernel merges tile by tile (kernels/fused_ffn.h); any other type or device uses plain
// tensor operations on a bounded group of segments at a time.
#ifndef BRAID_MODEL_KERNELS_SOFT_MERGE_H_
#define BRAID_MODEL_KERNELS_SOFT_MERGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Limits of the plain operations. kMaxSegmentsPerMerge segments are merged at a time, and each
// expert is read once per group. The merged matrices of a group (or their gradients) take at most
// kSoftMergeScratchBytes, unless a single segment needs more.
inline constexpr int64_t kMaxSegmentsPerMerge = 16;
inline constexpr int64_t kSoftMergeScratchBytes = int64_t{64} << 20;

struct SoftExperts {
  // [2, E, F, D]: the gate matrices of all experts, then their up matrices.
  at::Tensor gate_up;
  // [E, F, D].
  at::Tensor down;
  // Experts of a GPT2, which are not merged: FFNs of two matrices with GELU, whose gate_up is up
  // alone, [1, E, F, D]. Biases [E, F], and [D], which is added once; undefined for others.
  at::Tensor up_bias = {}, down_bias = {};
};

// Computes the FFN of each segment: x [N, S, D], routing [N, E] -> [N, S, D]. Differentiable in x,
// routing and both expert tensors; any floating type. If an expert tensor is a leaf with an
// existing gradient, backward may add to that gradient in place.
at::Tensor SoftMergeFfn(const at::Tensor& x, const at::Tensor& routing, const SoftExperts& experts,
                        int64_t scratch_bytes = kSoftMergeScratchBytes);

struct MergedFfn {
  at::Tensor gate_up;  // [N, 2F, D]
  at::Tensor down;     // [N, F, D]
};

// Returns the merged matrices for routing [N, E]. Not differentiable.
MergedFfn MergeExperts(const at::Tensor& routing, const SoftExperts& experts);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SOFT_MERGE_H_
