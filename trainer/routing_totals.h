// Router health of one layer, gathered over sequences, micro-batches and ranks.
#ifndef BRAID_TRAINER_ROUTING_TOTALS_H_
#define BRAID_TRAINER_ROUTING_TOTALS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// Sums over segments. Everything adds up, so totals of ranks are added by adding
// `sums`.
struct RoutingTotals {
  explicit RoutingTotals(int num_experts) : sums(2 + 2 * static_cast<size_t>(num_experts)) {}

  // [0] segments, [1] entropy in nats, then weight of each expert [E], then
  // segments in which each expert was active (weight > 2/E) [E].
  std::vector<double> sums;

  int num_experts() const { return static_cast<int>(sums.size() / 2) - 1; }
  double num_segments() const { return sums[0]; }
};

// Adds segments; `weights` is [segments, E], rows sum to 1.
void AddSegments(std::span<const float> weights, RoutingTotals* totals);

// Adds the routing weights [B, N, E] of sequences of which the first lengths[b]
// positions are real and the others padding; segments of padding only are left
// out. A segment is `segment_length` positions.
void AddBatch(std::span<const float> weights, std::span<const int64_t> lengths,
              int64_t segment_length, RoutingTotals* totals);

// Mean weight of each expert [E]; zeros when nothing was added.
std::vector<double> MeanWeights(const RoutingTotals& totals);

// The means: entropy, effective experts exp(H(mean weights)), experts active at
// least once. An expert is active for a segment when its weight exceeds 2/E
// (arXiv 2405.03133 prints E/2, which no weight can reach).
v1::LayerRouting Summarize(int layer, const RoutingTotals& totals);

}  // namespace braid

#endif  // BRAID_TRAINER_ROUTING_TOTALS_H_
