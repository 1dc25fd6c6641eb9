#include "trainer/gradient_clip.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace braid {
namespace {

// Elements per partial sum. Fixed blocks, not a share per thread, make the order of the sum
// independent of the number of threads.
constexpr int64_t kGradientClipBlock = 1 << 16;

double BlockSum(std::span<const float> values) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

}  // namespace

double SumOfSquares(std::span<const float> gradients) {
  const int64_t size = static_cast<int64_t>(gradients.size());
  const int64_t blocks = (size + kGradientClipBlock - 1) / kGradientClipBlock;
  std::vector<double> sums(blocks);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; ++b) {
    sums[b] = BlockSum(gradients.subspan(
        b * kGradientClipBlock, std::min(kGradientClipBlock, size - b * kGradientClipBlock)));
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

double GlobalNorm(std::span<const float> gradients) { return std::sqrt(SumOfSquares(gradients)); }

double ClipFactor(double norm, double limit) {
  if (!(limit > 0)) return 1.0;
  // The small constant is that of PyTorch's clip_grad_norm_.
  return std::min(1.0, limit / (norm + 1e-6));
}

}  // namespace braid
