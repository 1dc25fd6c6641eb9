#include "model/kernels/orthogonalize.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/check.h"

namespace braid {
namespace {

constexpr int kIterations = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// x [m, n] with m <= n, so that A is the smaller of the two products.
at::Tensor NewtonSchulz(const at::Tensor& matrix) {
  // The square of a small gradient may underflow, that of its ratio to the largest does not.
  at::Tensor x = matrix / matrix.abs().max();
  x.div_(x.norm());
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor a = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(a, a, a, kB, kC), x, kA, 1);
  }
  return x;
}

}  // namespace

void Orthogonalize(std::span<float> matrices, int64_t rows, int64_t columns) {
  const auto size = static_cast<size_t>(rows * columns);
  BRAID_CHECK(size > 0 && matrices.size() % size == 0) << matrices.size() << " " << size;
  const at::NoGradGuard no_gradients;
  for (; !matrices.empty(); matrices = matrices.subspan(size)) {
    at::Tensor matrix = at::from_blob(matrices.data(), {rows, columns}, at::kFloat);
    // A matrix of zeros, such as that of an expert without any tokens so far, would become 0 / 0.
    if (matrix.count_nonzero().item<int64_t>() == 0) continue;
    if (rows <= columns) {
      matrix.copy_(NewtonSchulz(matrix));
    } else {
      matrix.copy_(NewtonSchulz(matrix.t().contiguous()).t());
    }
  }
}

}  // namespace braid
