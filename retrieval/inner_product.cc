#include "retrieval/inner_product.h"

// Newer processors use wider registers, but not fused multiply-add, which would round differently:
// the bits are the same on every machine. Not under sanitizers, whose run time is not initialized
// when the loader chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(BRAID_ASAN) && !defined(BRAID_TSAN)
#define BRAID_AVX2_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define BRAID_AVX2_CLONES
#endif

namespace braid {

BRAID_AVX2_CLONES float InnerProduct(const float* a, const float* b, int32_t d) {
  // Sixteen independent sums let the compiler use vector instructions without reordering additions.
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
