#include "retrieval/document_vectors.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "retrieval/inner_product.h"

namespace braid {

absl::Status CheckUnitVectors(std::span<const float> values, int32_t d, int64_t first) {
  constexpr float kNormTolerance = 1e-3f;
  const size_t n = values.size() / static_cast<size_t>(d);
  for (size_t i = 0; i < n; ++i) {
    const float* vector = values.data() + i * static_cast<size_t>(d);
    const float squares = InnerProduct(vector, vector, d);
    if (squares == 0 || std::abs(squares - 1) < kNormTolerance)
      continue;  // NaN fails both comparisons
    return absl::InvalidArgumentError(absl::StrCat("vector ", first + static_cast<int64_t>(i),
                                                   " has squared norm ", squares,
                                                   ", expected 1 or 0; normalize the embeddings"));
  }
  return absl::OkStatus();
}

}  // namespace braid
