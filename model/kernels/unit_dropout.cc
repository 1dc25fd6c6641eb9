#include "model/kernels/unit_dropout.h"

#include "base/splitmix.h"

namespace braid {

UnitDropout UnitDropout::From(int64_t token) const {
  UnitDropout later = *this;
  if (kind == kNone) return later;
  later.key_low += token;
  later.key_high += token;
  return later;
}

// The hash lowbias32 (C. Wellons, hash-prospector), with the halves of the key added before its two
// products. It needs only products of 32 bits: AVX2 cannot multiply lanes of 64 bits.
uint32_t DropoutBits(uint32_t unit, uint32_t key_low, uint32_t key_high) {
  uint32_t x = unit * static_cast<uint32_t>(kGolden64 >> 32) + key_low;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = ((x ^ (x >> 15)) + key_high) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

}  // namespace braid
