#include "model/kernels/product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/kernels/task_grain.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// For more tokens, the work is in the multiplications, which BLAS does faster.
constexpr int64_t kMostTokens = 8;
// Elements of a matrix that are added up apart.
constexpr int64_t kPartElements = int64_t{1} << 16;
constexpr int64_t kMostParts = 16;
constexpr int64_t kBlockRows = 16;

bool IsSingle(const at::Tensor& t) { return t.device().is_cpu() && t.scalar_type() == at::kFloat; }

bool HasFewTokens(const at::Tensor& x, const at::Tensor& matrix) {
  const bool needs_gradients =
      at::GradMode::is_enabled() && (x.requires_grad() || matrix.requires_grad());
  return x.size(0) >= 1 && x.size(0) <= kMostTokens && IsSingle(x) && IsSingle(matrix) &&
         !needs_gradients;
}

// Returns the products of x [T, K] with the rows of a contiguous matrix [N, K], in blocks of rows
// that do not depend on the number of threads.
at::Tensor ProductWithRows(const at::Tensor& x, const at::Tensor& rows) {
  const int64_t width = rows.size(1), count = rows.size(0);
  at::Tensor y = at::empty({x.size(0), count}, x.options());
  const float* const data = rows.data_ptr<float>();
  float* const out = y.data_ptr<float>();
  std::vector<const float*> tokens;
  for (int64_t t = 0; t < x.size(0); ++t) tokens.push_back(x.data_ptr<float>() + t * width);
  const int64_t blocks = (count + kBlockRows - 1) / kBlockRows;
  const int64_t grain = GrainOf(kTaskElements, width * kBlockRows);
  at::parallel_for(0, blocks, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kBlockRows, last = std::min(end * kBlockRows, count);
    Vector().dots_of_rows(data + first * width, last - first, width, tokens.data(), tokens.size(),
                          out + first, count);
  });
  return y;
}

// Returns x M for a contiguous M [K, N]: sums over parts of K, which depend on the shape alone.
at::Tensor SumOfRows(const at::Tensor& x, const at::Tensor& matrix) {
  const int64_t tokens = x.size(0), terms = matrix.size(0), width = matrix.size(1);
  const int64_t parts = std::clamp<int64_t>(matrix.numel() / kPartElements, 1, kMostParts);
  at::Tensor sums = at::empty({parts, tokens, width}, x.options());
  const float* const data = matrix.data_ptr<float>();
  const float* const values = x.data_ptr<float>();
  float* const out = sums.data_ptr<float>();
  const int64_t grain = GrainOf(kTaskElements, matrix.numel() / parts);
  at::parallel_for(0, parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * terms / parts, last = (part + 1) * terms / parts;
      std::vector<float*> rows;
      for (int64_t t = 0; t < tokens; ++t) rows.push_back(out + (part * tokens + t) * width);
      Vector().add_multiples(data + first * width, last - first, width, values + first, terms,
                             rows.size(), /*accumulate=*/false, rows.data());
    }
  });
  return parts == 1 ? sums[0] : sums.sum(0);
}

}  // namespace

at::Tensor Product(const at::Tensor& x, const at::Tensor& matrix) {
  if (HasFewTokens(x, matrix)) {
    if (matrix.t().is_contiguous()) return ProductWithRows(x.contiguous(), matrix.t());
    if (matrix.is_contiguous()) return SumOfRows(x.contiguous(), matrix);
  }
  return at::mm(x, matrix);
}

at::Tensor AddProduct(const at::Tensor& added, const at::Tensor& x, const at::Tensor& matrix) {
  return HasFewTokens(x, matrix) ? Product(x, matrix).add_(added) : at::addmm(added, x, matrix);
}

}  // namespace braid
