// The claims of Lory (arXiv 2405.03133) that `braid reproduce` tests, as pure functions of the
// measurements. docs/reproduction/protocol.md states each; it was written before any run.
#ifndef BRAID_REPRODUCE_LORY_CLAIMS_H_
#define BRAID_REPRODUCE_LORY_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"
#include "reproduce/lory/arm_names.h"

namespace braid {

// First positions that are left out where segments of different lengths are compared.
inline constexpr int32_t kLongestSegment = 128;
inline constexpr double kSmallestShare = 0.05;
inline constexpr double kSmallestDivergence = 0.01;

// Returns claims 1 to 10 in order, also those without measurements.
std::vector<Claim> EvaluateLoryClaims(const Evidence& evidence, const ClaimSettings& settings);

Claim MoeBelowDense(const Evidence& evidence, const ClaimSettings& settings);              // 1
Claim CausalAbovePrefix(const Evidence& evidence, const ClaimSettings& settings);          // 2
Claim SimilarityOrderMatters(const Evidence& evidence, const ClaimSettings& settings);     // 3
Claim SoftMergingOrExpertChoice(const Evidence& evidence, const ClaimSettings& settings);  // 4
Claim ExpertsAreUsed(const Evidence& evidence, const ClaimSettings& settings);             // 5
Claim ExpertsSpecialize(const Evidence& evidence, const ClaimSettings& settings);          // 6
Claim DistinctDomainsGainMost(const Evidence& evidence, const ClaimSettings& settings);    // 7
Claim PromptRoutingIsEnough(const Evidence& evidence, const ClaimSettings& settings);      // 8
Claim RoutingMatters(const Evidence& evidence, const ClaimSettings& settings);             // 9
Claim FirstSegmentLeaks(const Evidence& evidence, const ClaimSettings& settings);          // 10

// The third of the domains (at least one) that is least similar to the training data, and the third
// that is most similar, by DomainProfile.similarity with ties broken by name. Only domains with
// held-out windows count; both sets are empty with fewer than two. "Majority" refers to similarity,
// not to size.
struct DomainContrast {
  std::set<std::string> distinct;
  std::set<std::string> majority;
};
DomainContrast ContrastDomains(const Evidence& evidence);

}  // namespace braid

#endif  // BRAID_REPRODUCE_LORY_CLAIMS_H_
