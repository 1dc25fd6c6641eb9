#include "model/kernels/fused_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "model/kernels/attention_blocks.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// Stands for minus infinity in masked scores. It is finite, so that the difference of two masked
// scores is 0 and not NaN.
constexpr float kNever = -1e30f;
// The first block of keys begins at a multiple of this, wherever documents begin, so that there are
// few different products: each shape needs a kernel of its own (small_gemm.h).
constexpr int64_t kKeyStep = 16;

// The forward pass. Phase 1 rotates and rearranges each head; phase 2 processes blocks of 64
// queries against blocks of 128 keys. With scores held as [keys, queries], queries are adjacent in
// memory: every step of the softmax works on whole vectors of queries and needs no horizontal
// reduction.
//
// For each query, over the key blocks in order:
//   m' = max(m, max s),  c = exp(m - m')
//   denominator = c * denominator + sum exp(s - m')
//   sums = c * sums + v^T exp(s - m')
// and finally out = sums / denominator, log_sum = m + log(denominator). Masked entries contribute
// exp(kNever - m) = 0 once m is a real score. In blocks that a query does not see at all m may
// still be kNever; what they have added is then multiplied by c = 0 when the first real score
// comes, at the latest that of the query's own position.
class AttentionForward {
 public:
  AttentionForward(const AttentionShape& shape, const RotaryTables& tables, const float* qkv,
                   float* out, float* log_sums)
      : shape_(shape), tables_(tables), layout_(shape), qkv_(qkv), out_(out), log_sums_(log_sums) {}

  void Run(int num_threads) {
    const int64_t size = layout_.num_heads() * head_size();
    const int64_t key_size = layout_.num_key_heads() * head_size();
    const int64_t block_size = (kKeys + shape_.heads.width + 3) * kQueries;
    Scratch scratch(size + 2 * key_size + num_threads * (block_size + head_size()) +
                    8 * Scratch::kPadding);
    q_columns_ = scratch.Take(size);
    k_ = scratch.Take(key_size);
    v_ = scratch.Take(key_size);
    float* const rows = scratch.Take(num_threads * head_size());
    float* const blocks = scratch.Take(num_threads * block_size);
#pragma omp parallel num_threads(num_threads)
    {
      const int thread = omp_get_thread_num();
      // No barrier here: the one after the next loop covers both.
#pragma omp for schedule(static) nowait
      for (int64_t head = 0; head < layout_.num_heads(); ++head) {
        PrepareQueries(head, rows + thread * head_size());
      }
#pragma omp for schedule(static)
      for (int64_t head = 0; head < layout_.num_key_heads(); ++head) PrepareKeys(head);
      const int64_t per_head = (shape_.length + kQueries - 1) / kQueries;
      // Late queries see the most keys, so their blocks are started first: the dynamic schedule
      // then ends with short tasks. A task writes only its own rows, so the order has no influence
      // on results.
#pragma omp for schedule(dynamic)
      for (int64_t task = 0; task < layout_.num_heads() * per_head; ++task) {
        AttendBlock(task % layout_.num_heads(), per_head - 1 - task / layout_.num_heads(),
                    blocks + thread * block_size);
      }
    }
  }

 private:
  int64_t head_size() const { return shape_.length * shape_.heads.width; }

  void PrepareQueries(int64_t head, float* rows) {
    const int64_t hd = shape_.heads.width, length = shape_.length;
    const HeadRows q = layout_.Query(head);
    RotateRows(qkv_ + q.offset, q.stride, tables_.query_cosine, tables_.query_sine, 1, length, hd,
               rows, hd);
    RowsToPanels(rows, length, hd, q_columns_ + head * head_size());
  }

  void PrepareKeys(int64_t head) {
    const int64_t hd = shape_.heads.width, length = shape_.length;
    const HeadRows k = layout_.Key(head), v = layout_.Value(head);
    RotateRows(qkv_ + k.offset, k.stride, tables_.key_cosine, tables_.key_sine, 1, length, hd,
               k_ + head * head_size(), hd);
    CopyRows(qkv_ + v.offset, v.stride, length, hd, v_ + head * head_size(), hd);
  }

  void AttendBlock(int64_t head, int64_t block, float* memory) const {
    const int64_t hd = shape_.heads.width, first = block * kQueries;
    const int64_t queries = std::min(kQueries, shape_.length - first);
    const int64_t keys = layout_.KeyHeadOf(head) * head_size();
    float* const scores = memory;
    float* const sums = scores + kKeys * kQueries;  // [hd, queries]
    float* const maximum = sums + hd * kQueries;
    float* const denominator = maximum + kQueries;
    float* const correction = denominator + kQueries;
    std::fill_n(sums, hd * queries, 0.0f);
    std::fill_n(maximum, queries, kNever);
    std::fill_n(denominator, queries, 0.0f);
    const int32_t* const first_visible = layout_.FirstVisible(head);
    // First visible positions never decrease, so no query of the block sees an earlier key. The
    // mask covers the keys that rounding down adds.
    int64_t key = first_visible ? first_visible[first] / kKeyStep * kKeyStep : 0;
    for (; key < first + queries; key += kKeys) {
      const BlockPair pair{first, queries, key, std::min(kKeys, first + queries - key)};
      Scores(pair, hd, k_ + keys, q_columns_ + head * head_size() + first * hd, scores);
      Mask(pair, first_visible, kNever, scores);
      Vector().softmax_block(scores, maximum, denominator, correction, pair.num_keys, queries);
      Vector().scale_columns(sums, correction, hd, queries);
      AddValues(pair, v_ + keys, scores, sums);
    }
    Finish(head, first, queries, sums, maximum, denominator, correction);
  }

  // sums [hd, queries] += v [keys, hd]^T p [keys, queries].
  void AddValues(const BlockPair& pair, const float* v, const float* p, float* sums) const {
    const int64_t hd = shape_.heads.width;
    const SmallGemm product({.rows = hd,
                             .columns = pair.num_queries,
                             .depth = pair.num_keys,
                             .left_stride = hd,
                             .right_stride = pair.num_queries,
                             .out_stride = pair.num_queries,
                             .left_transposed = true,
                             .accumulate = true});
    product(v + pair.first_key * hd, p, sums);
  }

  void Finish(int64_t head, int64_t first, int64_t queries, float* sums, const float* maximum,
              const float* denominator, float* reciprocal) const {
    for (int64_t q = 0; q < queries; ++q) {
      reciprocal[q] = 1 / denominator[q];
      log_sums_[head * shape_.length + first + q] = maximum[q] + std::log(denominator[q]);
    }
    Vector().scale_columns(sums, reciprocal, shape_.heads.width, queries);
    const HeadRows place = layout_.InOutput(head);
    Vector().transpose(sums, queries, shape_.heads.width, queries,
                       out_ + place.offset + first * place.stride, place.stride);
  }

  const AttentionShape shape_;
  const RotaryTables tables_;
  const HeadLayout layout_;
  const float* const qkv_;
  float* const out_;
  float* const log_sums_;
  float* q_columns_ = nullptr;  // per query head: panels [hd, queries]
  float* k_ = nullptr;          // per key head: [L, hd]
  float* v_ = nullptr;          // per key head: [L, hd]
};

}  // namespace

bool HasFusedAttention() { return HasSmallGemm(); }

void FusedAttentionForward(const AttentionShape& shape, const RotaryTables& tables,
                           const float* qkv, float* out, float* log_sums, int num_threads) {
  AttentionForward(shape, tables, qkv, out, log_sums).Run(num_threads);
}

}  // namespace braid
