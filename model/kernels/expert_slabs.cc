#include "model/kernels/expert_slabs.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "model/kernels/token_panels.h"

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
  // The pairs of an expert keep the order of their tokens, which determines the order of the sums
  // into the gradients of its matrices.
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] >= 0) sorted.pairs[next[chosen[i]]++] = static_cast<int32_t>(i);
  }
  return sorted;
}

std::vector<ExpertSlab> SlabsOf(const SortedPairs& sorted, int64_t expert, int64_t max_pairs) {
  const int64_t end = sorted.begin[expert + 1], count = end - sorted.begin[expert];
  const int64_t parts = (count + max_pairs - 1) / max_pairs;
  std::vector<ExpertSlab> slabs;
  if (count == 0) return slabs;
  // Evenly, because packing the expert's rows for a last slab of few pairs would hardly pay off.
  const int64_t panels = (count + kPanelTokens - 1) / kPanelTokens;
  const int64_t size = (panels + parts - 1) / parts * kPanelTokens;
  for (int64_t first = sorted.begin[expert]; first < end; first += size) {
    slabs.push_back({expert, first, std::min(size, end - first)});
  }
  return slabs;
}

std::vector<ExpertPhase> CutIntoPhases(const SortedPairs& sorted, int64_t pairs,
                                       std::vector<int64_t>* order) {
  const std::vector<int64_t>& begin = sorted.begin;
  const int64_t num_experts = std::ssize(begin) - 1, total = begin.back();
  const int64_t num_phases = std::max<int64_t>(1, (total + pairs - 1) / pairs);
  const auto count = [&](int64_t e) { return begin[e + 1] - begin[e]; };
  order->resize(num_experts);
  std::iota(order->begin(), order->end(), 0);
  std::vector<ExpertPhase> phases;
  int64_t expert = 0;
  for (int64_t i = 1; i <= num_phases; ++i) {
    const int64_t first = expert, end_pair = total * i / num_phases;
    // An expert belongs to the phase that has more of its pairs.
    while (expert < num_experts && begin[expert] + count(expert) / 2 <= end_pair) ++expert;
    if (i == num_phases) expert = num_experts;
    phases.push_back({first, expert, begin[first], begin[expert]});
    std::stable_sort(order->begin() + first, order->begin() + expert,
                     [&](int64_t a, int64_t b) { return count(a) > count(b); });
  }
  return phases;
}

}  // namespace braid
