#include "retrieval/block_product.h"

// The Fortran interface, which every BLAS provides.
extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace braid {

void BlockProduct(const float* a, int64_t m, const float* b, int64_t n, int32_t d,
                  float* products) {
  if (m == 0 || n == 0) return;
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), depth = d;
  const float one = 1, zero = 0;
  // Fortran's matrices are column-major, so a row-major matrix is its transpose to the BLAS:
  // computing b a^T there gives a b^T here.
  sgemm_("T", "N", &rows, &columns, &depth, &one, b, &depth, a, &depth, &zero, products, &rows);
}

}  // namespace braid
