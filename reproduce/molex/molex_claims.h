// The claims of docs/reproduction/molex.md.
#ifndef BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_
#define BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Name of the arm of the method.
inline constexpr char kMolex[] = "molex";

// Returns the claims M1, M4, M6 and the control of equal work (11) in order, also those without
// measurements.
std::vector<Claim> EvaluateMolexClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_MOLEX_MOLEX_CLAIMS_H_
