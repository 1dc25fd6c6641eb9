// Clipping by global norm (Pascanu et al., arXiv 1211.5063).
#ifndef BRAID_TRAINER_GRADIENT_CLIP_H_
#define BRAID_TRAINER_GRADIENT_CLIP_H_

#include <span>

namespace braid {

// Returns the sum of squares in double precision, in an order that does not depend on the number of
// threads. Not finite when an element is not.
double SumOfSquares(std::span<const float> gradients);

// Returns the Euclidean norm of one rank's gradients, from SumOfSquares.
double GlobalNorm(std::span<const float> gradients);

// Returns the factor that scales gradients of norm `norm` to a norm of at most `limit`; 1 when
// `limit` is not positive.
double ClipFactor(double norm, double limit);

}  // namespace braid

#endif  // BRAID_TRAINER_GRADIENT_CLIP_H_
