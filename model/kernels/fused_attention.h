// Causal attention with rotary embedding on plain float arrays, for CPUs. Scores exist for one
// block of queries and keys at a time (the running softmax of FlashAttention, arXiv 2205.14135).
// The only thing saved for backward beside inputs and outputs is one number per query and head.
//
// Grouped-query attention reads each key and value head once per query head and never copies it
// for the group. Results do not depend on the number of threads.
#ifndef BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_
#define BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_

#include <cstdint>

#include "model/kernels/attention_heads.h"

namespace braid {

struct AttentionShape {
  int64_t batch;   // B
  int64_t length;  // L
  AttentionHeads heads;
  // [B, L]: the first position that each query sees, at most its own and never less than that of
  // the position before. Null: all see position 0.
  const int32_t* first_visible = nullptr;
};

// [L, hd/2] each: cosines and sines of the angles of positions 0 .. L - 1. The query tables include
// the score scale 1/sqrt(hd).
struct RotaryTables {
  const float* query_cosine;
  const float* query_sine;
  const float* key_cosine;
  const float* key_sine;
};

// Returns whether this CPU can run the two functions below.
bool HasFusedAttention();

// Blocks of keys that no query of a block sees cost nothing.

// Computes out [B, L, H hd] and log_sums [B, H, L], the logarithms of the softmax denominators,
// from qkv [B, L, (H + 2 Hkv) hd].
void FusedAttentionForward(const AttentionShape& shape, const RotaryTables& tables,
                           const float* qkv, float* out, float* log_sums, int num_threads);

// Computes dqkv, which is overwritten, from the gradient dout [B, L, H hd] and the results of the
// forward pass. The gradients of a key head are summed over its query heads in ascending order.
void FusedAttentionBackward(const AttentionShape& shape, const RotaryTables& tables,
                            const float* qkv, const float* out, const float* log_sums,
                            const float* dout, float* dqkv, int num_threads);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_
