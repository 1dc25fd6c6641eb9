#include "pipeline/ordering/random_permutation.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

// Returns a uniform number in [0, bound). Rejects draws below 2^64 mod bound, which would make
// small values more likely.
uint64_t RandomBelow(uint64_t bound, uint64_t* state) {
  const uint64_t rejected = (0 - bound) % bound;
  uint64_t draw = NextSplitMix64(state);
  while (draw < rejected) draw = NextSplitMix64(state);
  return draw % bound;
}

}  // namespace

std::vector<uint32_t> RandomPermutation(int64_t n, uint64_t seed) {
  BRAID_CHECK(n >= 0 && n <= int64_t{0xFFFFFFFF}) << n;
  std::vector<uint32_t> permutation(n);
  std::iota(permutation.begin(), permutation.end(), 0u);
  uint64_t state = seed;
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(permutation[i], permutation[RandomBelow(i + 1, &state)]);
  }
  return permutation;
}

}  // namespace braid
