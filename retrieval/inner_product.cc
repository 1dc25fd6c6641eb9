#include "retrieval/inner_product.h"

namespace braid {

float InnerProduct(const float* a, const float* b, int32_t d) {
  // Sixteen independent sums let the compiler use vector instructions without
  // reordering any addition.
  constexpr int32_t kLanes = 16;
  float sums[kLanes] = {};
  int32_t i = 0;
  for (; i + kLanes <= d; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int32_t lane = 0; i < d; ++i, ++lane) sums[lane] += a[i] * b[i];
  for (int32_t width = kLanes / 2; width > 0; width /= 2) {
    for (int32_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

}  // namespace braid
