// How alike the experts of a layer are: a pure function of their parameters.
#ifndef BRAID_TRAINER_EXPERT_SIMILARITY_H_
#define BRAID_TRAINER_EXPERT_SIMILARITY_H_

#include <span>

namespace braid {

// Mean cosine over all pairs of experts. An expert's vector is its part of every
// matrix: each of `matrices` holds `num_experts` equal parts, one after the
// other. 1 for copies, about 0 for independent experts; a pair with an expert of
// zeros counts 0, and one expert alone gives 1. Reads everything twice, whatever
// the number of pairs.
//
//   MeanPairwiseCosine({{gate, up, down}}, 8)      // gate [8, F, D], ...
double MeanPairwiseCosine(std::span<const std::span<const float>> matrices, int num_experts);

}  // namespace braid

#endif  // BRAID_TRAINER_EXPERT_SIMILARITY_H_
