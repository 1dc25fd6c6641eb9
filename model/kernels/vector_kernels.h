// The inner loops that are not matrix products, compiled for the instruction
// sets this machine may have and chosen when the program runs. Plain arrays of
// floats, no tensors.
#ifndef BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_
#define BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_

#include <cstddef>

namespace braid {

// Expert i's matrix starts at data + i * stride.
struct ExpertArray {
  const float* data;
  size_t stride;
  size_t num_experts;
};

// Segment n's array starts at data + n * stride.
struct SegmentArray {
  float* data;
  size_t stride;
  size_t num_segments;
};

struct VectorKernels {
  const char* name;  // "avx512", "avx2" or "baseline"

  // merged[n][j] = sum_i routing[n * E + i] * expert_i[j], for j < size.
  void (*merge)(ExpertArray experts, const float* routing, SegmentArray merged, size_t size);

  // The transpose of merge, for G = merged gradients:
  //   gradients_i[j] += sum_n routing[n * E + i] * G_n[j]
  //   routing_gradients[n * E + i] += sum_j G_n[j] * expert_i[j]
  // `gradients` is laid out as `experts`.
  void (*scatter)(ExpertArray experts, const float* routing, SegmentArray merged_gradients,
                  float* gradients, float* routing_gradients, size_t size);

  // out[c * out_stride + r] = in[r * in_stride + c], for r < rows, c < columns.
  void (*transpose)(const float* in, size_t in_stride, size_t rows, size_t columns, float* out,
                    size_t out_stride);

  // out = silu(gate) * up.
  void (*swiglu)(const float* gate, const float* up, float* out, size_t size);

  // `activation` arrives as d(loss)/d(activation) and leaves as the activation
  // silu(gate) * up itself.
  void (*swiglu_backward)(const float* gate, const float* up, float* activation, float* dgate,
                          float* dup, size_t size);

  // Of the arrays [rows][columns] below, the columns lie side by side.

  // values[r][q] = exp(values[r][q] - shift[q]).
  void (*exp_shifted)(float* values, const float* shift, size_t rows, size_t columns);

  // One block of a running softmax over rows: `scores` become exp(score -
  // maximum); maximum[q] and sum[q] are brought up to date and correction[q] is
  // what earlier results of column q must be multiplied by.
  void (*softmax_block)(float* scores, float* maximum, float* sum, float* correction, size_t rows,
                        size_t columns);

  // dp[r][q] = p[r][q] * (dp[r][q] - delta[q]).
  void (*softmax_backward)(const float* p, float* dp, const float* delta, size_t rows,
                           size_t columns);

  // values[r][q] *= factor[q].
  void (*scale_columns)(float* values, const float* factor, size_t rows, size_t columns);

  // One head's vector of 2 * half values: the pair (j, j + half) is turned by the
  // angle with cosine[j] and direction * sine[j]. `out` may not be `in`.
  void (*rotate)(const float* in, const float* cosine, const float* sine, float direction,
                 size_t half, float* out);

  // One row of RMSNorm: y = x * scale * weight with scale = 1 / sqrt(mean(x^2) +
  // epsilon), which is returned.
  float (*rms_norm)(const float* x, const float* weight, float epsilon, size_t width, float* y);

  // Its backward: dx is overwritten, dweight added to. `scale` is what rms_norm
  // returned.
  void (*rms_norm_backward)(const float* x, const float* weight, float scale, const float* dy,
                            size_t width, float* dx, float* dweight);

  // values become their softmax; returns the logarithm of the sum of their
  // exponentials.
  float (*softmax_row)(float* values, size_t size);

  float (*dot)(const float* a, const float* b, size_t size);
};

// Those of the widest instruction set that this processor has.
const VectorKernels& Vector();

// Every set that this processor can run, widest first, for tests.
const VectorKernels* const* AllVectorKernels(size_t* count);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_
