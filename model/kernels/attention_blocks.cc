#include "model/kernels/attention_blocks.h"

#include <algorithm>

#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {

void RotateRows(const float* in, int64_t in_stride, const float* cosine, const float* sine,
                float direction, int64_t count, int64_t head_width, float* out,
                int64_t out_stride) {
  Vector().rotate(in, in_stride, cosine, sine, direction, count, head_width / 2, out, out_stride);
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

void Mask(const BlockPair& pair, const int32_t* first_visible, float value, float* block) {
  const int64_t queries = pair.num_queries;
  const int32_t* const first = first_visible ? first_visible + pair.first_query : nullptr;
  // First visible positions never decrease, so that of the last query is the greatest.
  const bool hides_start = first != nullptr && first[queries - 1] > pair.first_key;
  if (!pair.crosses_diagonal() && !hides_start) return;
  // A key is seen by the queries [begin, end): those before come before it, and those after belong
  // to later documents. `end` only grows, because first visible positions never decrease.
  int64_t end = hides_start ? 0 : queries;
  for (int64_t key = 0; key < pair.num_keys; ++key) {
    const int64_t position = pair.first_key + key;
    const int64_t begin = std::clamp<int64_t>(position - pair.first_query, 0, queries);
    while (end < queries && first[end] <= position) ++end;
    float* const row = block + key * queries;
    std::fill_n(row, begin, value);
    std::fill(row + std::max(begin, end), row + queries, value);
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
