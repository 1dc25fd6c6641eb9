#include "model/kernels/branch_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace braid {
namespace {

// Queries per block, over all branches: enough for products to be efficient.
constexpr int64_t kBranchQueries = 256;

// A block of n queries of all branches: q [Hkv, C, group * n, hd], own keys and values
// [Hkv, C, m, hd], of which a query sees those up to its own position; the last n are the block's.
// first_visible [C, n] may be undefined.
struct BranchBlock {
  at::Tensor q, own_k, own_v;
  int64_t n;
  at::Tensor first_visible;
};

// Scores [Hkv, C * group * n, m] of the block against its branches' own positions.
at::Tensor OwnScores(const BranchBlock& block) {
  const int64_t n = block.n, m = block.own_k.size(2);
  at::Tensor scores = at::matmul(block.q, block.own_k.transpose(2, 3));
  if (n > 1) {
    const at::Tensor mask =
        at::full({n, n}, -std::numeric_limits<double>::infinity(), block.q.options()).triu_(1);
    scores.view({scores.size(0), -1, n, m}).narrow(3, m - n, n).add_(mask);
  }
  return scores.view({scores.size(0), -1, m});
}

// Hides the positions before the first that each query sees: scores [Hkv, C * group * n, P + m].
void HideBeforeDocument(const BranchBlock& block, const at::Tensor& scores) {
  const at::Tensor& first = block.first_visible;
  const int64_t count = first.size(0), positions = scores.size(2);
  const at::Tensor hidden =
      at::arange(positions, first.options()) < first.reshape({1, count, 1, block.n, 1});
  scores.view({scores.size(0), count, -1, block.n, positions})
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

// Attends to the shared keys and values [Hkv, P, hd] and the own ones: [Hkv, C, group * n, hd].
at::Tensor AttendBlock(const BranchBlock& block, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor& q = block.q;
  const int64_t heads = q.size(0), shared = k.size(1), m = block.own_k.size(2);
  const at::Tensor rows = q.reshape({heads, -1, q.size(3)});
  const at::Tensor scores = at::cat({at::bmm(rows, k.transpose(1, 2)), OwnScores(block)}, 2);
  if (block.first_visible.defined()) HideBeforeDocument(block, scores);
  const at::Tensor p = at::softmax(scores, 2);
  const at::Tensor own_p = p.narrow(2, shared, m).reshape({heads, q.size(1), q.size(2), m});
  return at::matmul(own_p, block.own_v).add_(at::bmm(p.narrow(2, 0, shared), v).view(q.sizes()));
}

}  // namespace

at::Tensor BranchAttend(const RotatedHeads& branches, const at::Tensor& keys,
                        const at::Tensor& values, const at::Tensor& first_visible) {
  const at::Tensor k = branches.k.transpose(0, 1), v = branches.v.transpose(0, 1);
  const int64_t count = k.size(1), heads = k.size(0), group = branches.q.size(1) / heads;
  const int64_t length = k.size(2), width = k.size(3);
  const at::Tensor q = branches.q.reshape({count, heads, group, length, width}).transpose(0, 1);
  const at::Tensor out = at::empty({heads, count, group, length, width}, q.options());
  const int64_t limit = std::max<int64_t>(1, kBranchQueries / count);
  for (int64_t start = 0; start < length; start += limit) {
    const int64_t n = std::min(limit, length - start), seen = start + n;
    const BranchBlock block{
        q.narrow(3, start, n).reshape({heads, count, group * n, width}), k.narrow(2, 0, seen),
        v.narrow(2, 0, seen), n,
        first_visible.defined() ? first_visible.narrow(1, start, n) : first_visible};
    const at::Tensor part = out.narrow(3, start, n);
    part.copy_(AttendBlock(block, keys, values).view(part.sizes()));
  }
  return out.permute({1, 3, 0, 2, 4}).reshape({count, length, -1});
}

}  // namespace braid
