// Packing of examples into sequences of a fixed length, none of which is cut.
#ifndef BRAID_PIPELINE_SUPERVISED_EXAMPLE_PACKING_H_
#define BRAID_PIPELINE_SUPERVISED_EXAMPLE_PACKING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// Packs examples by best fit decreasing: each, the longest first and equals in an order drawn with
// `seed`, goes into the sequence with the least room that suffices, the first of equals, or into a
// new one. Returns the examples of each sequence in the order they were added. O(n log n).
// Requires 1 <= lengths[i] <= capacity, in tokens.
//
// At most 11/9 of the fewest sequences possible, plus 6/9 (Dosa 2007).
std::vector<std::vector<uint32_t>> PackBestFit(std::span<const int32_t> lengths, int64_t capacity,
                                               uint64_t seed);

// Returns one sequence for each example.
std::vector<std::vector<uint32_t>> PackSingly(int64_t num_examples);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_EXAMPLE_PACKING_H_
