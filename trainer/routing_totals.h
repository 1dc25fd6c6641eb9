// Router health of one layer, summed over sequences, micro-batches and ranks.
#ifndef BRAID_TRAINER_ROUTING_TOTALS_H_
#define BRAID_TRAINER_ROUTING_TOTALS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// Sums over decisions (of segments or tokens). All elements are additive, so the totals of two
// ranks are combined by adding their `sums`.
struct RoutingTotals {
  explicit RoutingTotals(int num_experts) : sums(2 + 2 * static_cast<size_t>(num_experts)) {}

  // [0] number of decisions, [1] entropy in nats, then the weight of each expert [E], then the
  // number of decisions in which each expert was active [E]. An expert is active when its weight
  // exceeds 2/E (arXiv 2405.03133, appendix G.1; the first versions print E/2, which no weight can
  // reach).
  std::vector<double> sums;

  int num_experts() const { return static_cast<int>(sums.size() / 2) - 1; }
  double num_decisions() const { return sums[0]; }
};

// Adds decisions; `weights` is [decisions, E] with rows that sum to 1. A weight that is not finite
// makes the sums not finite and never counts as active. `chosen` is empty, or holds the experts
// that each decision uses, [decisions, k] (TOKEN_CHOICE), -1 for none: these are then its active
// experts.
void AddDecisions(std::span<const float> weights, RoutingTotals* totals,
                  std::span<const int32_t> chosen = {});

// Adds the routing weights [B, R, E] of sequences whose first lengths[b] positions are real; the
// rest is padding. Decisions for padding only are left out. A decision covers `tokens_per_decision`
// positions. `chosen` is empty or [B, R, k].
void AddBatch(std::span<const float> weights, std::span<const int64_t> lengths,
              int64_t tokens_per_decision, RoutingTotals* totals,
              std::span<const int32_t> chosen = {});

// Returns the totals of `num_decisions` decisions that all have the weights [E].
RoutingTotals EqualDecisions(std::span<const double> weights, double num_decisions);

// Returns the mean weight of each expert [E]; zeros when there are no decisions.
std::vector<double> MeanWeights(const RoutingTotals& totals);

// Returns the number of decisions in which each expert was active [E].
std::span<const double> ActiveCounts(const RoutingTotals& totals);

// Returns the means: entropy, and effective experts exp(H(mean weights)).
v1::LayerRouting Summarize(int layer, const RoutingTotals& totals);

// Sets the loads of a layer of TOKEN_CHOICE from the decisions that used each expert.
void SetLoads(const RoutingTotals& totals, v1::LayerRouting* routing);

}  // namespace braid

#endif  // BRAID_TRAINER_ROUTING_TOTALS_H_
