// The heads of grouped-query attention (arXiv 2305.13245).
#ifndef BRAID_MODEL_KERNELS_ATTENTION_HEADS_H_
#define BRAID_MODEL_KERNELS_ATTENTION_HEADS_H_

#include <cstdint>

namespace braid {

// Key head j serves the query heads j * group() .. (j + 1) * group() - 1. Queries, keys and values
// of a token are one row of qkv_width() numbers: all query heads, all key heads, all value heads.
struct AttentionHeads {
  int64_t query = 0;      // H
  int64_t key_value = 0;  // Hkv, a divisor of H
  int64_t width = 0;      // hd, even

  int64_t group() const { return query / key_value; }
  int64_t query_width() const { return query * width; }
  int64_t key_value_width() const { return key_value * width; }
  int64_t qkv_width() const { return query_width() + 2 * key_value_width(); }
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ATTENTION_HEADS_H_
