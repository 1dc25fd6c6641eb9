// The soft-MoE FFN (arXiv 2405.03133, section 2; arXiv 2306.03745): every
// segment uses its own SwiGLU FFN, whose matrices are averages of the experts'.
//
// For segment n with routing weights e_n and experts W_i of [out, in]:
//   M_n = sum_i e_ni W_i          y_n = x_n M_n^T
//   dx_n = dy_n M_n               G_n = dy_n^T x_n
//   dW_i = sum_n e_ni G_n         de_ni = <G_n, W_i>
// for each of gate, up (M1, M3) and down (M2): y = (silu(x M1^T) * (x M3^T)) M2^T.
// Down is stored transposed, so that the rows of all three are hidden units.
//
// Merged matrices are never kept: backward merges again. In single precision on a
// processor the fused kernel does it tile by tile (kernels/fused_ffn.h); any other
// type or device goes through plain tensor operations, a bounded group of
// segments at a time.
#ifndef BRAID_MODEL_KERNELS_SOFT_MERGE_H_
#define BRAID_MODEL_KERNELS_SOFT_MERGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Of the plain operations. Segments merged at a time: each expert is read once a
// group. A group's merged matrices (or their gradients) take at most
// kSoftMergeScratchBytes, unless one segment needs more.
inline constexpr int64_t kMaxSegmentsPerMerge = 16;
inline constexpr int64_t kSoftMergeScratchBytes = int64_t{64} << 20;

struct SoftExperts {
  // [2, E, F, D]: the experts' gate matrices, then their up matrices.
  at::Tensor gate_up;
  // [E, F, D].
  at::Tensor down;
};

// x [N, S, D], routing [N, E] -> [N, S, D]. Differentiable in x, routing and
// both expert tensors. Any floating type. A leaf among the expert tensors that
// has a gradient already gets its share added there.
at::Tensor SoftMergeFfn(const at::Tensor& x, const at::Tensor& routing, const SoftExperts& experts,
                        int64_t scratch_bytes = kSoftMergeScratchBytes);

struct MergedFfn {
  at::Tensor gate_up;  // [N, 2F, D]
  at::Tensor down;     // [N, F, D]
};

// The averages themselves, for routing [N, E]. Not differentiable.
MergedFfn MergeExperts(const at::Tensor& routing, const SoftExperts& experts);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SOFT_MERGE_H_
