// Attention of the next tokens of one sequence to its key-value cache. Tensor code: private to
// model/.
#ifndef BRAID_MODEL_KERNELS_CACHED_ATTENTION_H_
#define BRAID_MODEL_KERNELS_CACHED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/kernels/causal_attention.h"

namespace braid {

// The cache of a layer, and what the tokens after it see.
struct KeyValueCache {
  at::Tensor keys, values;  // [Hkv, L, hd], contiguous
  int64_t position = 0;     // position of the first token that is appended
  int64_t begin = 0;        // the first position that any of the tokens sees
  at::Tensor first = {};    // [n] int32, relative to `begin`; undefined: all see that position
};

// Appends the keys and values of n tokens, whose qkv is [n, (H + 2 Hkv) hd], to the cache, the keys
// after rotation, so that no later token rotates them again. Returns what each token takes from the
// positions that it sees, up to its own: [n, H hd]. Not differentiable. Up to 8 tokens in single
// precision on a processor are computed without tensors in between, whose creation takes longer
// than the work of a small model.
at::Tensor AttendToCache(const at::Tensor& qkv, const AttentionTables& tables,
                         const KeyValueCache& cache);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CACHED_ATTENTION_H_
