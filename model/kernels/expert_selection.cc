#include "model/kernels/expert_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace braid {
namespace {

// Rows that one thread processes at a time.
constexpr int64_t kSelectionRows = 256;

void SelectRow(const float* scores, int64_t num_experts, int64_t k, ExpertSelection selection,
               int32_t* ranking, int32_t* chosen) {
  const int64_t first = selection == ExpertSelection::kNotTop ? std::min(k, num_experts - k) : 0;
  std::iota(ranking, ranking + num_experts, 0);
  const auto rank = [&](auto before) {
    std::partial_sort(ranking, ranking + first + k, ranking + num_experts,
                      [&](int32_t a, int32_t b) {
                        if (scores[a] != scores[b]) return before(scores[a], scores[b]);
                        return a < b;
                      });
  };
  if (selection == ExpertSelection::kBottom) {
    rank(std::less<>());
  } else {
    rank(std::greater<>());
  }
  std::copy_n(ranking + first, k, chosen);
  std::sort(chosen, chosen + k);
}

}  // namespace

int64_t SelectExperts(const float* scores, int64_t num_tokens, int64_t num_experts, int64_t k,
                      ExpertSelection selection, int32_t* chosen) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t undefined = kNone;
#pragma omp parallel reduction(min : undefined) if (num_tokens > kSelectionRows)
  {
    std::vector<int32_t> ranking(num_experts);
#pragma omp for schedule(static, kSelectionRows)
    for (int64_t t = 0; t < num_tokens; ++t) {
      const float* const row = scores + t * num_experts;
      if (std::any_of(row, row + num_experts, [](float s) { return std::isnan(s); })) {
        undefined = std::min(undefined, t);
        std::iota(chosen + t * k, chosen + (t + 1) * k, 0);
      } else {
        SelectRow(row, num_experts, k, selection, ranking.data(), chosen + t * k);
      }
    }
  }
  return undefined == kNone ? -1 : undefined;
}

}  // namespace braid
