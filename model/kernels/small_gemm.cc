#include "model/kernels/small_gemm.h"

#ifdef BRAID_HAS_XSMM
#include <libxsmm.h>
#endif

#include <algorithm>

namespace braid {

#ifdef BRAID_HAS_XSMM

namespace {

// Floats of `right` that one kernel reads: 16 KiB, half of the smallest first-level cache. A
// constant, because the depth of the slices determines the order of the sums.
constexpr int64_t kSliceFloats = 4096;
// Slices are multiples of this many rows of `right`, and at least as deep.
constexpr int64_t kSliceRows = 16;

int64_t SliceDepth(const SmallGemmShape& shape) {
  const int64_t fitting = std::max(kSliceFloats / shape.columns, kSliceRows);
  const int64_t num_slices = (shape.depth + fitting - 1) / fitting;
  const int64_t depth = (shape.depth + num_slices - 1) / num_slices;
  return std::min(shape.depth, (depth + kSliceRows - 1) / kSliceRows * kSliceRows);
}

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

libxsmm_smmfunction Slice(SmallGemmShape shape, int64_t depth, bool accumulate) {
  shape.depth = depth;
  shape.accumulate = accumulate;
  return Generate(shape);
}

}  // namespace

SmallGemm::SmallGemm(const SmallGemmShape& shape, bool generate) : shape_(shape) {
  if (!generate) return;
  const int64_t depth = SliceDepth(shape);
  num_slices_ = (shape.depth + depth - 1) / depth;
  left_step_ = shape.left_transposed ? depth * shape.left_stride : depth;
  right_step_ = depth * shape.right_stride;
  first_ = reinterpret_cast<Kernel>(Slice(shape, depth, shape.accumulate));
  if (num_slices_ > 2) next_ = reinterpret_cast<Kernel>(Slice(shape, depth, true));
  if (num_slices_ > 1) {
    const int64_t rest = shape.depth - (num_slices_ - 1) * depth;
    last_ = reinterpret_cast<Kernel>(Slice(shape, rest, true));
  }
  const bool complete =
      (num_slices_ <= 2 || next_ != nullptr) && (num_slices_ <= 1 || last_ != nullptr);
  if (!complete) first_ = nullptr;
}

bool HasSmallGemm() {
  static const bool generates = [] {
    // On a CPU for which the library cannot generate code, it returns no kernel for any shape.
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

SmallGemm::SmallGemm(const SmallGemmShape& shape, bool) : shape_(shape) {}

bool HasSmallGemm() { return false; }

#endif

void SmallGemm::Loop(const float* left, const float* right, float* out) const {
  const SmallGemmShape& s = shape_;
  for (int64_t r = 0; r < s.rows; ++r) {
    float* const row = out + r * s.out_stride;
    if (!s.accumulate) std::fill_n(row, s.columns, 0.0f);
    for (int64_t d = 0; d < s.depth; ++d) {
      const float factor =
          s.left_transposed ? left[d * s.left_stride + r] : left[r * s.left_stride + d];
      const float* const values = right + d * s.right_stride;
      for (int64_t c = 0; c < s.columns; ++c) row[c] += factor * values[c];
    }
  }
}

}  // namespace braid
