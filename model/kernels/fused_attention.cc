#include "model/kernels/fused_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/token_panels.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

constexpr int64_t kQueries = kPanelTokens;
constexpr int64_t kKeys = 128;
// Stands for minus infinity in masked scores. It is finite, so that the difference of two masked
// scores is 0 and not NaN.
constexpr float kNever = -1e30f;

// The rows of one head of one sequence inside a larger array; `stride` is the distance of two rows
// in floats.
struct HeadRows {
  int64_t stride;
  int64_t offset;
};

class HeadLayout {
 public:
  explicit HeadLayout(const AttentionShape& shape) : shape_(shape) {}

  int64_t num_heads() const { return shape_.batch * shape_.num_heads; }
  // `part` is 0 for queries, 1 for keys, 2 for values.
  HeadRows InQkv(int64_t head, int64_t part) const {
    const int64_t b = head / shape_.num_heads, h = head % shape_.num_heads, d = shape_.width();
    return {3 * d, b * shape_.length * 3 * d + part * d + h * shape_.head_width};
  }
  HeadRows InOutput(int64_t head) const {
    const int64_t b = head / shape_.num_heads, h = head % shape_.num_heads, d = shape_.width();
    return {d, b * shape_.length * d + h * shape_.head_width};
  }

 private:
  const AttentionShape shape_;
};

// Rotates `count` rows of a head by the angles in the tables; direction -1 inverts the rotation.
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

// Converts [rows, width] to consecutive panels of columns.
void RowsToPanels(const float* rows, int64_t count, int64_t width, float* panels) {
  for (int64_t first = 0; first < count; first += kPanelTokens) {
    ToColumns(rows + first * width, std::min(kPanelTokens, count - first), width,
              panels + first * width);
  }
}

// The scores of a block of keys against a block of queries.
struct BlockPair {
  int64_t first_query, num_queries;
  int64_t first_key, num_keys;

  bool crosses_diagonal() const { return first_key + num_keys > first_query + 1; }
};

// Sets the entries of block [keys, queries] whose key comes after the query to `value`.
void Mask(const BlockPair& pair, float value, float* block) {
  if (!pair.crosses_diagonal()) return;
  for (int64_t key = 0; key < pair.num_keys; ++key) {
    const int64_t hidden = pair.first_key + key - pair.first_query;
    const int64_t count = std::clamp<int64_t>(hidden, 0, pair.num_queries);
    std::fill_n(block + key * pair.num_queries, count, value);
  }
}

// Computes scores [keys, queries] = k [keys, hd] * q [hd, queries].
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

// The forward pass. Phase 1 rotates and rearranges each head; phase 2 processes blocks of 64
// queries against blocks of 128 keys. With scores held as [keys, queries], queries are adjacent in
// memory: every step of the softmax works on whole vectors of queries and needs no horizontal
// reduction.
//
// For each query, over the key blocks in order:
//   m' = max(m, max s),  c = exp(m - m')
//   denominator = c * denominator + sum exp(s - m')
//   sums = c * sums + v^T exp(s - m')
// and finally out = sums / denominator, log_sum = m + log(denominator). Key 0 is visible to every
// query, so m is a real score after the first block and masked entries contribute exp(kNever - m) =
// 0.
class AttentionForward {
 public:
  AttentionForward(const AttentionShape& shape, const RotaryTables& tables, const float* qkv,
                   float* out, float* log_sums)
      : shape_(shape), tables_(tables), layout_(shape), qkv_(qkv), out_(out), log_sums_(log_sums) {}

  void Run(int num_threads) {
    const int64_t size = layout_.num_heads() * head_size();
    const int64_t block_size = (kKeys + shape_.head_width + 3) * kQueries;
    Scratch scratch(3 * size + num_threads * (block_size + head_size()) + 8 * Scratch::kPadding);
    q_columns_ = scratch.Take(size);
    k_ = scratch.Take(size);
    v_ = scratch.Take(size);
    float* const rows = scratch.Take(num_threads * head_size());
    float* const blocks = scratch.Take(num_threads * block_size);
#pragma omp parallel num_threads(num_threads)
    {
      const int thread = omp_get_thread_num();
#pragma omp for schedule(static)
      for (int64_t head = 0; head < layout_.num_heads(); ++head) {
        Prepare(head, rows + thread * head_size());
      }
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
  int64_t head_size() const { return shape_.length * shape_.head_width; }

  void Prepare(int64_t head, float* rows) {
    const int64_t hd = shape_.head_width, length = shape_.length;
    const HeadRows q = layout_.InQkv(head, 0), k = layout_.InQkv(head, 1),
                   v = layout_.InQkv(head, 2);
    RotateRows(qkv_ + q.offset, q.stride, tables_.query_cosine, tables_.query_sine, 1, length, hd,
               rows, hd);
    RowsToPanels(rows, length, hd, q_columns_ + head * head_size());
    RotateRows(qkv_ + k.offset, k.stride, tables_.key_cosine, tables_.key_sine, 1, length, hd,
               k_ + head * head_size(), hd);
    CopyRows(qkv_ + v.offset, v.stride, length, hd, v_ + head * head_size(), hd);
  }

  void AttendBlock(int64_t head, int64_t block, float* memory) const {
    const int64_t hd = shape_.head_width, first = block * kQueries;
    const int64_t queries = std::min(kQueries, shape_.length - first);
    float* const scores = memory;
    float* const sums = scores + kKeys * kQueries;  // [hd, queries]
    float* const maximum = sums + hd * kQueries;
    float* const denominator = maximum + kQueries;
    float* const correction = denominator + kQueries;
    std::fill_n(sums, hd * queries, 0.0f);
    std::fill_n(maximum, queries, kNever);
    std::fill_n(denominator, queries, 0.0f);
    for (int64_t key = 0; key < first + queries; key += kKeys) {
      const BlockPair pair{first, queries, key, std::min(kKeys, first + queries - key)};
      Scores(pair, hd, k_ + head * head_size(), q_columns_ + head * head_size() + first * hd,
             scores);
      Mask(pair, kNever, scores);
      Vector().softmax_block(scores, maximum, denominator, correction, pair.num_keys, queries);
      Vector().scale_columns(sums, correction, hd, queries);
      AddValues(pair, v_ + head * head_size(), scores, sums);
    }
    Finish(head, first, queries, sums, maximum, denominator, correction);
  }

  // sums [hd, queries] += v [keys, hd]^T p [keys, queries].
  void AddValues(const BlockPair& pair, const float* v, const float* p, float* sums) const {
    const int64_t hd = shape_.head_width;
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
    Vector().scale_columns(sums, reciprocal, shape_.head_width, queries);
    const HeadRows place = layout_.InOutput(head);
    Vector().transpose(sums, queries, shape_.head_width, queries,
                       out_ + place.offset + first * place.stride, place.stride);
  }

  const AttentionShape shape_;
  const RotaryTables tables_;
  const HeadLayout layout_;
  const float* const qkv_;
  float* const out_;
  float* const log_sums_;
  float* q_columns_ = nullptr;  // per head: panels [hd, queries]
  float* k_ = nullptr;          // per head: [L, hd]
  float* v_ = nullptr;
};

// The backward pass of one head, run by a single thread. dk and dv are sums over queries, and dq is
// a sum over keys; with a head per thread they need no atomics, and their order is fixed.
//
// For a block pair, with scores s [keys, queries] recomputed from q and k:
//   p = exp(s - log_sum)               the saved log_sum makes a second running softmax unnecessary
//   dp = v dout^T
//   ds = p * (dp - delta),             delta[q] = <dout_q, out_q> = sum_k p dp
//   dv += p dout,  dk += ds q,  dq += ds^T k
// delta comes from the outputs (FlashAttention, arXiv 2205.14135, appendix B.4), so no pass over
// all keys is needed before ds.
class HeadBackward {
 public:
  static constexpr int64_t kArrays = 9;

  // Returns the number of floats of memory that a head needs.
  static int64_t MemorySize(const AttentionShape& shape) {
    return kArrays * shape.length * shape.head_width + shape.length + 2 * kKeys * kQueries;
  }

  HeadBackward(const AttentionShape& shape, const RotaryTables& tables, float* memory)
      : shape_(shape), tables_(tables), size_(shape.length * shape.head_width) {
    q_ = memory;
    q_columns_ = q_ + size_;
    k_ = q_columns_ + size_;
    v_ = k_ + size_;
    dout_ = v_ + size_;
    dout_columns_ = dout_ + size_;
    dq_ = dout_columns_ + size_;
    dk_ = dq_ + size_;
    dv_ = dk_ + size_;
    delta_ = dv_ + size_;
    p_ = delta_ + shape.length;
    dscores_ = p_ + kKeys * kQueries;
  }

  void Run(int64_t head, const float* qkv, const float* out, const float* log_sums,
           const float* dout, float* dqkv) {
    Load(head, qkv, out, dout);
    std::fill_n(dq_, 3 * size_, 0.0f);
    for (int64_t key = 0; key < shape_.length; key += kKeys) {
      const int64_t num_keys = std::min(kKeys, shape_.length - key);
      for (int64_t query = key / kQueries * kQueries; query < shape_.length; query += kQueries) {
        AddPair({query, std::min(kQueries, shape_.length - query), key, num_keys},
                log_sums + head * shape_.length);
      }
    }
    Store(head, dqkv);
  }

 private:
  void Load(int64_t head, const float* qkv, const float* out, const float* dout) {
    const HeadLayout layout(shape_);
    const int64_t hd = shape_.head_width, length = shape_.length;
    const HeadRows q = layout.InQkv(head, 0), k = layout.InQkv(head, 1), v = layout.InQkv(head, 2),
                   o = layout.InOutput(head);
    RotateRows(qkv + q.offset, q.stride, tables_.query_cosine, tables_.query_sine, 1, length, hd,
               q_, hd);
    RotateRows(qkv + k.offset, k.stride, tables_.key_cosine, tables_.key_sine, 1, length, hd, k_,
               hd);
    CopyRows(qkv + v.offset, v.stride, length, hd, v_, hd);
    CopyRows(dout + o.offset, o.stride, length, hd, dout_, hd);
    RowsToPanels(q_, length, hd, q_columns_);
    RowsToPanels(dout_, length, hd, dout_columns_);
    for (int64_t row = 0; row < length; ++row) {
      delta_[row] = Vector().dot(dout_ + row * hd, out + o.offset + row * o.stride, hd);
    }
  }

  void AddPair(const BlockPair& pair, const float* log_sums) {
    const int64_t hd = shape_.head_width;
    const int64_t queries = pair.first_query * hd, keys = pair.first_key * hd;
    Scores(pair, hd, k_, q_columns_ + queries, p_);
    // The mask is applied after the exponential: exp(s - log_sum) of a hidden key may be any value,
    // including infinity, and is overwritten with 0.
    Vector().exp_shifted(p_, log_sums + pair.first_query, pair.num_keys, pair.num_queries);
    Mask(pair, 0, p_);
    Scores(pair, hd, v_, dout_columns_ + queries, dscores_);
    Vector().softmax_backward(p_, dscores_, delta_ + pair.first_query, pair.num_keys,
                              pair.num_queries);
    AddKeyGradient(pair, p_, dout_ + queries, dv_ + keys);
    AddKeyGradient(pair, dscores_, q_ + queries, dk_ + keys);
    AddQueryGradient(pair, dscores_, k_ + keys, dq_ + queries);
  }

  // out [keys, hd] += block [keys, queries] rows [queries, hd].
  void AddKeyGradient(const BlockPair& pair, const float* block, const float* rows,
                      float* out) const {
    const int64_t hd = shape_.head_width;
    const SmallGemm product({.rows = pair.num_keys,
                             .columns = hd,
                             .depth = pair.num_queries,
                             .left_stride = pair.num_queries,
                             .right_stride = hd,
                             .out_stride = hd,
                             .accumulate = true});
    product(block, rows, out);
  }

  // out [queries, hd] += block [keys, queries]^T rows [keys, hd].
  void AddQueryGradient(const BlockPair& pair, const float* block, const float* rows,
                        float* out) const {
    const int64_t hd = shape_.head_width;
    const SmallGemm product({.rows = pair.num_queries,
                             .columns = hd,
                             .depth = pair.num_keys,
                             .left_stride = pair.num_queries,
                             .right_stride = hd,
                             .out_stride = hd,
                             .left_transposed = true,
                             .accumulate = true});
    product(block, rows, out);
  }

  void Store(int64_t head, float* dqkv) const {
    const HeadLayout layout(shape_);
    const int64_t hd = shape_.head_width, length = shape_.length;
    const HeadRows q = layout.InQkv(head, 0), k = layout.InQkv(head, 1), v = layout.InQkv(head, 2);
    RotateRows(dq_, hd, tables_.query_cosine, tables_.query_sine, -1, length, hd, dqkv + q.offset,
               q.stride);
    RotateRows(dk_, hd, tables_.key_cosine, tables_.key_sine, -1, length, hd, dqkv + k.offset,
               k.stride);
    CopyRows(dv_, hd, length, hd, dqkv + v.offset, v.stride);
  }

  const AttentionShape shape_;
  const RotaryTables tables_;
  const int64_t size_;
  float *q_, *q_columns_, *k_, *v_, *dout_, *dout_columns_;
  float *dq_, *dk_, *dv_;  // adjacent: Run clears them together
  float *delta_, *p_, *dscores_;
};

}  // namespace

bool HasFusedAttention() { return HasSmallGemm(); }

void FusedAttentionForward(const AttentionShape& shape, const RotaryTables& tables,
                           const float* qkv, float* out, float* log_sums, int num_threads) {
  AttentionForward(shape, tables, qkv, out, log_sums).Run(num_threads);
}

void FusedAttentionBackward(const AttentionShape& shape, const RotaryTables& tables,
                            const float* qkv, const float* out, const float* log_sums,
                            const float* dout, float* dqkv, int num_threads) {
  const int64_t num_heads = shape.batch * shape.num_heads;
  const int threads = static_cast<int>(std::min<int64_t>(num_threads, num_heads));
  const int64_t size = HeadBackward::MemorySize(shape);
  Scratch scratch(threads * size + Scratch::kPadding);
  float* const memory = scratch.Take(threads * size);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t head = 0; head < num_heads; ++head) {
    HeadBackward(shape, tables, memory + omp_get_thread_num() * size)
        .Run(head, qkv, out, log_sums, dout, dqkv);
  }
}

}  // namespace braid
