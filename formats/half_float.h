// Conversion of the two 16-bit floating-point formats of checkpoints, as bits: IEEE 754 binary16
// ("F16", 5 exponent bits) and bfloat16 ("BF16", the upper half of a float). Narrowing rounds to
// nearest, ties to even; NaN stays NaN.
#ifndef BRAID_FORMATS_HALF_FLOAT_H_
#define BRAID_FORMATS_HALF_FLOAT_H_

#include <cstdint>

namespace braid {

// Widen exactly.
float FloatFromF16(uint16_t bits);
float FloatFromBf16(uint16_t bits);

// Narrow; F16 overflows to infinity from 65520 on.
uint16_t F16FromFloat(float value);
uint16_t Bf16FromFloat(float value);

}  // namespace braid

#endif  // BRAID_FORMATS_HALF_FLOAT_H_
