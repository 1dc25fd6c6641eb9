#include "model/adapter_merge.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace braid {

namespace {

// Merges the adapter of one matrix.
void MergeOne(const AdapterSpec& spec, double scale, std::span<const float> a,
              std::span<const float> b, std::span<float> weight) {
  const auto rank = static_cast<int64_t>(a.size()) / spec.in;
  BRAID_CHECK(static_cast<int64_t>(weight.size()) == spec.in * spec.out &&
              static_cast<int64_t>(b.size()) == spec.out * rank)
      << spec.matrix;
  const bool transposed = spec.matrix.ends_with("weight_t");
  // In double, so that a merged weight is rounded only once.
  std::vector<double> sums(spec.in);
  for (int64_t row = 0; row < spec.out; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t r = 0; r < rank; ++r) {
      const double factor = b[row * rank + r];
      for (int64_t column = 0; column < spec.in; ++column) {
        sums[column] += factor * a[r * spec.in + column];
      }
    }
    for (int64_t column = 0; column < spec.in; ++column) {
      float& value = weight[transposed ? column * spec.out + row : row * spec.in + column];
      value = static_cast<float>(value + scale * sums[column]);
    }
  }
}

}  // namespace

void MergeAdapter(const AdapterSpec& spec, double scale, std::span<const float> a,
                  std::span<const float> b, std::span<float> weight) {
  const auto count = static_cast<size_t>(std::max<int64_t>(spec.experts, 1));
  for (size_t e = 0; e < count; ++e) {
    const auto own = [&](auto all) {
      return all.subspan(e * (all.size() / count), all.size() / count);
    };
    MergeOne(spec, scale, own(a), own(b), own(weight));
  }
}

}  // namespace braid
