// Statistics of one run or of a pair of runs that are reported in addition to their losses.
#ifndef BRAID_REPRODUCE_ARM_STATISTICS_H_
#define BRAID_REPRODUCE_ARM_STATISTICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluation/statistics/routing_divergence.h"
#include "reproduce/arm_result.h"

namespace braid {

// Returns whether `step` is in the last tenth of `num_steps`.
bool InLastTenth(int64_t step, int64_t num_steps);

// Returns the training losses without first segments, each averaged with `half_width` steps before
// and after it (fewer at the ends).
std::vector<double> SmoothedLosses(std::span<const v1::StepMetrics> metrics, int64_t half_width);

// Returns the mean training loss without first segments, or of all answers, over the last tenth of
// the steps. Requires steps.
double FinalLoss(std::span<const v1::StepMetrics> metrics);

// Returns the tokens at the first step from which on the smoothed curve stays at or below
// `target_loss`; nullopt if it ends above.
std::optional<int64_t> TokensToReach(std::span<const v1::StepMetrics> metrics, double target_loss,
                                     int64_t half_width);

// Returns the mean loss of the baseline minus that of the model, without first segments, over each
// tenth of the steps that both have; NaN for a tenth without such a step.
std::vector<double> GainByTenths(std::span<const v1::StepMetrics> baseline,
                                 std::span<const v1::StepMetrics> model);

// Return the logarithms of the median seconds of a step, of its mean work in matrix products
// (StepMetrics.gflops), and of the peak memory of the run; nullopt without measured steps.
std::optional<double> LogStepSeconds(const ArmResult& result);
std::optional<double> LogStepWork(const ArmResult& result);
std::optional<double> LogPeakMemory(const ArmResult& result);

// Returns the share of the experts in use (LayerRouting.active_experts: a weight above 2/E at least
// once in 10 steps), averaged over layers. Requires a step with routing.
double ActiveShareOf(const v1::StepMetrics& step, int32_t num_experts);

// Returns the same, averaged over the measurements in the last tenth of the steps; nullopt if there
// are none.
std::optional<double> ActiveShare(const ArmResult& result);

// Returns the divergence of the mean routing weights of the domains for each layer; empty with
// fewer than two domains.
std::vector<double> DivergenceByLayer(const ArmResult& result);

// The loss of a domain without first positions.
struct DomainLoss {
  std::string domain = {};
  // Sum over `tokens` tokens.
  double nats = 0;
  int64_t tokens = 0;
};
std::vector<DomainLoss> LossByDomain(const HeldoutScore& score);
// Returns the mean over the tokens of all domains; NaN without tokens.
double MeanLoss(const HeldoutScore& score);

}  // namespace braid

#endif  // BRAID_REPRODUCE_ARM_STATISTICS_H_
