// The claims that `braid reproduce` puts to the test, as pure functions of what was measured;
// docs/reproduction.md states each, and was written before any run.
#ifndef BRAID_REPRODUCE_CLAIMS_H_
#define BRAID_REPRODUCE_CLAIMS_H_

#include <vector>

#include "reproduce/claim.h"

namespace braid {

// Smallest effects of interest. Losses: 0.01 nats per token is 1 % of perplexity.
inline constexpr double kSmallestGain = 0.01;
// Positions left out where segments of different lengths are compared.
inline constexpr int32_t kLongestSegment = 128;
// How far two losses may be apart and still be called equal: 3 % of perplexity.
inline constexpr double kEqualLosses = 0.03;
inline constexpr double kSmallestShare = 0.05;
inline constexpr double kSmallestDivergence = 0.01;
// Widens an interval of one seed, nats per token: above the standard deviation between seeds that a
// pilot saw (0.016).
inline constexpr double kSingleSeedAllowance = 0.02;

// Of an effect that is to be a lower loss.
inline constexpr VerdictRule kGain = {EffectRule::kPositive, kSmallestGain, kSingleSeedAllowance};

// Claims 1 to 10, in order, whatever was measured.
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

// The third of the domains (at least one) that is least, and the third that is most, like the
// training data, by DomainProfile.similarity; ties by name. Only domains with held-out windows.
// Both empty with fewer than two. "Majority" is by likeness, not by size.
struct DomainContrast {
  std::set<std::string> distinct;
  std::set<std::string> majority;
};
DomainContrast ContrastDomains(const Evidence& evidence);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIMS_H_
