// The claims of docs/reproduction/emoe.md.
#ifndef BRAID_REPRODUCE_EMOE_EMOE_CLAIMS_H_
#define BRAID_REPRODUCE_EMOE_EMOE_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Name of the arm of the method.
inline constexpr char kEmoe[] = "emoe";
// The same with a quarter of the experts instead of half, and with a trained gate.
inline constexpr char kQuarter[] = "top-4";
inline constexpr char kLearnedGate[] = "learned-gate";
// Scoring of routed tuning as the dense model that the experts are slices of, and scoring of plain
// tuning with experts.
inline constexpr char kRecomposed[] = "recomposed";
inline constexpr char kRoutedAtTest[] = "routed";
// Names of the arms of the base models and of the same models before training.
inline constexpr char kTrainedBase[] = "base";
inline constexpr char kInitialBase[] = "initial";

// Returns the claims E1 to E7, E9, E11, E12, E14 and the control of dropout (15) in order, also
// those without measurements.
std::vector<Claim> EvaluateEmoeClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_EMOE_EMOE_CLAIMS_H_
