// The claims of docs/reproduction/smoe_dropout.md as pure functions of the measurements.
#ifndef BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_CLAIMS_H_
#define BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Experts N of a layer, and positions of a window that are not scored.
inline constexpr int kSmoeExperts = 16;
inline constexpr int kUnscoredPositions = 1;

// Returns the claims S1 to S7, S10 and S12 in order, also those without measurements.
std::vector<Claim> EvaluateSmoeClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SMOE_DROPOUT_SMOE_DROPOUT_CLAIMS_H_
