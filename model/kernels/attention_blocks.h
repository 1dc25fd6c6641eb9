// The parts that the forward and backward passes of fused_attention.h share: where heads lie in an
// array, and products and masks of a block of keys and queries. Private to kernels/.
#ifndef BRAID_MODEL_KERNELS_ATTENTION_BLOCKS_H_
#define BRAID_MODEL_KERNELS_ATTENTION_BLOCKS_H_

#include <cstdint>

#include "model/kernels/fused_attention.h"
#include "model/kernels/token_panels.h"

namespace braid {

// Queries and keys of a block.
constexpr int64_t kQueries = kPanelTokens;
constexpr int64_t kKeys = 128;

// The rows of one head of one sequence inside a larger array; `stride` is the distance of two rows
// in floats.
struct HeadRows {
  int64_t stride;
  int64_t offset;
};

// Where the heads of a batch lie in the arrays qkv [B, L, (H + 2 Hkv) hd] and output [B, L, H hd].
// Query heads are numbered over all sequences, 0 .. B H - 1, and key heads 0 .. B Hkv - 1; a value
// head has the number of its key head.
class HeadLayout {
 public:
  explicit HeadLayout(const AttentionShape& shape) : shape_(shape) {}

  int64_t num_heads() const { return shape_.batch * shape_.heads.query; }
  int64_t num_key_heads() const { return shape_.batch * shape_.heads.key_value; }
  int64_t KeyHeadOf(int64_t head) const { return head / shape_.heads.group(); }

  HeadRows Query(int64_t head) const { return InQkv(head, shape_.heads.query, 0); }
  HeadRows Key(int64_t key_head) const {
    return InQkv(key_head, shape_.heads.key_value, shape_.heads.query_width());
  }
  HeadRows Value(int64_t key_head) const {
    const AttentionHeads& heads = shape_.heads;
    return InQkv(key_head, heads.key_value, heads.query_width() + heads.key_value_width());
  }
  // [L], or null: the first visible positions of the sequence of a query head.
  const int32_t* FirstVisible(int64_t head) const {
    if (shape_.first_visible == nullptr) return nullptr;
    return shape_.first_visible + head / shape_.heads.query * shape_.length;
  }
  HeadRows InOutput(int64_t head) const {
    return RowsOf(head, shape_.heads.query, shape_.heads.query_width(), 0);
  }

 private:
  HeadRows InQkv(int64_t head, int64_t per_sequence, int64_t first_column) const {
    return RowsOf(head, per_sequence, shape_.heads.qkv_width(), first_column);
  }
  HeadRows RowsOf(int64_t head, int64_t per_sequence, int64_t stride, int64_t first_column) const {
    const int64_t b = head / per_sequence, h = head % per_sequence;
    return {stride, b * shape_.length * stride + first_column + h * shape_.heads.width};
  }

  const AttentionShape shape_;
};

// Rotates `count` rows [head_width] of a head by the angles whose cosines and sines the tables
// [count, head_width / 2] hold (RoPE, arXiv 2104.09864, section 3.2); direction -1 inverts the
// rotation. Strides are in floats.
void RotateRows(const float* in, int64_t in_stride, const float* cosine, const float* sine,
                float direction, int64_t count, int64_t head_width, float* out, int64_t out_stride);

// Copies `count` rows [width]. Strides are in floats.
void CopyRows(const float* in, int64_t in_stride, int64_t count, int64_t width, float* out,
              int64_t out_stride);

// Converts [rows, width] to consecutive panels of columns.
void RowsToPanels(const float* rows, int64_t count, int64_t width, float* panels);

// The scores of a block of keys against a block of queries.
struct BlockPair {
  int64_t first_query, num_queries;
  int64_t first_key, num_keys;

  bool crosses_diagonal() const { return first_key + num_keys > first_query + 1; }
};

// Sets the entries of block [keys, queries] whose key comes after the query, or before the first
// position that the query sees, to `value`. first_visible: [L], or null.
void Mask(const BlockPair& pair, const int32_t* first_visible, float value, float* block);

// Computes scores [keys, queries] = k [keys, hd] * q [hd, queries].
void Scores(const BlockPair& pair, int64_t head_width, const float* k, const float* q_columns,
            float* scores);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ATTENTION_BLOCKS_H_
