// Measures the highest matrix product rate of this process.
#ifndef BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_
#define BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_

namespace braid {

// Returns the rate in GFLOP/s of single-precision products of square matrices: the best of a few
// trials, with the threads set by SetModelThreads. Takes about 0.1 s.
double MeasureMatrixProductPeak();

}  // namespace braid

#endif  // BRAID_MODEL_MATRIX_PRODUCT_PEAK_H_
