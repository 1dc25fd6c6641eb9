// Causal multi-head attention with rotary position embedding (arXiv 2104.09864, the Hugging Face
// "rotate half" pairing of j and j + hd/2).
//
// Scores exist for one block of queries at a time, and only up to the last key that the block can
// see. Backward recomputes them; the generic path saves the probabilities while they are few.
#ifndef BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_
#define BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Tables that all calls of the same shape share.
struct AttentionTables {
  // [2, 1, 1, L, hd/2] of angles position * theta^(-2j/hd), computed in double;
  // [0] is for queries and includes the score scale 1/sqrt(hd), [1] for keys.
  at::Tensor cosine, sine;
  int64_t num_heads = 0;
};

AttentionTables MakeAttentionTables(int64_t max_length, int64_t num_heads, int64_t head_width,
                                    double theta, const at::TensorOptions& options);

struct RotatedHeads {
  at::Tensor q, k, v;  // [B, H, L, hd], q scaled
};

// Splits qkv [B, L, 3D] into heads and rotates q and k by the angles of the positions
// first_position .. first_position + L - 1.
RotatedHeads RotateHeads(const at::Tensor& qkv, const AttentionTables& tables,
                         int64_t first_position);

// Returns softmax(q k^T + mask) v for q [G, Lq, hd], k and v [G, Lk, hd]; G counts sequences times
// heads. Query i is at position Lk - Lq + i and sees the keys up to that position. Not
// differentiable.
at::Tensor CausalAttend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// Returns causal self-attention with rotary embedding: qkv [B, L, 3D] -> [B, L, D]. Differentiable.
at::Tensor CausalAttention(const at::Tensor& qkv, const AttentionTables& tables);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CAUSAL_ATTENTION_H_
