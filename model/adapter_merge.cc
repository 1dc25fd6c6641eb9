#include "model/adapter_merge.h"

#include <cstdint>

#include "base/check.h"

namespace braid {

void MergeAdapter(const AdapterSpec& spec, double scale, std::span<const float> a,
                  std::span<const float> b, std::span<float> weight) {
  const auto rank = static_cast<int64_t>(a.size()) / spec.in;
  BRAID_CHECK(static_cast<int64_t>(weight.size()) == spec.in * spec.out &&
              static_cast<int64_t>(b.size()) == spec.out * rank)
      << spec.matrix;
  const bool transposed = spec.matrix.ends_with("weight_t");
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < spec.out; ++row) {
    for (int64_t column = 0; column < spec.in; ++column) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r) {
        sum += static_cast<double>(b[row * rank + r]) * a[r * spec.in + column];
      }
      float& value = weight[transposed ? column * spec.out + row : row * spec.in + column];
      value = static_cast<float>(value + scale * sum);
    }
  }
}

}  // namespace braid
