#include "pipeline/heldout_split.h"

#include <xxhash.h>

#include <cmath>

namespace braid {

bool IsHeldOut(std::string_view id, uint64_t seed, double fraction) {
  const uint64_t hash = XXH3_64bits_withSeed(id.data(), id.size(), seed);
  const double uniform = std::ldexp(static_cast<double>(hash >> 11), -53);  // in [0, 1)
  return uniform < fraction;
}

}  // namespace braid
