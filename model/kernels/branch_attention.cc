#include "model/kernels/branch_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace braid {
namespace {

// Queries per block, over all branches: enough for products to be efficient.
constexpr int64_t kBranchQueries = 256;

// Scores [H, C, n, m] of the last n of the m positions of a branch against all its m positions.
at::Tensor OwnScores(const at::Tensor& q, const at::Tensor& k) {
  const int64_t n = q.size(2), m = k.size(2);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3));
  if (n == 1) return scores;
  const at::Tensor mask =
      at::full({n, n}, -std::numeric_limits<double>::infinity(), q.options()).triu_(1);
  scores.narrow(3, m - n, n).add_(mask);
  return scores;
}

// Queries q [H, C, n, hd], own keys and values [H, C, m, hd] -> [H, C, n, hd].
at::Tensor AttendBlock(const at::Tensor& q, const at::Tensor& own_k, const at::Tensor& own_v,
                       const at::Tensor& k, const at::Tensor& v) {
  const int64_t heads = q.size(0), branches = q.size(1), n = q.size(2), m = own_k.size(2);
  const int64_t rows = branches * n, shared = k.size(1);
  const at::Tensor scores = at::cat({at::bmm(q.reshape({heads, rows, -1}), k.transpose(1, 2)),
                                     OwnScores(q, own_k).reshape({heads, rows, m})},
                                    2);
  const at::Tensor p = at::softmax(scores, 2);
  const at::Tensor own_p = p.narrow(2, shared, m).reshape({heads, branches, n, m});
  return at::matmul(own_p, own_v).add_(at::bmm(p.narrow(2, 0, shared), v).view(q.sizes()));
}

}  // namespace

at::Tensor BranchAttend(const RotatedHeads& branches, const at::Tensor& keys,
                        const at::Tensor& values) {
  const at::Tensor q = branches.q.transpose(0, 1), k = branches.k.transpose(0, 1),
                   v = branches.v.transpose(0, 1);  // [H, C, T, hd]
  const int64_t length = q.size(2), block = std::max<int64_t>(1, kBranchQueries / q.size(1));
  const at::Tensor out = at::empty(q.sizes(), q.options());
  for (int64_t start = 0; start < length; start += block) {
    const int64_t n = std::min(block, length - start), seen = start + n;
    out.narrow(2, start, n)
        .copy_(AttendBlock(q.narrow(2, start, n), k.narrow(2, 0, seen), v.narrow(2, 0, seen), keys,
                           values));
  }
  return out.permute({1, 2, 0, 3}).reshape({q.size(1), length, -1});
}

}  // namespace braid
