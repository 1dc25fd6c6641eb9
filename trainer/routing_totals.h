// Router health of one layer, gathered over sequences, micro-batches and ranks.
#ifndef BRAID_TRAINER_ROUTING_TOTALS_H_
#define BRAID_TRAINER_ROUTING_TOTALS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// Sums over decisions, a segment's or a token's. Everything adds up, so totals of
// ranks are added by adding `sums`.
struct RoutingTotals {
  explicit RoutingTotals(int num_experts) : sums(2 + 2 * static_cast<size_t>(num_experts)) {}

  // [0] decisions, [1] entropy in nats, then weight of each expert [E], then
  // decisions in which each expert was active [E]. An expert is active when its
  // weight exceeds 2/E (arXiv 2405.03133, appendix G.1; first versions print
  // E/2, which no weight can reach).
  std::vector<double> sums;

  int num_experts() const { return static_cast<int>(sums.size() / 2) - 1; }
  double num_decisions() const { return sums[0]; }
};

// Adds decisions; `weights` is [decisions, E], rows sum to 1. A weight that is
// not finite makes the sums so; it is never active.
void AddDecisions(std::span<const float> weights, RoutingTotals* totals);

// Adds the routing weights [B, R, E] of sequences of which the first lengths[b]
// positions are real and the others padding; decisions for padding only are left
// out. A decision is for `tokens_per_decision` positions.
void AddBatch(std::span<const float> weights, std::span<const int64_t> lengths,
              int64_t tokens_per_decision, RoutingTotals* totals);

// Totals of `num_decisions` decisions that all have the same weights [E].
RoutingTotals EqualDecisions(std::span<const double> weights, double num_decisions);

// Mean weight of each expert [E]; zeros when nothing was added.
std::vector<double> MeanWeights(const RoutingTotals& totals);

// Decisions in which each expert was active [E].
std::span<const double> ActiveCounts(const RoutingTotals& totals);

// The means: entropy, and effective experts exp(H(mean weights)).
v1::LayerRouting Summarize(int layer, const RoutingTotals& totals);

}  // namespace braid

#endif  // BRAID_TRAINER_ROUTING_TOTALS_H_
