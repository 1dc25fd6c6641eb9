// The claims that `braid reproduce` tests, as pure functions of the measurements.
// docs/reproduction/protocol.md states each; it was written before any run.
#ifndef BRAID_REPRODUCE_CLAIMS_H_
#define BRAID_REPRODUCE_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Smallest effects of interest. For losses, 0.01 nats per token is 1 % of perplexity.
inline constexpr double kSmallestGain = 0.01;
// First positions that are left out where segments of different lengths are compared.
inline constexpr int32_t kLongestSegment = 128;
// Largest difference of two losses that count as equal: 3 % of perplexity.
inline constexpr double kEqualLosses = 0.03;
inline constexpr double kSmallestShare = 0.05;
inline constexpr double kSmallestDivergence = 0.01;
// Amount in nats per token by which an interval of one seed is widened. It is above the standard
// deviation between seeds in a pilot experiment (0.016).
inline constexpr double kSingleSeedAllowance = 0.02;

// The rule for an effect that is claimed to be a lower loss.
inline constexpr VerdictRule kGain = {EffectRule::kPositive, kSmallestGain, kSingleSeedAllowance};

// Returns claims 1 to 10 in order, also those without measurements.
std::vector<Claim> EvaluateClaims(const Evidence& evidence, const ClaimSettings& settings);

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

#endif  // BRAID_REPRODUCE_CLAIMS_H_
