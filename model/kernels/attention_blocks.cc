#include "model/kernels/attention_blocks.h"

#include <algorithm>

#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {

void RotateRows(const float* in, int64_t in_stride, const float* cosine, const float* sine,
                float direction, int64_t count, int64_t head_width, float* out,
                int64_t out_stride) {
  for (int64_t row = 0; row < count; ++row) {
    Vector().rotate(in + row * in_stride, cosine + row * head_width / 2,
                    sine + row * head_width / 2, direction, head_width / 2, out + row * out_stride);
  }
}

void CopyRows(const float* in, int64_t in_stride, int64_t count, int64_t width, float* out,
              int64_t out_stride) {
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(in + row * in_stride, width, out + row * out_stride);
  }
}

void RowsToPanels(const float* rows, int64_t count, int64_t width, float* panels) {
  for (int64_t first = 0; first < count; first += kPanelTokens) {
    ToColumns(rows + first * width, std::min(kPanelTokens, count - first), width,
              panels + first * width);
  }
}

void Mask(const BlockPair& pair, float value, float* block) {
  if (!pair.crosses_diagonal()) return;
  for (int64_t key = 0; key < pair.num_keys; ++key) {
    const int64_t hidden = pair.first_key + key - pair.first_query;
    const int64_t count = std::clamp<int64_t>(hidden, 0, pair.num_queries);
    std::fill_n(block + key * pair.num_queries, count, value);
  }
}

void Scores(const BlockPair& pair, int64_t head_width, const float* k, const float* q_columns,
            float* scores) {
  const SmallGemm product({.rows = pair.num_keys,
                           .columns = pair.num_queries,
                           .depth = head_width,
                           .left_stride = head_width,
                           .right_stride = pair.num_queries,
                           .out_stride = pair.num_queries});
  product(k + pair.first_key * head_width, q_columns, scores);
}

}  // namespace braid
