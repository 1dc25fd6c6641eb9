// What is compiled once per instruction set has in common (vector_kernels_level.cc,
// vector_dropout_level.cc, vector_rows_level.cc): names that end in the level, such as
// DropUnits_avx2, and vectors of its width.
#ifndef BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
#define BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_

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

// exp(x) for x in [-87, 88], with a relative error of at most 4e-7; other numbers give any value,
// and NaN gives NaN. It is 2^n exp(r) for the integer n nearest to x / ln 2, where r = x - n ln 2
// is at most .35 in size and exp(r) = 1 + r (c0 + c1 r + ... + c5 r^5), a fit with the least
// maximum of the relative error (2e-9). It is faster than the C library's vector function.
static inline float Exp(float x) {
#ifdef __FP_FAST_FMAF
  // 127 + n. It is positive, so that the conversion rounds down.
  const auto exponent = static_cast<int32_t>(__builtin_fmaf(x, 1.442695041f, 127.5f));
  // Fused, or the rounding error of n ln 2 would exceed that of the result.
  const float r = __builtin_fmaf(127.0f - static_cast<float>(exponent), 0.6931471806f, x);
  float p = __builtin_fmaf(r, 0.00138427096f, 0.00837496575f);
  p = __builtin_fmaf(p, r, 0.0416680574f);
  p = __builtin_fmaf(p, r, 0.166664213f);
  p = __builtin_fmaf(p, r, 0.49999994f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  return p * __builtin_bit_cast(float, static_cast<uint32_t>(exponent) << 23);
#else
  return __builtin_expf(x);
#endif
}

// The natural logarithm of a normal number above 0, by a polynomial as in Cephes (logf): within 2
// units in the last place, and in vectors, which __builtin_logf is not.
static inline float Log(float x) {
  constexpr uint32_t kRootOfHalf = __builtin_bit_cast(uint32_t, 0.70710678f);
  // x = m 2^e with m from sqrt(1/2) to sqrt(2).
  const uint32_t above = __builtin_bit_cast(uint32_t, x) - kRootOfHalf;
  const auto exponent = static_cast<float>(static_cast<int32_t>(above) >> 23);
  const float m = __builtin_bit_cast(float, (above & 0x7FFFFFu) + kRootOfHalf);
  const float r = m - 1;
  float p = 7.0376836292e-2f * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  return exponent * 0.6931471806f + (r + r * r * (p * r - 0.5f));
}

// 1 / (1 + exp(-x)). The bounds of Exp change no result by more than 2e-35.
static inline float Sigmoid(float x) {
  const float low = x > -80 ? x : -80;
  return 1.0f / (1.0f + Exp(low < 80 ? -low : -80));
}

// exp(x) for x up to 88, but 0 below -80, also for masked scores, -inf. NaN stays NaN. Bits are
// compared and masked instead of numbers, because fast math would drop NaN, and would move Exp out
// of a choice between two arguments.
static inline float ExpOrZero(float x) {
  constexpr uint32_t kLowest = __builtin_bit_cast(uint32_t, -80.0f);
  constexpr uint32_t kRange = __builtin_bit_cast(uint32_t, -__builtin_inff()) - kLowest;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t below = -static_cast<uint32_t>(bits - kLowest <= kRange);  // all ones or zero
  const float e = Exp(__builtin_bit_cast(float, (bits & ~below) | (kLowest & below)));
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, e) & ~below);
}
#endif

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
