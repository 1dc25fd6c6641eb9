// The two 16-bit floating-point formats of checkpoints, as bits: IEEE 754
// binary16 ("F16", 5 exponent bits) and bfloat16 ("BF16", the upper half of a
// float). To 16 bits rounds to nearest, ties to even; a NaN stays one.
#ifndef BRAID_FORMATS_HALF_FLOAT_H_
#define BRAID_FORMATS_HALF_FLOAT_H_

#include <cstdint>

namespace braid {

// Exact.
float FloatFromF16(uint16_t bits);
float FloatFromBf16(uint16_t bits);

// Infinite from 65520 on.
uint16_t F16FromFloat(float value);
uint16_t Bf16FromFloat(float value);

}  // namespace braid

#endif  // BRAID_FORMATS_HALF_FLOAT_H_
