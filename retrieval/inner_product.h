// Cosine similarity of two L2-normalized vectors with a fixed order of additions: the same bits on
// every call, so equal vectors tie exactly. A BLAS product does not guarantee that.
#ifndef BRAID_RETRIEVAL_INNER_PRODUCT_H_
#define BRAID_RETRIEVAL_INNER_PRODUCT_H_

#include <cstdint>

namespace braid {

// Returns <a, b>. a, b: [d].
float InnerProduct(const float* a, const float* b, int32_t d);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_INNER_PRODUCT_H_
