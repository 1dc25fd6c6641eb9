// Seeded permutations that are the same on every machine and with every standard library, unlike
// std::shuffle.
#ifndef BRAID_PIPELINE_ORDERING_RANDOM_PERMUTATION_H_
#define BRAID_PIPELINE_ORDERING_RANDOM_PERMUTATION_H_

#include <cstdint>
#include <vector>

namespace braid {

// Returns a uniform permutation of 0 .. n-1 (Fisher-Yates over SplitMix64). O(n).
// Requires: 0 <= n < 2^32.
std::vector<uint32_t> RandomPermutation(int64_t n, uint64_t seed);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_RANDOM_PERMUTATION_H_
