#include "model/matrix_product_peak.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

namespace braid {

double MeasureMatrixProductPeak() {
  constexpr int64_t kExtent = 1024;
  constexpr double kFlops = 2.0 * kExtent * kExtent * kExtent;
  constexpr int kRuns = 4;
  const at::NoGradGuard no_gradients;
  const at::Tensor a = at::ones({kExtent, kExtent}, at::kFloat), b = at::ones_like(a);
  at::Tensor product = at::mm(a, b);  // warm-up: starts threads and touches memory
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(product, a, b);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, kFlops / 1e9 / std::max(elapsed.count(), 1e-9));
  }
  return best;
}

}  // namespace braid
