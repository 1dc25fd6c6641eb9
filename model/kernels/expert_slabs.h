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

// Experts whose pairs are processed before those of the next phase: the ones of
// order[first_expert, end_expert), whose sorted pairs are [first_pair, end_pair). Experts that have
// more pairs come first in `order`, so that threads which take them in turn end together.
struct ExpertPhase {
  int64_t first_expert, end_expert;
  int64_t first_pair, end_pair;

  int64_t num_pairs() const { return end_pair - first_pair; }
};

// Cuts the pairs of an expert evenly into slabs of at most `max_pairs`, multiples of 64 but the
// last. An expert without pairs has none.
std::vector<ExpertSlab> SlabsOf(const SortedPairs& sorted, int64_t expert, int64_t max_pairs);

// Cuts the experts into the fewest phases of `pairs` pairs on average or fewer, at least one, as
// even as whole experts allow. `order` receives all experts, those of each phase together.
std::vector<ExpertPhase> CutIntoPhases(const SortedPairs& sorted, int64_t pairs,
                                       std::vector<int64_t>* order);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_EXPERT_SLABS_H_
