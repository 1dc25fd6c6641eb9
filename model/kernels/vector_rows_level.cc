// The loops of token-routed experts over rows of tokens, compiled once per instruction set (see
// vector_kernels_level.cc, whose rule about includes holds here too).
#include <cstddef>

#include "model/kernels/vector_level.h"

namespace braid {
namespace {

// Vectors of a row that AddRows sums at a time, and units of a matrix that DotsOfRows multiplies at
// a time with up to kRowsAtOnce rows: products and operands stay in registers, 32 with AVX-512,
// otherwise 16.
constexpr size_t kVectorsAtOnce = 4;
constexpr size_t kUnitsAtOnce = BRAID_VECTOR_BYTES == 64 ? 4 : 2;
constexpr size_t kRowsAtOnce = 4;
// Rows of a matrix that AddMultiples adds in one pass, which reads and writes the output once.
constexpr size_t kMultiplesAtOnce = 8;

inline float Fold(Vec v) {
  float lanes[kLanes] __attribute__((aligned(BRAID_VECTOR_BYTES)));
  Store(lanes, v);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

// The dot products of kUnits rows of a matrix with kRows rows of x; out[r * out_stride + u].
template <size_t kUnits, size_t kRows>
void DotTile(const float* matrix, size_t width, const float* const* x, float* out,
             size_t out_stride) {
  Vec sums[kUnits][kRows] = {};
  size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    Vec weights[kUnits];
    for (size_t u = 0; u < kUnits; ++u) weights[u] = Load(matrix + u * width + i);
    for (size_t r = 0; r < kRows; ++r) {
      const Vec values = Load(x[r] + i);
      for (size_t u = 0; u < kUnits; ++u) sums[u][r] += weights[u] * values;
    }
  }
  for (size_t u = 0; u < kUnits; ++u) {
    for (size_t r = 0; r < kRows; ++r) {
      float sum = Fold(sums[u][r]);
      for (size_t j = i; j < width; ++j) sum += matrix[u * width + j] * x[r][j];
      out[r * out_stride + u] = sum;
    }
  }
}

template <size_t kUnits>
void DotRows(const float* matrix, size_t width, const float* const* x, size_t count, float* out,
             size_t out_stride) {
  size_t r = 0;
  for (; r + kRowsAtOnce <= count; r += kRowsAtOnce) {
    DotTile<kUnits, kRowsAtOnce>(matrix, width, x + r, out + r * out_stride, out_stride);
  }
  if (r + 2 <= count) {
    DotTile<kUnits, 2>(matrix, width, x + r, out + r * out_stride, out_stride);
    r += 2;
  }
  if (r < count) DotTile<kUnits, 1>(matrix, width, x + r, out + r * out_stride, out_stride);
}

// Adds multiples of kUnits rows of a matrix to each row of out.
template <size_t kUnits>
void AddUnits(const float* matrix, size_t width, const float* values, size_t stride, size_t count,
              bool accumulate, float* const* out) {
  size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    Vec weights[kUnits];
    for (size_t u = 0; u < kUnits; ++u) weights[u] = Load(matrix + u * width + i);
    for (size_t r = 0; r < count; ++r) {
      Vec sum = {};
      if (accumulate) sum = Load(out[r] + i);
      for (size_t u = 0; u < kUnits; ++u) sum += weights[u] * values[r * stride + u];
      Store(out[r] + i, sum);
    }
  }
  for (; i < width; ++i) {
    for (size_t r = 0; r < count; ++r) {
      float sum = accumulate ? out[r][i] : 0;
      for (size_t u = 0; u < kUnits; ++u) sum += matrix[u * width + i] * values[r * stride + u];
      out[r][i] = sum;
    }
  }
}

}  // namespace

void BRAID_SWIGLU_ROWS(const float* __restrict gate_up, size_t rows, size_t units,
                       float* __restrict out) {
  for (size_t r = 0; r < rows; ++r) {
    const float* const gate = gate_up + r * 2 * units;
    const float* const up = gate + units;
    float* const row = out + r * units;
#pragma omp simd
    for (size_t i = 0; i < units; ++i) row[i] = gate[i] * Sigmoid(gate[i]) * up[i];
  }
}

float BRAID_SWIGLU_ROW_BACKWARD(const float* __restrict gate_up, float weight, size_t units,
                                float* __restrict activation, float* __restrict dgate_up) {
  const float* const gate = gate_up;
  const float* const up = gate_up + units;
  float share = 0;
#pragma omp simd reduction(+ : share)
  for (size_t i = 0; i < units; ++i) {
    const float sigmoid = Sigmoid(gate[i]), silu = gate[i] * sigmoid;
    const float value = silu * up[i], d = activation[i] * weight;
    share += value * activation[i];
    dgate_up[i] = d * up[i] * (sigmoid + silu * (1.0f - sigmoid));
    dgate_up[units + i] = d * silu;
    activation[i] = value * weight;
  }
  return share;
}

void BRAID_ADD_ROWS(const float* const* rows, const float* weights, size_t count, bool accumulate,
                    size_t size, float* out) {
  constexpr size_t kStep = kVectorsAtOnce * kLanes;
  size_t i = 0;
  for (; i + kStep <= size; i += kStep) {
    Vec sums[kVectorsAtOnce] = {};
    for (size_t v = 0; accumulate && v < kVectorsAtOnce; ++v) sums[v] = Load(out + i + v * kLanes);
    for (size_t r = 0; r < count; ++r) {
      const float* const row = rows[r] + i;
      for (size_t v = 0; v < kVectorsAtOnce; ++v) sums[v] += weights[r] * Load(row + v * kLanes);
    }
    for (size_t v = 0; v < kVectorsAtOnce; ++v) Store(out + i + v * kLanes, sums[v]);
  }
  for (; i < size; ++i) {
    float sum = accumulate ? out[i] : 0;
    for (size_t r = 0; r < count; ++r) sum += weights[r] * rows[r][i];
    out[i] = sum;
  }
}

void BRAID_ADD_TO_ROWS(const float* values, const int32_t* rows, const float* weights, size_t count,
                       size_t size, float* out, size_t stride) {
  for (size_t r = 0; r < count; ++r, values += size) {
    float* const row = out + static_cast<size_t>(rows[r]) * stride;
    size_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      Store(row + i, Load(row + i) + weights[r] * Load(values + i));
    }
    for (; i < size; ++i) row[i] += weights[r] * values[i];
  }
}

void BRAID_COPY_BLOCKS(const float* row, size_t num_blocks, size_t block, size_t stride,
                       float* blocks) {
  // Not a loop over elements, which would become a call of memcpy for every block.
  for (size_t b = 0; b < num_blocks; ++b) {
    for (size_t i = 0; i < block; i += kLanes) Store(blocks + b * stride + i, Load(row + i));
    row += block;
  }
}

// Compares all pairs of scores, but without branches and in vectors: to choose 8 of 16 experts this
// takes less than half the time of a partial sort.
void BRAID_RANK_SCORES(const float* scores, size_t count, int32_t* ranks) {
  for (size_t i = 0; i < count; ++i) ranks[i] = 0;
  for (size_t j = 0; j < count; ++j) {
    const float other = scores[j];
    const auto before = static_cast<int32_t>(j);
#pragma omp simd
    for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
      ranks[i] += (other > scores[i]) | ((other == scores[i]) & (before < i));
    }
  }
}

void BRAID_DOTS_OF_ROWS(const float* matrix, size_t rows, size_t width, const float* const* x,
                        size_t count, float* out, size_t out_stride) {
  size_t u = 0;
  for (; u + kUnitsAtOnce <= rows; u += kUnitsAtOnce) {
    DotRows<kUnitsAtOnce>(matrix + u * width, width, x, count, out + u, out_stride);
  }
  for (; u < rows; ++u) DotRows<1>(matrix + u * width, width, x, count, out + u, out_stride);
}

void BRAID_ADD_MULTIPLES(const float* matrix, size_t rows, size_t width, const float* values,
                         size_t stride, size_t count, bool accumulate, float* const* out) {
  size_t u = 0;
  for (; u + kMultiplesAtOnce <= rows; u += kMultiplesAtOnce) {
    AddUnits<kMultiplesAtOnce>(matrix + u * width, width, values + u, stride, count,
                               accumulate || u > 0, out);
  }
  for (; u < rows; ++u) {
    AddUnits<1>(matrix + u * width, width, values + u, stride, count, accumulate || u > 0, out);
  }
}

}  // namespace braid
