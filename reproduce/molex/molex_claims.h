// The claims of docs/reproduction/molex.md.
#ifndef BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_
#define BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_

#include <string>
#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Name of the arm of the method.
inline constexpr char kMolex[] = "molex";

// Uniform noise on the embeddings with which tuned models are scored, in standard deviations.
inline constexpr double kEmbeddingNoises[] = {0.1, 0.2, 0.4};
// Returns the name of the scoring with such noise.
std::string NoisyScoring(double noise);

// Returns the claims M1, M3 to M8 and the control of equal work (11) in order, also those without
// measurements.
std::vector<Claim> EvaluateMolexClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_
