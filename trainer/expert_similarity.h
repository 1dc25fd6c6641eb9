// How alike the experts of a layer are: pure functions of their parameters.
#ifndef BRAID_TRAINER_EXPERT_SIMILARITY_H_
#define BRAID_TRAINER_EXPERT_SIMILARITY_H_

#include <span>
#include <vector>

#include "model/language_model.h"

namespace braid {

// The experts' parameters of a layer: gate [E, F, D], up and down. Views into the
// model; empty for a layer without experts.
std::vector<std::span<const float>> ExpertMatrices(LanguageModel& model, int layer);

// Mean cosine over all pairs of experts. An expert's vector is its part of every
// matrix: each of `matrices` holds `num_experts` equal parts, one after the
// other. 1 for copies, about 0 for independent experts; a pair with an expert of
// zeros counts 0, and one expert alone gives 1. Reads everything twice, whatever
// the number of pairs.
//
//   MeanPairwiseCosine({{gate, up, down}}, 8)      // gate [8, F, D], ...
double MeanPairwiseCosine(std::span<const std::span<const float>> matrices, int num_experts);

// The cosine of every two experts [E, E], symmetric, row-major, with ones on the
// diagonal; 0 with an expert of zeros. Reads everything E / 2 times.
std::vector<double> PairwiseCosines(std::span<const std::span<const float>> matrices,
                                    int num_experts);

}  // namespace braid

#endif  // BRAID_TRAINER_EXPERT_SIMILARITY_H_
