// Numbers about one run or one pair of runs that are reported beside their losses.
#ifndef BRAID_REPRODUCE_ARM_STATISTICS_H_
#define BRAID_REPRODUCE_ARM_STATISTICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reproduce/arm_result.h"

namespace braid {

// Training losses without first segments, each averaged with the `half_width` steps before and
// after it, fewer at the ends.
std::vector<double> SmoothedLosses(std::span<const v1::StepMetrics> metrics, int64_t half_width);

// Mean training loss without first segments over the last tenth of the steps. Requires steps.
double FinalLoss(std::span<const v1::StepMetrics> metrics);

// Tokens trained on at the first step from which the smoothed curve stays at or below
// `target_loss`; nullopt when it ends above.
std::optional<int64_t> TokensToReach(std::span<const v1::StepMetrics> metrics, double target_loss,
                                     int64_t half_width);

// Mean of baseline minus model over each tenth of the steps that both have, without first
// segments; NaN for a tenth without such a step.
std::vector<double> GainByTenths(std::span<const v1::StepMetrics> baseline,
                                 std::span<const v1::StepMetrics> model);

// Share of the experts in use (LayerRouting.active_experts: weight over 2/E at least once in 10
// steps), averaged over layers. Requires a step with routing.
double ActiveShareOf(const v1::StepMetrics& step, int32_t num_experts);

// The same averaged over the measurements of the last tenth of the steps; nullopt without
// measurements there.
std::optional<double> ActiveShare(const ArmResult& result);

// Entropy of the mean minus the mean of the entropies, in nats: 0 when all distributions are the
// same, log(number) when no two overlap. Each distribution is [outcomes] and sums to 1.
double JensenShannonDivergence(std::span<const std::vector<double>> distributions);

// Of the domains' mean routing weights, by layer; empty with fewer than two domains.
std::vector<double> DivergenceByLayer(const ArmResult& result);

// The loss of each domain without first positions.
struct DomainLoss {
  std::string domain = {};
  // Sum over `tokens` tokens.
  double nats = 0;
  int64_t tokens = 0;
};
std::vector<DomainLoss> LossByDomain(const HeldoutScore& score);

}  // namespace braid

#endif  // BRAID_REPRODUCE_ARM_STATISTICS_H_
