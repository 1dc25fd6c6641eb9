// The inner loops that are not matrix products, compiled for several instruction sets; the one to
// use is selected at run time. Plain arrays of floats, no tensors.
#ifndef BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_
#define BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "model/kernels/unit_dropout.h"

namespace braid {

// Matrices of all experts: that of expert i starts at data + i * stride.
struct ExpertArray {
  const float* data;
  size_t stride;
  size_t num_experts;
};

// Arrays of all segments: that of segment n starts at data + n * stride.
struct SegmentArray {
  float* data;
  size_t stride;
  size_t num_segments;
};

struct VectorKernels {
  const char* name;  // "avx512", "avx2" or "baseline"

  // Averages experts: merged[n][j] = sum_i routing[n * E + i] * expert_i[j], for j < size.
  void (*merge)(ExpertArray experts, const float* routing, SegmentArray merged, size_t size);

  // Computes the transpose of merge, for the merged gradients G:
  //   gradients_i[j] += sum_n routing[n * E + i] * G_n[j]
  //   routing_gradients[n * E + i] += sum_j G_n[j] * expert_i[j]
  // `gradients` has the layout of `experts`.
  void (*scatter)(ExpertArray experts, const float* routing, SegmentArray merged_gradients,
                  float* gradients, float* routing_gradients, size_t size);

  // Computes out[c * out_stride + r] = in[r * in_stride + c], for r < rows, c < columns.
  void (*transpose)(const float* in, size_t in_stride, size_t rows, size_t columns, float* out,
                    size_t out_stride);

  // Computes out = silu(gate) * up.
  void (*swiglu)(const float* gate, const float* up, float* out, size_t size);

  // Computes the gradients of swiglu. On entry `activation` holds d(loss)/d(activation); on return
  // it holds the activation silu(gate) * up.
  void (*swiglu_backward)(const float* gate, const float* up, float* activation, float* dgate,
                          float* dup, size_t size);

  // In the arrays [rows][columns] below, the elements of a row are adjacent.

  // Computes values[r][q] = exp(values[r][q] - shift[q]): 0 for differences below -80, any value
  // for those above 88.
  void (*exp_shifted)(float* values, const float* shift, size_t rows, size_t columns);

  // Adds one block to a running softmax over rows: replaces `scores` by exp(score - maximum),
  // updates maximum[q] and sum[q], and sets correction[q] to the factor by which earlier results of
  // column q must be multiplied.
  void (*softmax_block)(float* scores, float* maximum, float* sum, float* correction, size_t rows,
                        size_t columns);

  // Computes dp[r][q] = p[r][q] * (dp[r][q] - delta[q]).
  void (*softmax_backward)(const float* p, float* dp, const float* delta, size_t rows,
                           size_t columns);

  // Computes values[r][q] *= factor[q].
  void (*scale_columns)(float* values, const float* factor, size_t rows, size_t columns);

  // Rotates head vectors of 2 * half values, rows of `in` with a stride: in row r the pair (j, j +
  // half) is rotated by the angle with cosine[r][j] and direction * sine[r][j]. `out` must not
  // alias `in`.
  void (*rotate)(const float* in, size_t in_stride, const float* cosine, const float* sine,
                 float direction, size_t rows, size_t half, float* out, size_t out_stride);

  // Normalizes one row: y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + epsilon). Returns
  // scale.
  float (*rms_norm)(const float* x, const float* weight, float epsilon, size_t width, float* y);

  // Computes the backward of rms_norm: overwrites dx and adds to dweight. `scale` is what rms_norm
  // returned.
  void (*rms_norm_backward)(const float* x, const float* weight, float scale, const float* dy,
                            size_t width, float* dx, float* dweight);

  // Replaces values by their softmax; returns the logarithm of the sum of their exponentials.
  float (*softmax_row)(float* values, size_t size);

  // Returns the dot product of a and b.
  float (*dot)(const float* a, const float* b, size_t size);

  // Multiplies values [units, tokens] by their factors of dropout.
  void (*drop_units)(const DropoutTile& tile, float* values);

  // Returns the sum over the tile of d(loss) / d(logit) for concrete dropout, given what
  // swiglu_backward computed from the dropped gradient: dup and up, [units, tokens].
  float (*concrete_gradient)(const DropoutTile& tile, const float* dup, const float* up);

  // Computes out [rows, units] = silu(gate) * up for rows [gate, up] of 2 * units.
  void (*swiglu_rows)(const float* gate_up, size_t rows, size_t units, float* out);

  // Computes the gradients of weight * silu(gate) * up for one row of it. On entry `activation`
  // holds the gradient of the result; on return the result. dgate_up receives [d(gate), d(up)].
  // Returns the gradient of the weight.
  float (*swiglu_row_backward)(const float* gate_up, float weight, size_t units, float* activation,
                               float* dgate_up);

  // Computes out (+)= sum_r weights[r] * rows[r].
  void (*add_rows)(const float* const* rows, const float* weights, size_t count, bool accumulate,
                   size_t size, float* out);

  // Computes out[rows[r] * stride + j] += weights[r] * values[r * size + j], for r < count and
  // j < size.
  void (*add_to_rows)(const float* values, const int32_t* rows, const float* weights, size_t count,
                      size_t size, float* out, size_t stride);

  // Copies a row in blocks, multiples of 16 floats: block b to blocks + b * stride.
  void (*copy_blocks)(const float* row, size_t num_blocks, size_t block, size_t stride,
                      float* blocks);

  // Computes ranks[i] = how many scores are higher than score i, or equal to it and before it.
  void (*rank_scores)(const float* scores, size_t count, int32_t* ranks);

  // The two products of a matrix [rows, width] with few vectors, in which the matrix is read once.
  // Computes out[c * out_stride + r] = <row r, x[c]> for c < count.
  void (*dots_of_rows)(const float* matrix, size_t rows, size_t width, const float* const* x,
                       size_t count, float* out, size_t out_stride);
  // Computes out[c] (+)= sum_r values[c * stride + r] * row r for c < count.
  void (*add_multiples)(const float* matrix, size_t rows, size_t width, const float* values,
                        size_t stride, size_t count, bool accumulate, float* const* out);
};

// Returns the kernels of the widest instruction set that this CPU supports.
const VectorKernels& Vector();

// Returns every set that this CPU supports, widest first, for tests.
const VectorKernels* const* AllVectorKernels(size_t* count);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_VECTOR_KERNELS_H_
