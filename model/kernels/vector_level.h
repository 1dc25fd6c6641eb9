// What is compiled once per instruction set has in common (vector_kernels_level.cc,
// vector_dropout_level.cc, vector_rows_level.cc): names that end in the level, such as
// DropUnits_avx2, and vectors of its width.
#ifndef BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
#define BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/kernels/unit_dropout.h"

#define BRAID_JOIN(a, b) a##b
#define BRAID_WITH_LEVEL(name, level) BRAID_JOIN(name, level)
#define BRAID_TEXT(level) #level
#define BRAID_NAME_OF(level) BRAID_TEXT(level)
#define BRAID_KERNELS_OF(level) BRAID_WITH_LEVEL(vector_kernels_, level)
#define BRAID_DROP_UNITS BRAID_WITH_LEVEL(DropUnits_, BRAID_VECTOR_LEVEL)
#define BRAID_CONCRETE_GRADIENT BRAID_WITH_LEVEL(ConcreteGradient_, BRAID_VECTOR_LEVEL)
#define BRAID_SWIGLU_ROWS BRAID_WITH_LEVEL(SwiGluRows_, BRAID_VECTOR_LEVEL)
#define BRAID_SWIGLU_ROW_BACKWARD BRAID_WITH_LEVEL(SwiGluRowBackward_, BRAID_VECTOR_LEVEL)
#define BRAID_ADD_ROWS BRAID_WITH_LEVEL(AddRows_, BRAID_VECTOR_LEVEL)
#define BRAID_ADD_TO_ROWS BRAID_WITH_LEVEL(AddToRows_, BRAID_VECTOR_LEVEL)
#define BRAID_COPY_BLOCKS BRAID_WITH_LEVEL(CopyBlocks_, BRAID_VECTOR_LEVEL)
#define BRAID_RANK_SCORES BRAID_WITH_LEVEL(RankScores_, BRAID_VECTOR_LEVEL)
#define BRAID_DOTS_OF_ROWS BRAID_WITH_LEVEL(DotsOfRows_, BRAID_VECTOR_LEVEL)
#define BRAID_ADD_MULTIPLES BRAID_WITH_LEVEL(AddMultiples_, BRAID_VECTOR_LEVEL)

namespace braid {

// VectorKernels documents them.
void BRAID_DROP_UNITS(const DropoutTile& tile, float* values);
float BRAID_CONCRETE_GRADIENT(const DropoutTile& tile, const float* dup, const float* up);
void BRAID_SWIGLU_ROWS(const float* gate_up, size_t rows, size_t units, float* out);
float BRAID_SWIGLU_ROW_BACKWARD(const float* gate_up, float weight, size_t units, float* activation,
                                float* dgate_up);
void BRAID_ADD_ROWS(const float* const* rows, const float* weights, size_t count, bool accumulate,
                    size_t size, float* out);
void BRAID_ADD_TO_ROWS(const float* values, const int32_t* rows, const float* weights, size_t count,
                       size_t size, float* out, size_t stride);
void BRAID_COPY_BLOCKS(const float* row, size_t num_blocks, size_t block, size_t stride,
                       float* blocks);
void BRAID_RANK_SCORES(const float* scores, size_t count, int32_t* ranks);
void BRAID_DOTS_OF_ROWS(const float* matrix, size_t rows, size_t width, const float* const* x,
                        size_t count, float* out, size_t out_stride);
void BRAID_ADD_MULTIPLES(const float* matrix, size_t rows, size_t width, const float* values,
                         size_t stride, size_t count, bool accumulate, float* const* out);

#ifdef BRAID_VECTOR_BYTES
typedef float Vec __attribute__((vector_size(BRAID_VECTOR_BYTES)));
constexpr size_t kLanes = BRAID_VECTOR_BYTES / sizeof(float);

// A vector at any address: aligned(4) makes the compiler emit unaligned loads and stores.
typedef float Unaligned __attribute__((vector_size(BRAID_VECTOR_BYTES), aligned(4), may_alias));

// Internal linkage: these have other code at each level.
static inline Vec Load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void Store(float* p, Vec v) { *reinterpret_cast<Unaligned*>(p) = v; }

// 1 / (1 + exp(-x)). Below -88 the exponential overflows, and the reciprocal of infinity is NaN in
// fast math. The bound changes no result by more than 2e-35.
static inline float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-(x > -80 ? x : -80))); }

// exp(x), but 0 below -80, where the C library's vector function computes the elements one by one:
// that made blocks with masked scores, -inf, take 4 to 9 times as long. NaN stays NaN. Bits are
// compared and masked instead of numbers, because fast math would drop NaN, and would move exp out
// of a choice between two arguments.
static inline float ExpOrZero(float x) {
  constexpr uint32_t kLowest = std::bit_cast<uint32_t>(-80.0f);
  constexpr uint32_t kRange = std::bit_cast<uint32_t>(-__builtin_inff()) - kLowest;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t below = -static_cast<uint32_t>(bits - kLowest <= kRange);  // all ones or zero
  const float e = std::exp(std::bit_cast<float>((bits & ~below) | (kLowest & below)));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(e) & ~below);
}
#endif

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
