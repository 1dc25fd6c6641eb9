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

// A product by generated kernels. A kernel reads all of `right` for every few rows of `left`, so a
// deep product is cut into slices whose part of `right` stays in the first-level cache: at a depth
// of 512 this took .6 of the time of one kernel on Zen 3. Cheap to copy; thread-safe.
//
// LIBXSMM holds 131,072 kernels, and searches all of them for one that it does not have. A process
// that needs more shapes computes the others with plain loops: callers should need few.
class SmallGemm {
 public:
  // Generates code on the first call for a shape; later calls look it up. With `generate` false the
  // product is computed as for a shape for which no kernel can be generated.
  explicit SmallGemm(const SmallGemmShape& shape, bool generate = true);

  void operator()(const float* left, const float* right, float* out) const {
    if (first_ == nullptr) return Loop(left, right, out);
    first_(right, left, out);
    for (int64_t slice = 1; slice < num_slices_; ++slice) {
      (slice + 1 < num_slices_ ? next_ : last_)(right + slice * right_step_,
                                                left + slice * left_step_, out);
    }
  }

 private:
  // LIBXSMM is column-major: its first matrix is our right one.
  using Kernel = void (*)(const float* right, const float* left, float* out);

  // The product without kernels.
  void Loop(const float* left, const float* right, float* out) const;

  SmallGemmShape shape_;
  int64_t num_slices_ = 1;
  int64_t left_step_ = 0, right_step_ = 0;  // floats between slices of an operand
  Kernel first_ = nullptr;                  // for the first slice; null without kernels
  Kernel next_ = nullptr;  // for the later ones but the last; it and last_ add to out
  Kernel last_ = nullptr;
};

// Returns whether kernels can be generated for this CPU.
bool HasSmallGemm();

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SMALL_GEMM_H_
