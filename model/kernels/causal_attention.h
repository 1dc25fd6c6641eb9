// Causal grouped-query attention (arXiv 2305.13245) with rotary position embedding (arXiv
// 2104.09864, the Hugging Face "rotate half" pairing of j and j + hd/2). Multi-head attention is
// the case Hkv = H. Keys and values are never copied for the query heads of a group.
//
// Scores exist for one block of queries at a time, and only up to the last key that the block can
// see. Backward recomputes them; the generic path saves the probabilities while they are few.
#ifndef BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_
#define BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "model/kernels/attention_heads.h"

namespace braid {

// Tables that all calls of the same shape share.
struct AttentionTables {
  // [2, 1, 1, L, hd/2] of angles position * frequency, computed in double; [0] is for queries and
  // includes the score scale 1/sqrt(hd), [1] for keys.
  at::Tensor cosine, sine;
  AttentionHeads heads;
};

// `frequencies` [hd/2] are in radians per position (config/rotary_frequencies.h).
AttentionTables MakeAttentionTables(int64_t max_length, const AttentionHeads& heads,
                                    std::span<const double> frequencies,
                                    const at::TensorOptions& options);

struct RotatedHeads {
  at::Tensor q;     // [B, H, L, hd], scaled
  at::Tensor k, v;  // [B, Hkv, L, hd]
};

// Splits qkv [B, L, (H + 2 Hkv) hd] into heads and rotates q and k by the angles of the positions
// first_position .. first_position + L - 1.
RotatedHeads RotateHeads(const at::Tensor& qkv, const AttentionTables& tables,
                         int64_t first_position);

// Returns softmax(q k^T + mask) v for q [H, Lq, hd], k and v [Hkv, Lk, hd]: [H, Lq, hd]. Query i is
// at position Lk - Lq + i and sees the keys up to that position, from first_visible[0][i] on where
// that is defined ([1, Lq] int32). Not differentiable.
at::Tensor CausalAttend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& first_visible = {});

// Returns causal self-attention with rotary embedding: qkv [B, L, (H + 2 Hkv) hd] -> [B, L, H hd].
// first_visible [B, L] int32: the first position that each query sees (document_mask.h); undefined:
// position 0. Differentiable.
at::Tensor CausalAttention(const at::Tensor& qkv, const AttentionTables& tables,
                           const at::Tensor& first_visible = {});

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_
