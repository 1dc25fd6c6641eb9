// How fast this process multiplies matrices at best.
#ifndef BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_
#define BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_

namespace braid {

// 1e9 FLOP/s of single-precision products of square matrices, the best of a few,
// with the threads of SetModelThreads. Takes about a tenth of a second.
double MeasureMatrixProductPeak();

}  // namespace braid

#endif  // BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_
