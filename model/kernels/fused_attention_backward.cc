#include <omp.h>

#include <algorithm>

#include "model/kernels/attention_blocks.h"
#include "model/kernels/fused_attention.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// The backward pass of one query head, run by a single thread. dk and dv are sums over queries, and
// dq is a sum over keys; with a head per thread they need no atomics, and their order is fixed.
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
  static constexpr int64_t kArrays = 7;

  // Returns the number of floats of memory that a head needs.
  static int64_t MemorySize(const AttentionShape& shape) {
    return kArrays * shape.length * shape.heads.width + shape.length + 2 * kKeys * kQueries;
  }

  HeadBackward(const AttentionShape& shape, const RotaryTables& tables, float* memory)
      : shape_(shape), tables_(tables), layout_(shape), size_(shape.length * shape.heads.width) {
    q_ = memory;
    q_columns_ = q_ + size_;
    k_ = q_columns_ + size_;
    v_ = k_ + size_;
    dout_ = v_ + size_;
    dout_columns_ = dout_ + size_;
    dq_ = dout_columns_ + size_;
    delta_ = dq_ + size_;
    p_ = delta_ + shape.length;
    dscores_ = p_ + kKeys * kQueries;
  }

  // Writes the gradient of the queries to dqkv, and those of the rotated keys and of the values,
  // as far as they come from this head, to `dk` and `dv` [L, hd].
  void Run(int64_t head, const float* qkv, const float* out, const float* log_sums,
           const float* dout, float* dk, float* dv, float* dqkv) {
    dk_ = dk;
    dv_ = dv;
    first_visible_ = layout_.FirstVisible(head);
    Load(head, qkv, out, dout);
    for (float* const sums : {dq_, dk_, dv_}) std::fill_n(sums, size_, 0.0f);
    for (int64_t key = 0; key < shape_.length; key += kKeys) {
      const int64_t num_keys = std::min(kKeys, shape_.length - key);
      for (int64_t query = key / kQueries * kQueries; query < shape_.length; query += kQueries) {
        // This query sees none of the keys, nor do later ones: first visible positions never
        // decrease.
        if (first_visible_ != nullptr && first_visible_[query] >= key + num_keys) break;
        AddPair({query, std::min(kQueries, shape_.length - query), key, num_keys},
                log_sums + head * shape_.length);
      }
    }
    const HeadRows q = layout_.Query(head);
    RotateRows(dq_, shape_.heads.width, tables_.query_cosine, tables_.query_sine, -1, shape_.length,
               shape_.heads.width, dqkv + q.offset, q.stride);
  }

 private:
  void Load(int64_t head, const float* qkv, const float* out, const float* dout) {
    const int64_t hd = shape_.heads.width, length = shape_.length;
    const int64_t key_head = layout_.KeyHeadOf(head);
    const HeadRows q = layout_.Query(head), k = layout_.Key(key_head), v = layout_.Value(key_head),
                   o = layout_.InOutput(head);
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
    const int64_t hd = shape_.heads.width;
    const int64_t queries = pair.first_query * hd, keys = pair.first_key * hd;
    Scores(pair, hd, k_, q_columns_ + queries, p_);
    // The mask is applied after the exponential: exp(s - log_sum) of a hidden key may be any value,
    // also no number, and is overwritten with 0.
    Vector().exp_shifted(p_, log_sums + pair.first_query, pair.num_keys, pair.num_queries);
    Mask(pair, first_visible_, 0, p_);
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
    const int64_t hd = shape_.heads.width;
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
    const int64_t hd = shape_.heads.width;
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

  const AttentionShape shape_;
  const RotaryTables tables_;
  const HeadLayout layout_;
  const int64_t size_;
  float *q_, *q_columns_, *k_, *v_, *dout_, *dout_columns_, *dq_;
  float *dk_ = nullptr, *dv_ = nullptr;
  const int32_t* first_visible_ = nullptr;
  float *delta_, *p_, *dscores_;
};

// The backward pass of all heads. The key and value gradients of a group are the sum of those of
// its query heads, each computed on its own and added in ascending order, whichever way the work is
// divided: by groups, whose gradients then stay in cache, where they divide evenly over the
// threads; otherwise by query heads.
class AttentionBackward {
 public:
  AttentionBackward(const AttentionShape& shape, const RotaryTables& tables, const float* qkv,
                    const float* out, const float* log_sums, const float* dout, float* dqkv)
      : shape_(shape),
        tables_(tables),
        layout_(shape),
        qkv_(qkv),
        out_(out),
        log_sums_(log_sums),
        dout_(dout),
        dqkv_(dqkv) {}

  void Run(int num_threads) {
    const int threads = static_cast<int>(std::min<int64_t>(num_threads, layout_.num_heads()));
    if (group() == 1 || layout_.num_key_heads() % threads == 0) {
      RunGroups(threads);
    } else {
      RunHeads(threads);
    }
  }

 private:
  int64_t head_size() const { return shape_.length * shape_.heads.width; }
  int64_t pair_size() const { return 2 * head_size(); }  // dk [L, hd] and dv [L, hd]
  int64_t group() const { return shape_.heads.group(); }

  void RunGroups(int threads) {
    const int64_t size = HeadBackward::MemorySize(shape_);
    Scratch scratch(threads * (size + 2 * pair_size()) + 2 * Scratch::kPadding);
    float* const memory = scratch.Take(threads * size);
    float* const pairs = scratch.Take(threads * 2 * pair_size());
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t key_head = 0; key_head < layout_.num_key_heads(); ++key_head) {
      const int thread = omp_get_thread_num();
      float* const sum = pairs + thread * 2 * pair_size();
      float* const more = sum + pair_size();
      RunHead(key_head * group(), memory + thread * size, sum);
      for (int64_t member = 1; member < group(); ++member) {
        RunHead(key_head * group() + member, memory + thread * size, more);
        AddPair(more, sum);
      }
      Store(key_head, sum);
    }
  }

  void RunHeads(int threads) {
    const int64_t size = HeadBackward::MemorySize(shape_);
    Scratch scratch(threads * size + layout_.num_heads() * pair_size() + 2 * Scratch::kPadding);
    float* const memory = scratch.Take(threads * size);
    float* const pairs = scratch.Take(layout_.num_heads() * pair_size());
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
      for (int64_t head = 0; head < layout_.num_heads(); ++head) {
        RunHead(head, memory + omp_get_thread_num() * size, pairs + head * pair_size());
      }
      // The barrier of the loop above is needed: other threads may have computed heads of this
      // group.
#pragma omp for schedule(static)
      for (int64_t key_head = 0; key_head < layout_.num_key_heads(); ++key_head) {
        float* const sum = pairs + key_head * group() * pair_size();
        for (int64_t member = 1; member < group(); ++member) {
          AddPair(sum + member * pair_size(), sum);
        }
        Store(key_head, sum);
      }
    }
  }

  void RunHead(int64_t head, float* memory, float* pair) const {
    HeadBackward(shape_, tables_, memory)
        .Run(head, qkv_, out_, log_sums_, dout_, pair, pair + head_size(), dqkv_);
  }

  void AddPair(const float* more, float* sum) const {
    for (int64_t i = 0; i < pair_size(); ++i) sum[i] += more[i];
  }

  // Stores the gradients of a key head and its value head; dk [L, hd] is followed by dv [L, hd].
  void Store(int64_t key_head, const float* dk) const {
    const int64_t hd = shape_.heads.width, length = shape_.length;
    const HeadRows k = layout_.Key(key_head), v = layout_.Value(key_head);
    RotateRows(dk, hd, tables_.key_cosine, tables_.key_sine, -1, length, hd, dqkv_ + k.offset,
               k.stride);
    CopyRows(dk + head_size(), hd, length, hd, dqkv_ + v.offset, v.stride);
  }

  const AttentionShape shape_;
  const RotaryTables tables_;
  const HeadLayout layout_;
  const float *const qkv_, *const out_, *const log_sums_, *const dout_;
  float* const dqkv_;
};

}  // namespace

void FusedAttentionBackward(const AttentionShape& shape, const RotaryTables& tables,
                            const float* qkv, const float* out, const float* log_sums,
                            const float* dout, float* dqkv, int num_threads) {
  AttentionBackward(shape, tables, qkv, out, log_sums, dout, dqkv).Run(num_threads);
}

}  // namespace braid
