#include "trainer/routing_totals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace braid {
namespace {

double EntropyTerm(double w) { return w > 0 ? -w * std::log(w) : 0.0; }

}  // namespace

void AddDecisions(std::span<const float> weights, RoutingTotals* totals,
                  std::span<const int32_t> chosen) {
  const size_t experts = static_cast<size_t>(totals->num_experts());
  BRAID_CHECK(weights.size() % experts == 0) << weights.size() << " " << experts;
  // Where experts are chosen, the choices count as active and weights never do.
  const double active =
      chosen.empty() ? 2.0 / static_cast<double>(experts) : std::numeric_limits<double>::infinity();
  double* const sums = totals->sums.data();
  for (int32_t e : chosen) {
    if (e >= 0) sums[2 + experts + static_cast<size_t>(e)] += 1;
  }
  for (size_t row = 0; row < weights.size(); row += experts) {
    sums[0] += 1;
    for (size_t e = 0; e < experts; ++e) {
      const double w = weights[row + e];
      sums[1] += EntropyTerm(w);
      sums[2 + e] += w;
      if (w > active) sums[2 + experts + e] += 1;
    }
  }
}

void AddBatch(std::span<const float> weights, std::span<const int64_t> lengths,
              int64_t tokens_per_decision, RoutingTotals* totals, std::span<const int32_t> chosen) {
  const size_t experts = static_cast<size_t>(totals->num_experts());
  const size_t per_sequence = lengths.empty() ? 0 : weights.size() / experts / lengths.size();
  const size_t active = weights.empty() ? 0 : chosen.size() * experts / weights.size();
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t decisions = (lengths[b] + tokens_per_decision - 1) / tokens_per_decision;
    const size_t used = std::min(static_cast<size_t>(decisions), per_sequence);
    AddDecisions(weights.subspan(b * per_sequence * experts, used * experts), totals,
                 chosen.subspan(b * per_sequence * active, used * active));
  }
}

RoutingTotals EqualDecisions(std::span<const double> weights, double num_decisions) {
  RoutingTotals totals(static_cast<int>(weights.size()));
  const double active = 2.0 / static_cast<double>(weights.size());
  totals.sums[0] = num_decisions;
  for (size_t e = 0; e < weights.size(); ++e) {
    totals.sums[1] += num_decisions * EntropyTerm(weights[e]);
    totals.sums[2 + e] = num_decisions * weights[e];
    if (weights[e] > active) totals.sums[2 + weights.size() + e] = num_decisions;
  }
  return totals;
}

std::vector<double> MeanWeights(const RoutingTotals& totals) {
  std::vector<double> mean(totals.sums.begin() + 2, totals.sums.begin() + 2 + totals.num_experts());
  for (double& w : mean) w /= std::max(totals.num_decisions(), 1.0);
  return mean;
}

std::span<const double> ActiveCounts(const RoutingTotals& totals) {
  return std::span(totals.sums).last(totals.num_experts());
}

v1::LayerRouting Summarize(int layer, const RoutingTotals& totals) {
  v1::LayerRouting result;
  const std::vector<double> mean = MeanWeights(totals);
  double mean_entropy = 0;
  for (double w : mean) mean_entropy += EntropyTerm(w);
  result.set_layer(layer);
  result.set_entropy(totals.sums[1] / std::max(totals.num_decisions(), 1.0));
  result.set_effective_experts(std::exp(mean_entropy));
  result.mutable_mean_weights()->Assign(mean.begin(), mean.end());
  return result;
}

void SetLoads(const RoutingTotals& totals, v1::LayerRouting* routing) {
  const std::span<const double> counts = ActiveCounts(totals);
  const double pairs = std::max(std::accumulate(counts.begin(), counts.end(), 0.0), 1.0);
  const double even = 1 / static_cast<double>(counts.size());
  int starved = 0;
  double busiest = 0, entropy = 0;
  for (double count : counts) {
    const double load = count / pairs;
    routing->add_load(load);
    busiest = std::max(busiest, load);
    starved += load < even / 4;
    entropy += EntropyTerm(load);
  }
  routing->set_busiest_over_mean(busiest / even);
  routing->set_starved_experts(starved);
  routing->set_load_entropy(entropy);
}

}  // namespace braid
