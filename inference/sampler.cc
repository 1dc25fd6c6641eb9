#include "inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace braid {
namespace {

std::vector<double> Softmax(std::span<const float> logits, double top, double temperature) {
  std::vector<double> p(logits.size());
  std::ranges::transform(logits, p.begin(),
                         [&](double logit) { return std::exp((logit - top) / temperature); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

// Yields tokens from the most likely one on, sorting only as many as are requested.
class ByProbability {
 public:
  explicit ByProbability(const std::vector<double>& p) : less_{p}, heap_(p.size()) {
    std::iota(heap_.begin(), heap_.end(), 0);
    std::ranges::make_heap(heap_, less_);
  }
  bool empty() const { return heap_.empty(); }
  int32_t Next() {
    std::ranges::pop_heap(heap_, less_);
    const int32_t token = heap_.back();
    heap_.pop_back();
    return token;
  }

 private:
  struct Less {
    const std::vector<double>& p;
    bool operator()(int32_t a, int32_t b) const { return p[a] != p[b] ? p[a] < p[b] : a > b; }
  };
  const Less less_;
  std::vector<int32_t> heap_;
};

// Returns the first of `tokens`, which have the given total mass, at which the cumulative mass
// exceeds the fraction `uniform` of it.
int32_t Pick(const std::vector<double>& p, const std::vector<int32_t>& tokens, double mass,
             double uniform) {
  double left = uniform * mass;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    left -= p[tokens[i]];
    if (left < 0) return tokens[i];
  }
  return tokens.back();
}

// A heap yields tokens in order of probability. Building it takes O(V), each token O(log V); a
// nucleus is usually a small part of the vocabulary, so this is faster than sorting. Ties go to the
// lower id, which makes the result independent of the sorting algorithm.
int32_t SampleNucleus(const std::vector<double>& p, double top_p, double uniform) {
  ByProbability order(p);
  std::vector<int32_t> nucleus;
  double mass = 0;
  while (!order.empty() && mass < top_p) {
    nucleus.push_back(order.Next());
    mass += p[nucleus.back()];
  }
  return Pick(p, nucleus, mass, uniform);
}

// Samples from the whole distribution. Equal to SampleNucleus with mass 1, but computes only the
// tokens up to the sampled one.
int32_t SampleAny(const std::vector<double>& p, double uniform) {
  ByProbability order(p);
  double left = uniform * std::accumulate(p.begin(), p.end(), 0.0);
  while (true) {
    const int32_t token = order.Next();
    left -= p[token];
    if (left < 0 || order.empty()) return token;
  }
}

}  // namespace

absl::StatusOr<int32_t> SampleToken(std::span<const float> logits, double temperature, double top_p,
                                    double uniform) {
  BRAID_CHECK(!logits.empty() && temperature >= 0 && top_p > 0) << temperature << " " << top_p;
  const auto top = std::ranges::max_element(logits);
  const bool numbers = std::ranges::none_of(logits, [](float logit) { return std::isnan(logit); });
  if (!numbers || !std::isfinite(*top)) {
    return absl::DataLossError(
        "the model's logits are not finite: its weights are damaged, or its training diverged");
  }
  if (temperature == 0) return static_cast<int32_t>(top - logits.begin());
  const std::vector<double> p = Softmax(logits, *top, temperature);
  return top_p < 1 ? SampleNucleus(p, top_p, uniform) : SampleAny(p, uniform);
}

}  // namespace braid
