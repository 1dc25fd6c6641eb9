// All inner products of two blocks of vectors in one BLAS call.
#ifndef BRAID_RETRIEVAL_BLOCK_PRODUCT_H_
#define BRAID_RETRIEVAL_BLOCK_PRODUCT_H_

#include <cstdint>

namespace braid {

// Computes products[i * n + j] = <a_i, b_j>. a: [m, d], b: [n, d], products: [m, n], all row-major;
// m and n below 2^31. The order of additions is that of the BLAS: InnerProduct() of the same
// vectors may differ in the last bits. Requires a BLAS with one thread (SetFaissThreads) if called
// from several threads.
void BlockProduct(const float* a, int64_t m, const float* b, int64_t n, int32_t d, float* products);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BLOCK_PRODUCT_H_
