// All inner products of two blocks of vectors, in one BLAS call.
#ifndef BRAID_RETRIEVAL_BLOCK_PRODUCT_H_
#define BRAID_RETRIEVAL_BLOCK_PRODUCT_H_

#include <cstdint>

namespace braid {

// products[i * n + j] = <a_i, b_j>. a: [m, d], b: [n, d], products: [m, n], all
// row-major; m and n below 2^31. Rounded as the BLAS likes: InnerProduct() of the
// same vectors may differ in the last bits.
// Requires: BLAS set to one thread (SetFaissThreads), when called from several.
void BlockProduct(const float* a, int64_t m, const float* b, int64_t n, int32_t d, float* products);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BLOCK_PRODUCT_H_
