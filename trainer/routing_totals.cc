#include "trainer/routing_totals.h"

#include <algorithm>
#include <cmath>

#include "formats/check.h"

namespace braid {
namespace {

double Entropy(std::span<const double> weights) {
  double entropy = 0;
  for (double w : weights) {
    if (w > 0) entropy -= w * std::log(w);
  }
  return entropy;
}

}  // namespace

void AddSegments(std::span<const float> weights, RoutingTotals* totals) {
  const size_t experts = static_cast<size_t>(totals->num_experts());
  BRAID_CHECK(weights.size() % experts == 0) << weights.size() << " " << experts;
  const double active = 2.0 / static_cast<double>(experts);
  for (size_t row = 0; row < weights.size(); row += experts) {
    const std::vector<double> w(weights.begin() + row, weights.begin() + row + experts);
    totals->sums[0] += 1;
    totals->sums[1] += Entropy(w);
    for (size_t e = 0; e < experts; ++e) {
      totals->sums[2 + e] += w[e];
      if (w[e] > active) totals->sums[2 + experts + e] += 1;
    }
  }
}

void AddBatch(std::span<const float> weights, std::span<const int64_t> lengths,
              int64_t segment_length, RoutingTotals* totals) {
  const size_t per_sequence = lengths.empty() ? 0 : weights.size() / lengths.size();
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t segments = (lengths[b] + segment_length - 1) / segment_length;
    const size_t used = static_cast<size_t>(segments) * totals->num_experts();
    AddSegments(weights.subspan(b * per_sequence, std::min(used, per_sequence)), totals);
  }
}

std::vector<double> MeanWeights(const RoutingTotals& totals) {
  std::vector<double> mean(totals.sums.begin() + 2, totals.sums.begin() + 2 + totals.num_experts());
  for (double& w : mean) w /= std::max(totals.num_segments(), 1.0);
  return mean;
}

v1::LayerRouting Summarize(int layer, const RoutingTotals& totals) {
  v1::LayerRouting result;
  const std::vector<double> mean = MeanWeights(totals);
  const auto active = std::span(totals.sums).subspan(2 + mean.size());
  result.set_layer(layer);
  result.set_entropy(totals.sums[1] / std::max(totals.num_segments(), 1.0));
  result.set_effective_experts(std::exp(Entropy(mean)));
  result.set_active_experts(static_cast<int32_t>(
      std::count_if(active.begin(), active.end(), [](double count) { return count > 0; })));
  result.mutable_mean_weights()->Assign(mean.begin(), mean.end());
  return result;
}

}  // namespace braid
