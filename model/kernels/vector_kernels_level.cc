// Compiled once per instruction set, with BRAID_VECTOR_LEVEL its name and BRAID_VECTOR_BYTES its
// width. Includes nothing that defines inline functions: the linker keeps one copy of an inline
// function for the whole program, and if that were the AVX-512 copy, CPUs without AVX-512 would
// crash.
#include <cstddef>
#include <utility>

#include "model/kernels/vector_kernels.h"
#include "model/kernels/vector_level.h"

namespace braid {
namespace {

// Accumulators of a kernel. AVX-512 has 32 vector registers and AVX2 16: half of them accumulate
// and the others hold operands.
constexpr size_t kAccumulators = BRAID_VECTOR_BYTES == 64 ? 16 : 8;

inline float Sum(Vec v) {
  float sum = 0;
  for (size_t i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

// Merges the segments first .. first + kSegments - 1. Each vector of expert weights is loaded once
// and multiplied into one accumulator per segment, which all stay in registers. The processor would
// wait for memory at the start of every expert's row, so the next rows, which follow these ones,
// are fetched into the second-level cache meanwhile; addresses after the last row do no harm.
template <size_t kSegments>
void MergeSegments(ExpertArray experts, const float* routing, SegmentArray merged, size_t first,
                   size_t size) {
  const size_t e = experts.num_experts;
  const float* weights = routing + first * e;
  float* out = merged.data + first * merged.stride;
  size_t j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    Vec sums[kSegments] = {};
    for (size_t i = 0; i < e; ++i) {
      const float* const x_at = experts.data + i * experts.stride + j;
      const Vec x = Load(x_at);
      __builtin_prefetch(x_at + size, 0, 2);
      for (size_t n = 0; n < kSegments; ++n) sums[n] += x * weights[n * e + i];
    }
    for (size_t n = 0; n < kSegments; ++n) Store(out + n * merged.stride + j, sums[n]);
  }
  for (; j < size; ++j) {
    for (size_t n = 0; n < kSegments; ++n) {
      float sum = 0;
      for (size_t i = 0; i < e; ++i) {
        sum += experts.data[i * experts.stride + j] * weights[n * e + i];
      }
      out[n * merged.stride + j] = sum;
    }
  }
}

void Merge(ExpertArray experts, const float* routing, SegmentArray merged, size_t size) {
  for (size_t n = 0; n < merged.num_segments;) {
    const size_t left = merged.num_segments - n;
    if (left >= 16 && kAccumulators >= 16) {
      MergeSegments<16>(experts, routing, merged, n, size), n += 16;
    } else if (left >= 8) {
      MergeSegments<8>(experts, routing, merged, n, size), n += 8;
    } else if (left >= 4) {
      MergeSegments<4>(experts, routing, merged, n, size), n += 4;
    } else {
      MergeSegments<1>(experts, routing, merged, n, size), n += 1;
    }
  }
}

// Elements per block of Scatter, over which the dot products stay in registers. The block size also
// fixes the order of the sums.
constexpr size_t kScatterBlock = 1024;

// The arguments of a scatter call.
struct ScatterJob {
  ExpertArray experts;
  const float* routing;
  SegmentArray merged_gradients;
  float* gradients;
  float* routing_gradients;
};

// Scatters the experts i .. i + kExperts - 1 and segments n .. n + kSegments - 1, elements begin ..
// end - 1. The weights and gradients of the experts are loaded once for all segments, and the dot
// products stay in registers until the end of the block. The next block is fetched meanwhile.
template <size_t kExperts, size_t kSegments>
void ScatterTile(const ScatterJob& job, size_t i, size_t n, size_t begin, size_t end) {
  const size_t e = job.experts.num_experts, stride = job.experts.stride;
  const size_t gradient_stride = job.merged_gradients.stride;
  const float* experts = job.experts.data + i * stride;
  const float* weights = job.routing + n * e + i;
  const float* merged = job.merged_gradients.data + n * gradient_stride;
  float* gradients = job.gradients + i * stride;
  Vec dots[kExperts][kSegments] = {};
  size_t j = begin;
  for (; j + kLanes <= end; j += kLanes) {
    Vec w[kExperts], dw[kExperts];
    for (size_t a = 0; a < kExperts; ++a) {
      w[a] = Load(experts + a * stride + j);
      dw[a] = Load(gradients + a * stride + j);
      __builtin_prefetch(experts + a * stride + j + kScatterBlock, 0, 2);
      __builtin_prefetch(gradients + a * stride + j + kScatterBlock, 1, 2);
    }
    for (size_t b = 0; b < kSegments; ++b) {
      const Vec g = Load(merged + b * gradient_stride + j);
      for (size_t a = 0; a < kExperts; ++a) {
        dw[a] += g * weights[b * e + a];
        dots[a][b] += g * w[a];
      }
    }
    for (size_t a = 0; a < kExperts; ++a) Store(gradients + a * stride + j, dw[a]);
  }
  for (size_t a = 0; a < kExperts; ++a) {
    for (size_t b = 0; b < kSegments; ++b) {
      float sum = Sum(dots[a][b]);
      for (size_t t = j; t < end; ++t) {
        const float g = merged[b * gradient_stride + t];
        gradients[a * stride + t] += g * weights[b * e + a];
        sum += g * experts[a * stride + t];
      }
      job.routing_gradients[(n + b) * e + i + a] += sum;
    }
  }
}

template <size_t kSegments>
void ScatterSegments(const ScatterJob& job, size_t n, size_t begin, size_t end) {
  size_t i = 0;
  for (; i + 2 <= job.experts.num_experts; i += 2) {
    ScatterTile<2, kSegments>(job, i, n, begin, end);
  }
  if (i < job.experts.num_experts) ScatterTile<1, kSegments>(job, i, n, begin, end);
}

void Scatter(ExpertArray experts, const float* routing, SegmentArray merged_gradients,
             float* gradients, float* routing_gradients, size_t size) {
  const ScatterJob job{experts, routing, merged_gradients, gradients, routing_gradients};
  // A tile accumulates a dot product for each of two experts and kSegments segments.
  constexpr size_t kSegments = kAccumulators / 2;
  for (size_t begin = 0; begin < size; begin += kScatterBlock) {
    const size_t end = begin + kScatterBlock < size ? begin + kScatterBlock : size;
    size_t n = 0;
    for (; n + kSegments <= merged_gradients.num_segments; n += kSegments) {
      ScatterSegments<kSegments>(job, n, begin, end);
    }
    for (; n < merged_gradients.num_segments; ++n) ScatterSegments<1>(job, n, begin, end);
  }
}

// Two vectors exchange groups of `group` lanes: the first one gets the even groups of both, the
// second one the odd groups. Returns the lane, counted through both, that lane i of the first one
// gets, or with `odd` lane i of the second one.
constexpr int ExchangedLane(size_t group, bool odd, size_t i) {
  const size_t even = i & ~group, from = i & group ? kLanes + even : even;
  return static_cast<int>(odd ? from + group : from);
}

template <size_t group, size_t... i>
inline void ExchangeGroups(Vec& upper, Vec& lower, std::index_sequence<i...>) {
  const Vec first = __builtin_shufflevector(upper, lower, ExchangedLane(group, false, i)...);
  lower = __builtin_shufflevector(upper, lower, ExchangedLane(group, true, i)...);
  upper = first;
}

// Exchanges blocks of `group` elements across the diagonal, then blocks of twice as many, and so
// on.
template <size_t group>
inline void TransposeBlocks(Vec* rows) {
  if constexpr (group < kLanes) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kLanes; ++r) {
      if (r & group) continue;
      ExchangeGroups<group>(rows[r], rows[r + group], std::make_index_sequence<kLanes>());
    }
    TransposeBlocks<2 * group>(rows);
  }
}

// Transposes kLanes x kLanes elements.
inline void TransposeSquare(const float* in, size_t in_stride, float* out, size_t out_stride) {
  Vec rows[kLanes];
  for (size_t r = 0; r < kLanes; ++r) rows[r] = Load(in + r * in_stride);
  TransposeBlocks<1>(rows);
  for (size_t c = 0; c < kLanes; ++c) Store(out + c * out_stride, rows[c]);
}

void Transpose(const float* in, size_t in_stride, size_t rows, size_t columns, float* out,
               size_t out_stride) {
  const size_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (size_t c = 0; c < whole_columns; c += kLanes) {
    for (size_t r = 0; r < whole_rows; r += kLanes) {
      TransposeSquare(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    const size_t begin = r < whole_rows ? whole_columns : 0;
    for (size_t c = begin; c < columns; ++c) out[c * out_stride + r] = in[r * in_stride + c];
  }
}

void SwiGlu(const float* __restrict gate, const float* __restrict up, float* __restrict out,
            size_t size) {
#pragma omp simd
  for (size_t i = 0; i < size; ++i) out[i] = gate[i] * Sigmoid(gate[i]) * up[i];
}

void SwiGluBackward(const float* __restrict gate, const float* __restrict up,
                    float* __restrict activation, float* __restrict dgate, float* __restrict dup,
                    size_t size) {
#pragma omp simd
  for (size_t i = 0; i < size; ++i) {
    const float sigmoid = Sigmoid(gate[i]), silu = gate[i] * sigmoid, d = activation[i];
    dup[i] = d * silu;
    dgate[i] = d * up[i] * (sigmoid + silu * (1.0f - sigmoid));
    activation[i] = silu * up[i];
  }
}

void ExpShifted(float* __restrict values, const float* __restrict shift, size_t rows,
                size_t columns) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = values + r * columns;
#pragma omp simd
    for (size_t q = 0; q < columns; ++q) row[q] = ExpOrZero(row[q] - shift[q]);
  }
}

void SoftmaxBlock(float* __restrict scores, float* __restrict maximum, float* __restrict sum,
                  float* __restrict correction, size_t rows, size_t columns) {
  // `correction` holds the earlier maximum until the new one is known.
#pragma omp simd
  for (size_t q = 0; q < columns; ++q) correction[q] = maximum[q];
  for (size_t r = 0; r < rows; ++r) {
    const float* row = scores + r * columns;
#pragma omp simd
    for (size_t q = 0; q < columns; ++q) maximum[q] = maximum[q] < row[q] ? row[q] : maximum[q];
  }
#pragma omp simd
  for (size_t q = 0; q < columns; ++q) {
    correction[q] = ExpOrZero(correction[q] - maximum[q]);
    sum[q] *= correction[q];
  }
  ExpShifted(scores, maximum, rows, columns);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = scores + r * columns;
#pragma omp simd
    for (size_t q = 0; q < columns; ++q) sum[q] += row[q];
  }
}

void SoftmaxBackward(const float* __restrict p, float* __restrict dp, const float* __restrict delta,
                     size_t rows, size_t columns) {
  for (size_t r = 0; r < rows; ++r) {
    const float* p_row = p + r * columns;
    float* dp_row = dp + r * columns;
#pragma omp simd
    for (size_t q = 0; q < columns; ++q) dp_row[q] = p_row[q] * (dp_row[q] - delta[q]);
  }
}

void ScaleColumns(float* __restrict values, const float* __restrict factor, size_t rows,
                  size_t columns) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = values + r * columns;
#pragma omp simd
    for (size_t q = 0; q < columns; ++q) row[q] *= factor[q];
  }
}

void Rotate(const float* __restrict in, size_t in_stride, const float* __restrict cosine,
            const float* __restrict sine, float direction, size_t rows, size_t half,
            float* __restrict out, size_t out_stride) {
  for (size_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (size_t j = 0; j < half; ++j) {
      const float a = in[j], b = in[j + half], turn = direction * sine[j];
      out[j] = a * cosine[j] - b * turn;
      out[j + half] = b * cosine[j] + a * turn;
    }
    in += in_stride, out += out_stride, cosine += half, sine += half;
  }
}

float RmsNorm(const float* __restrict x, const float* __restrict weight, float epsilon,
              size_t width, float* __restrict y) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < width; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / __builtin_sqrtf(sum / static_cast<float>(width) + epsilon);
#pragma omp simd
  for (size_t i = 0; i < width; ++i) y[i] = x[i] * scale * weight[i];
  return scale;
}

// With n = x * scale: dw += dy n and dx = scale * (dy w - n mean(dy w n)).
void RmsNormBackward(const float* __restrict x, const float* __restrict weight, float scale,
                     const float* __restrict dy, size_t width, float* __restrict dx,
                     float* __restrict dweight) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < width; ++i) sum += dy[i] * weight[i] * x[i];
  // x * projection is n mean(dy w n): each of the two n contributes a factor `scale`.
  const float projection = sum * scale * scale / static_cast<float>(width);
#pragma omp simd
  for (size_t i = 0; i < width; ++i) {
    dweight[i] += dy[i] * x[i] * scale;
    dx[i] = scale * (dy[i] * weight[i] - x[i] * projection);
  }
}

float SoftmaxRow(float* __restrict values, size_t size) {
  float maximum = values[0];
#pragma omp simd reduction(max : maximum)
  for (size_t i = 0; i < size; ++i) maximum = maximum < values[i] ? values[i] : maximum;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < size; ++i) {
    values[i] = ExpOrZero(values[i] - maximum);
    sum += values[i];
  }
  const float scale = 1.0f / sum;
#pragma omp simd
  for (size_t i = 0; i < size; ++i) values[i] *= scale;
  return maximum + __builtin_logf(sum);
}

float Dot(const float* __restrict a, const float* __restrict b, size_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

extern const VectorKernels BRAID_KERNELS_OF(BRAID_VECTOR_LEVEL);
const VectorKernels BRAID_KERNELS_OF(BRAID_VECTOR_LEVEL) = {BRAID_NAME_OF(BRAID_VECTOR_LEVEL),
                                                            Merge,
                                                            Scatter,
                                                            Transpose,
                                                            SwiGlu,
                                                            SwiGluBackward,
                                                            ExpShifted,
                                                            SoftmaxBlock,
                                                            SoftmaxBackward,
                                                            ScaleColumns,
                                                            Rotate,
                                                            RmsNorm,
                                                            RmsNormBackward,
                                                            SoftmaxRow,
                                                            Dot,
                                                            BRAID_DROP_UNITS,
                                                            BRAID_CONCRETE_GRADIENT,
                                                            BRAID_SWIGLU_ROWS,
                                                            BRAID_SWIGLU_ROW_BACKWARD,
                                                            BRAID_ADD_ROWS,
                                                            BRAID_ADD_TO_ROWS,
                                                            BRAID_COPY_BLOCKS,
                                                            BRAID_RANK_SCORES,
                                                            BRAID_DOTS_OF_ROWS,
                                                            BRAID_ADD_MULTIPLES};

}  // namespace braid
