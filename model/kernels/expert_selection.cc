#include "model/kernels/expert_selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// Rows that one thread processes at a time.
constexpr int64_t kSelectionRows = 256;

// `ranks` [N] is room to work.
void SelectRow(const float* scores, int64_t num_experts, int64_t first_rank, int64_t k,
               int32_t* ranks, int32_t* chosen) {
  Vector().rank_scores(scores, num_experts, ranks);
  for (int64_t e = 0; e < num_experts; ++e) {
    if (ranks[e] >= first_rank && ranks[e] < first_rank + k) *chosen++ = static_cast<int32_t>(e);
  }
}

}  // namespace

int64_t SelectExperts(const float* scores, int64_t num_tokens, int64_t num_experts, int64_t k,
                      ExpertSelection selection, int32_t* chosen) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const bool lowest = selection == ExpertSelection::kBottom;
  const int64_t first = selection == ExpertSelection::kNotTop ? std::min(k, num_experts - k) : 0;
  int64_t undefined = kNone;
#pragma omp parallel reduction(min : undefined) if (num_tokens > kSelectionRows)
  {
    std::vector<int32_t> ranks(num_experts);
    std::vector<float> negated(num_experts);
#pragma omp for schedule(static, kSelectionRows)
    for (int64_t t = 0; t < num_tokens; ++t) {
      const float* const row = scores + t * num_experts;
      // Comparisons with NaN are false, so ranks would repeat, and more than k experts could be
      // written.
      if (std::any_of(row, row + num_experts, [](float s) { return std::isnan(s); })) {
        undefined = std::min(undefined, t);
        std::iota(chosen + t * k, chosen + (t + 1) * k, 0);
        continue;
      }
      // The lowest scores are the highest negated ones, and ties still go to the lowest index.
      if (lowest) std::transform(row, row + num_experts, negated.begin(), std::negate<>());
      SelectRow(lowest ? negated.data() : row, num_experts, first, k, ranks.data(), chosen + t * k);
    }
  }
  return undefined == kNone ? -1 : undefined;
}

}  // namespace braid
