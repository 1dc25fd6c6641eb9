// Similarity of the experts of a layer, as pure functions of their parameters.
#ifndef BRAID_TRAINER_EXPERT_SIMILARITY_H_
#define BRAID_TRAINER_EXPERT_SIMILARITY_H_

#include <span>
#include <vector>

#include "model/language_model.h"

namespace braid {

// Returns the expert parameters of a layer without adapters: gate [E, F, D], up and down. The spans
// are views into the model; empty for a layer without experts.
std::vector<std::span<const float>> ExpertMatrices(LanguageModel& model, int layer);

// Returns the MeanPairwiseCosine of the experts of a layer as the model computes them, adapters
// included: those of experts take a copy of the matrices that they change.
double ExpertCosine(LanguageModel& model, int layer);

// Returns the mean cosine over all pairs of experts. The vector of an expert consists of its part
// of every matrix; each of `matrices` holds `num_experts` equal parts, one after the other. 1 for
// identical experts, about 0 for independent ones; a pair with a zero vector counts as 0, and a
// single expert gives 1. Reads everything twice, whatever the number of pairs.
//
//   MeanPairwiseCosine({{gate, up, down}}, 8)      // gate [8, F, D], ...
double MeanPairwiseCosine(std::span<const std::span<const float>> matrices, int num_experts);

// Returns the cosine of every two experts, [E, E] row-major: symmetric, with ones on the diagonal,
// and 0 for zero vectors. Reads everything E / 2 times.
std::vector<double> PairwiseCosines(std::span<const std::span<const float>> matrices,
                                    int num_experts);

}  // namespace braid

#endif  // BRAID_TRAINER_EXPERT_SIMILARITY_H_
