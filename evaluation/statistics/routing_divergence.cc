#include "evaluation/statistics/routing_divergence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace braid {

double Entropy(std::span<const double> weights) {
  double entropy = 0;
  for (const double w : weights) {
    if (w > 0) entropy -= w * std::log(w);
  }
  return entropy;
}

double JensenShannonDivergence(std::span<const std::vector<double>> distributions) {
  if (distributions.size() < 2) return 0;
  const double share = 1.0 / static_cast<double>(distributions.size());
  std::vector<double> mean(distributions[0].size());
  double mean_entropy = 0;
  for (const std::vector<double>& distribution : distributions) {
    BRAID_CHECK(distribution.size() == mean.size()) << distribution.size() << " " << mean.size();
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += share * distribution[i];
    mean_entropy += share * Entropy(distribution);
  }
  // Rounding may make the result slightly negative for equal distributions.
  return std::max(0.0, Entropy(mean) - mean_entropy);
}

}  // namespace braid
