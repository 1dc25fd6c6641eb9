#include "model/kernels/small_gemm.h"

#ifdef BRAID_HAS_XSMM
#include <libxsmm.h>
#endif

#include "base/check.h"

namespace braid {

#ifdef BRAID_HAS_XSMM

namespace {

// A row-major matrix is a column-major matrix transposed, so out = left right is computed as out^T
// = right^T left^T: operands and dimensions are passed in reverse order. No packing is involved;
// the generated kernels read both operands in place.
libxsmm_smmfunction Generate(const SmallGemmShape& shape) {
  const auto right_stride = static_cast<libxsmm_blasint>(shape.right_stride);
  const auto left_stride = static_cast<libxsmm_blasint>(shape.left_stride);
  const auto out_stride = static_cast<libxsmm_blasint>(shape.out_stride);
  const float alpha = 1, beta = shape.accumulate ? 1 : 0;
  const int flags = shape.left_transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  return libxsmm_smmdispatch(static_cast<libxsmm_blasint>(shape.columns),
                             static_cast<libxsmm_blasint>(shape.rows),
                             static_cast<libxsmm_blasint>(shape.depth), &right_stride, &left_stride,
                             &out_stride, &alpha, &beta, &flags, &prefetch);
}

}  // namespace

SmallGemm::SmallGemm(const SmallGemmShape& shape)
    : kernel_(reinterpret_cast<Kernel>(Generate(shape))) {
  BRAID_CHECK(kernel_ != nullptr) << "no kernel for " << shape.rows << " x " << shape.columns
                                  << " x " << shape.depth;
}

bool HasSmallGemm() {
  static const bool generates = [] {
    libxsmm_init();
    return Generate({.rows = 8,
                     .columns = 16,
                     .depth = 8,
                     .left_stride = 8,
                     .right_stride = 16,
                     .out_stride = 16}) != nullptr;
  }();
  return generates;
}

#else

SmallGemm::SmallGemm(const SmallGemmShape&) : kernel_(nullptr) {
  BRAID_CHECK(false) << "built without LIBXSMM";
}

bool HasSmallGemm() { return false; }

#endif

}  // namespace braid
