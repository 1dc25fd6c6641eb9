#include "model/kernels/expert_slabs.h"

#include <algorithm>

#include "base/check.h"

namespace braid {

SortedPairs SortByExpert(std::span<const int32_t> chosen, int64_t num_experts) {
  SortedPairs sorted;
  sorted.begin.assign(num_experts + 1, 0);
  for (int32_t expert : chosen) {
    BRAID_CHECK(expert >= -1 && expert < num_experts) << expert << " of " << num_experts;
    if (expert >= 0) ++sorted.begin[expert + 1];
  }
  for (int64_t e = 0; e < num_experts; ++e) sorted.begin[e + 1] += sorted.begin[e];
  std::vector<int64_t> next(sorted.begin.begin(), sorted.begin.end() - 1);
  sorted.pairs.resize(sorted.begin.back());
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] >= 0) sorted.pairs[next[chosen[i]]++] = static_cast<int32_t>(i);
  }
  return sorted;
}

std::vector<ExpertSlab> CutIntoSlabs(const SortedPairs& sorted, int64_t max_pairs) {
  std::vector<ExpertSlab> slabs;
  for (int64_t e = 0; e + 1 < static_cast<int64_t>(sorted.begin.size()); ++e) {
    const int64_t end = sorted.begin[e + 1];
    for (int64_t first = sorted.begin[e]; first < end; first += max_pairs) {
      slabs.push_back({e, first, std::min(max_pairs, end - first)});
    }
  }
  return slabs;
}

}  // namespace braid
