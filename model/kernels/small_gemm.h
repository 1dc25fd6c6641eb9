// Products of small matrices that stay in cache, through kernels that LIBXSMM generates for this
// CPU. No other file includes that library.
#ifndef BRAID_MODEL_KERNELS_SMALL_GEMM_H_
#define BRAID_MODEL_KERNELS_SMALL_GEMM_H_

#include <cstdint>

namespace braid {

// out [rows, columns] = left [rows, depth] * right [depth, columns], all row-major. A stride is the
// distance of two rows in floats.
struct SmallGemmShape {
  int64_t rows;
  int64_t columns;
  int64_t depth;
  int64_t left_stride;
  int64_t right_stride;
  int64_t out_stride;
  // True if `left` holds the transpose, [depth, rows].
  bool left_transposed = false;
  // Adds the product to `out`.
  bool accumulate = false;
};

// One generated kernel. Cheap to copy; thread-safe.
class SmallGemm {
 public:
  // Generates code on the first call for a shape; later calls look it up.
  explicit SmallGemm(const SmallGemmShape& shape);

  void operator()(const float* left, const float* right, float* out) const {
    kernel_(right, left, out);
  }

 private:
  // LIBXSMM is column-major: its first matrix is our right one.
  using Kernel = void (*)(const float* right, const float* left, float* out);
  Kernel kernel_;
};

// Returns whether kernels can be generated for this CPU.
bool HasSmallGemm();

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SMALL_GEMM_H_
