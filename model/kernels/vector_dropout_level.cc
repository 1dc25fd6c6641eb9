// Dropout of hidden units, compiled once per instruction set (see vector_kernels_level.cc, whose
// rule about includes holds here too).
#include <cstddef>
#include <cstdint>

#include "model/kernels/vector_level.h"

namespace braid {
namespace {

// A copy of DropoutBits that the compiler can inline, so that it can vectorize the loops.
inline uint32_t Bits(uint32_t unit, uint32_t low, uint32_t high) {
  uint32_t x = unit * 0x9E3779B9u + low;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = ((x ^ (x >> 15)) + high) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// A probability as a limit of random bits.
inline uint32_t Threshold(float rate) {
  return static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

struct Bernoulli {
  const uint32_t threshold;
  const float scale;

  float operator()(uint32_t unit, uint32_t low, uint32_t high) const {
    return Bits(unit, low, high) < threshold ? 0.0f : scale;
  }
};

struct Concrete {
  const float logit, scale;

  // Returns the logit of z.
  float MaskLogit(uint32_t unit, uint32_t low, uint32_t high) const {
    // 23 bits, in the middle of their interval: neither 0 nor 1 after rounding.
    const float u =
        (static_cast<float>(static_cast<int32_t>(Bits(unit, low, high) >> 9)) + 0.5f) * 0x1p-23f;
    return (logit + Log(u) - Log(1.0f - u)) / kConcreteTemperature;
  }
  // Returns z, which is near 1 for a dropped unit.
  float Mask(uint32_t unit, uint32_t low, uint32_t high) const {
    return Sigmoid(MaskLogit(unit, low, high));
  }
  // The sigmoid is 1 - z without the rounding error of a z near 1, which a large scale would make
  // larger than the factor.
  float operator()(uint32_t unit, uint32_t low, uint32_t high) const {
    return Sigmoid(-MaskLogit(unit, low, high)) * scale;
  }
};

// Multiplies the values by factor(unit, low, high).
template <class Factor>
void Multiply(const DropoutTile& tile, const Factor factor, float* __restrict values) {
  const uint32_t* const low = tile.dropout.key_low;
  const uint32_t* const high = tile.dropout.key_high;
  const uint32_t first = static_cast<uint32_t>(tile.first_unit);
  // The routed FFN passes one token at a time: the vectors then run over its units.
  if (tile.tokens == 1) {
    const uint32_t one_low = low[0], one_high = high[0];
#pragma omp simd
    for (uint32_t u = 0; u < static_cast<uint32_t>(tile.units); ++u) {
      values[u] *= factor(first + u, one_low, one_high);
    }
    return;
  }
  for (size_t u = 0; u < tile.units; ++u, values += tile.tokens) {
    const uint32_t unit = first + static_cast<uint32_t>(u);
#pragma omp simd
    for (size_t q = 0; q < tile.tokens; ++q) values[q] *= factor(unit, low[q], high[q]);
  }
}

void DropBlocks(const DropoutTile& tile, float* values) {
  const UnitDropout& d = tile.dropout;
  const uint32_t threshold = Threshold(d.rate / static_cast<float>(d.block));
  for (size_t u = 0; u < tile.units; ++u, values += tile.tokens) {
    const int64_t unit = static_cast<int64_t>(tile.first_unit + u);
    const int64_t span_begin = unit / d.span * d.span, span_end = span_begin + d.span;
    const int64_t window = unit - d.block / 2;
    // Not std::max and std::min, which are inline functions (see the rule about includes).
    const int64_t begin = window < span_begin ? span_begin : window;
    const int64_t end = window + d.block < span_end ? window + d.block : span_end;
    for (int64_t origin = begin; origin < end; ++origin) {
#pragma omp simd
      for (size_t q = 0; q < tile.tokens; ++q) {
        const uint32_t bits = Bits(static_cast<uint32_t>(origin), d.key_low[q], d.key_high[q]);
        values[q] = bits < threshold ? 0.0f : values[q];
      }
    }
  }
}

// 1 + exp(logit) is 1 / (1 - p) for p = sigmoid(logit).
Concrete ConcreteOf(const UnitDropout& d) { return {d.logit, 1.0f + __builtin_expf(d.logit)}; }

}  // namespace

void BRAID_DROP_UNITS(const DropoutTile& tile, float* values) {
  const UnitDropout& d = tile.dropout;
  switch (d.kind) {
    case UnitDropout::kBernoulli:
      return Multiply(tile, Bernoulli{Threshold(d.rate), 1.0f / (1.0f - d.rate)}, values);
    case UnitDropout::kBlock:
      return DropBlocks(tile, values);
    case UnitDropout::kConcrete:
      return Multiply(tile, ConcreteOf(d), values);
    default:
      return;
  }
}

// With factor f = (1 - z) / (1 - p): df / dlogit = f (p - z / temperature), and dup * up is the
// product of the dropped activation and its gradient.
float BRAID_CONCRETE_GRADIENT(const DropoutTile& tile, const float* dup, const float* up) {
  const UnitDropout& d = tile.dropout;
  const Concrete concrete = ConcreteOf(d);
  const uint32_t first = static_cast<uint32_t>(tile.first_unit);
  float sum = 0;
  if (tile.tokens == 1) {
    const uint32_t low = d.key_low[0], high = d.key_high[0];
#pragma omp simd reduction(+ : sum)
    for (uint32_t u = 0; u < static_cast<uint32_t>(tile.units); ++u) {
      const float z = concrete.Mask(first + u, low, high);
      sum += dup[u] * up[u] * (d.rate - z / kConcreteTemperature);
    }
    return sum;
  }
  for (size_t u = 0; u < tile.units; ++u, dup += tile.tokens, up += tile.tokens) {
    const uint32_t unit = first + static_cast<uint32_t>(u);
#pragma omp simd reduction(+ : sum)
    for (size_t q = 0; q < tile.tokens; ++q) {
      const float z = concrete.Mask(unit, d.key_low[q], d.key_high[q]);
      sum += dup[q] * up[q] * (d.rate - z / kConcreteTemperature);
    }
  }
  return sum;
}

}  // namespace braid
