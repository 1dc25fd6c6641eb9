#include "model/kernels/cached_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

constexpr int64_t kMostNextTokens = 8;
// Elements of cached keys that are worth a task of their own.
constexpr int64_t kTaskKeys = int64_t{1} << 15;

// Rotates one head, pairs of elements j and j + half.
void RotateHead(const float* in, const float* cosine, const float* sine, int64_t half, float* out) {
  for (int64_t j = 0; j < half; ++j) {
    const float a = in[j], b = in[half + j];
    out[j] = a * cosine[j] - b * sine[j];
    out[half + j] = b * cosine[j] + a * sine[j];
  }
}

// Replaces scores by their softmax. An undefined score makes all of them undefined.
void SoftmaxInPlace(std::span<float> scores, std::vector<float>* shift) {
  float maximum = scores[0];
  bool defined = true;
  for (const float score : scores) {
    maximum = std::max(maximum, score);
    defined = defined && std::isfinite(score);
  }
  if (!defined) {
    std::ranges::fill(scores, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  shift->assign(scores.size(), maximum);
  Vector().exp_shifted(scores.data(), shift->data(), 1, scores.size());
  float sum = 0;
  for (const float score : scores) sum += score;
  for (float& score : scores) score /= sum;
}

// The products of one token at `position` with a cache in memory.
class NextToken {
 public:
  NextToken(const float* qkv, const AttentionTables& tables, const KeyValueCache& cache,
            int64_t position)
      : qkv_(qkv),
        heads_(tables.heads),
        length_(cache.keys.size(1)),
        position_(position),
        half_(heads_.width / 2),
        cosine_(tables.cosine.data_ptr<float>()),
        sine_(tables.sine.data_ptr<float>()),
        table_size_(tables.cosine.size(3) * half_),
        keys_(cache.keys.data_ptr<float>()),
        values_(cache.values.data_ptr<float>()) {}

  // Appends what key head `head` keeps of the token.
  void Append(int64_t head) const {
    const float* const key = qkv_ + heads_.query_width() + head * heads_.width;
    const int64_t at = (head * length_ + position_) * heads_.width;
    RotateHead(key, cosine_ + table_size_ + position_ * half_,
               sine_ + table_size_ + position_ * half_, half_, keys_ + at);
    std::copy_n(key + heads_.key_value_width(), heads_.width, values_ + at);
  }

  // Writes the outputs of the query heads of key head `head`, which sees the positions from `first`
  // to its own.
  void Attend(int64_t head, int64_t first, float* out) const {
    const int64_t group = heads_.group(), seen = position_ + 1 - first;
    std::vector<float> queries(group * heads_.width), scores(group * seen), shift;
    std::vector<const float*> query_rows;
    std::vector<float*> out_rows;
    for (int64_t g = 0; g < group; ++g) {
      const int64_t query = head * group + g;
      float* const rotated = queries.data() + g * heads_.width;
      RotateHead(qkv_ + query * heads_.width, cosine_ + position_ * half_,
                 sine_ + position_ * half_, half_, rotated);
      query_rows.push_back(rotated);
      out_rows.push_back(out + query * heads_.width);
    }
    const int64_t at = (head * length_ + first) * heads_.width;
    Vector().dots_of_rows(keys_ + at, seen, heads_.width, query_rows.data(), query_rows.size(),
                          scores.data(), seen);
    for (int64_t g = 0; g < group; ++g) {
      SoftmaxInPlace(std::span(scores).subspan(g * seen, seen), &shift);
    }
    Vector().add_multiples(values_ + at, seen, heads_.width, scores.data(), seen, out_rows.size(),
                           /*accumulate=*/false, out_rows.data());
  }

 private:
  const float* const qkv_;
  const AttentionHeads heads_;
  const int64_t length_, position_, half_;
  const float *const cosine_, *const sine_;
  const int64_t table_size_;
  float *const keys_, *const values_;
};

at::Tensor AttendInMemory(const at::Tensor& qkv, const AttentionTables& tables,
                          const KeyValueCache& cache) {
  const AttentionHeads& heads = tables.heads;
  at::Tensor out = at::empty({qkv.size(0), heads.query_width()}, qkv.options());
  const float* const rows = qkv.data_ptr<float>();
  float* const outputs = out.data_ptr<float>();
  const int32_t* const first = cache.first.defined() ? cache.first.data_ptr<int32_t>() : nullptr;
  const int64_t keys_of_head = (cache.position + 1 - cache.begin) * heads.width;
  const int64_t grain = std::max<int64_t>(kTaskKeys / keys_of_head, 1);
  at::parallel_for(0, heads.key_value, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < qkv.size(0); ++t) {
      const NextToken token(rows + t * heads.qkv_width(), tables, cache, cache.position + t);
      for (int64_t head = begin; head < end; ++head) {
        token.Append(head);
        token.Attend(head, cache.begin + (first == nullptr ? 0 : first[t]),
                     outputs + t * heads.query_width());
      }
    }
  });
  return out;
}

}  // namespace

at::Tensor AttendToCache(const at::Tensor& qkv, const AttentionTables& tables,
                         const KeyValueCache& cache) {
  const int64_t count = qkv.size(0), seen = cache.position + count - cache.begin;
  if (count <= kMostNextTokens && qkv.device().is_cpu() && qkv.scalar_type() == at::kFloat) {
    return AttendInMemory(qkv.contiguous(), tables, cache);
  }
  const RotatedHeads heads = RotateHeads(qkv.unsqueeze(0), tables, cache.position);
  cache.keys.narrow(1, cache.position, count).copy_(heads.k[0]);
  cache.values.narrow(1, cache.position, count).copy_(heads.v[0]);
  return CausalAttend(heads.q[0], cache.keys.narrow(1, cache.begin, seen),
                      cache.values.narrow(1, cache.begin, seen),
                      cache.first.defined() ? cache.first.unsqueeze(0) : cache.first)
      .transpose(0, 1)
      .reshape({count, -1});
}

}  // namespace braid
