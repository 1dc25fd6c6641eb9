// The order in which the routed FFN processes (token, expert) pairs. Private to routed_ffn.
#ifndef BRAID_MODEL_KERNELS_EXPERT_SLABS_H_
#define BRAID_MODEL_KERNELS_EXPERT_SLABS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// The pairs of a group of tokens, sorted by expert and, within an expert, by token. Pair t * k + j
// is the j-th expert of token t of the group; absent pairs are left out.
struct SortedPairs {
  std::vector<int32_t> pairs;
  std::vector<int64_t> begin;  // [N + 1]: the pairs of expert e are [begin[e], begin[e + 1])
};

// Returns the counting sort of chosen [tokens, k] with values in [0, num_experts), or -1 for an
// absent pair.
SortedPairs SortByExpert(std::span<const int32_t> chosen, int64_t num_experts);

// Consecutive sorted pairs of one expert.
struct ExpertSlab {
  int64_t expert;
  int64_t first;
  int64_t count;
};

// Cuts the pairs of each expert into slabs of at most `max_pairs`; an expert without pairs has
// none.
std::vector<ExpertSlab> CutIntoSlabs(const SortedPairs& sorted, int64_t max_pairs);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_EXPERT_SLABS_H_
