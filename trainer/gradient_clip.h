// Clipping by global norm (Pascanu et al., arXiv 1211.5063).
#ifndef BRAID_TRAINER_GRADIENT_CLIP_H_
#define BRAID_TRAINER_GRADIENT_CLIP_H_

#include <span>

namespace braid {

// Summed in double in an order that does not depend on the number of threads. Not
// finite when an element is not.
double SumOfSquares(std::span<const float> gradients);

// Euclidean norm of one rank's gradients, from SumOfSquares.
double GlobalNorm(std::span<const float> gradients);

// What gradients are multiplied by so that their norm is at most `limit`;
// 1 when `limit` is not positive.
double ClipFactor(double norm, double limit);

}  // namespace braid

#endif  // BRAID_TRAINER_GRADIENT_CLIP_H_
