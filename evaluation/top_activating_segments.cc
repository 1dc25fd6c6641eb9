#include "evaluation/top_activating_segments.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "base/check.h"

namespace braid {
namespace {

bool IsBetter(const TopActivatingSegment& a, const TopActivatingSegment& b) {
  return std::tuple(-a.weight, a.domain, a.window, a.segment) <
         std::tuple(-b.weight, b.domain, b.window, b.segment);
}

}  // namespace

TopActivatingSegments::TopActivatingSegments(int num_experts, int per_expert)
    : per_expert_(static_cast<size_t>(per_expert)), best_(static_cast<size_t>(num_experts)) {}

void TopActivatingSegments::Offer(int32_t domain, int64_t window, int32_t segment,
                                  std::span<const float> weights) {
  BRAID_CHECK(weights.size() == best_.size()) << weights.size() << " " << best_.size();
  for (size_t e = 0; e < best_.size(); ++e) {
    std::vector<TopActivatingSegment>& best = best_[e];
    if (!(weights[e] >= 0)) continue;  // rejects NaN
    const TopActivatingSegment offered = {domain, window, segment, weights[e]};
    const auto of_window = std::ranges::find_if(best, [&](const TopActivatingSegment& one) {
      return one.domain == domain && one.window == window;
    });
    if (of_window != best.end()) {
      if (!IsBetter(offered, *of_window)) continue;
      best.erase(of_window);
    }
    best.insert(std::ranges::upper_bound(best, offered, IsBetter), offered);
    if (best.size() > per_expert_) best.pop_back();
  }
}

}  // namespace braid
