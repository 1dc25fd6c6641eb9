#include "trainer/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "formats/check.h"

namespace braid {
namespace {

std::vector<double> Softmax(std::span<const float> logits, double temperature) {
  const double top = *std::ranges::max_element(logits);
  std::vector<double> p(logits.size());
  std::ranges::transform(logits, p.begin(),
                         [&](double logit) { return std::exp((logit - top) / temperature); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

int32_t SampleToken(std::span<const float> logits, double temperature, double top_p,
                    double uniform) {
  BRAID_CHECK(!logits.empty() && temperature >= 0 && top_p > 0) << temperature << " " << top_p;
  if (temperature == 0) {
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  const std::vector<double> p = Softmax(logits, temperature);
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return p[a] > p[b]; });
  double mass = 0;
  size_t nucleus = 0;
  while (nucleus < order.size() && mass < top_p) mass += p[order[nucleus++]];
  double left = uniform * mass;
  for (size_t i = 0; i + 1 < nucleus; ++i) {
    left -= p[order[i]];
    if (left < 0) return order[i];
  }
  return order[nucleus - 1];
}

}  // namespace braid
