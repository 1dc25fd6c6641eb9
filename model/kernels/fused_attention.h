// Causal attention with rotary embedding of plain float arrays on processors.
// Scores exist for one block of queries and keys at a time (the running softmax
// of FlashAttention, arXiv 2205.14135); what backward needs of them is one number
// a query and head.
//
// Results do not depend on the number of threads.
#ifndef BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_
#define BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_

#include <cstdint>

namespace braid {

struct AttentionShape {
  int64_t batch;       // B
  int64_t length;      // L
  int64_t num_heads;   // H
  int64_t head_width;  // hd, even

  int64_t width() const { return num_heads * head_width; }  // D
};

// [length, hd/2] each: the angles of positions 0 .. L - 1. Those of queries carry
// the score scale.
struct RotaryTables {
  const float* query_cosine;
  const float* query_sine;
  const float* key_cosine;
  const float* key_sine;
};

// Whether this processor can run the two functions below.
bool HasFusedAttention();

// qkv [B, L, 3D] -> out [B, L, D] and log_sums [B, H, L], the logarithms of the
// softmax's denominators.
void FusedAttentionForward(const AttentionShape& shape, const RotaryTables& tables,
                           const float* qkv, float* out, float* log_sums, int num_threads);

// dqkv [B, L, 3D] is overwritten.
void FusedAttentionBackward(const AttentionShape& shape, const RotaryTables& tables,
                            const float* qkv, const float* out, const float* log_sums,
                            const float* dout, float* dqkv, int num_threads);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_ATTENTION_H_
