#include "conversion/unit_order.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "conversion/balanced_clusters.h"

namespace braid {
namespace {

// Fisher and Yates.
void Shuffle(uint64_t seed, UnitOrder* order) {
  uint64_t state = Mix64(seed, "random experts");
  for (size_t i = order->size(); i > 1; --i) {
    const double unit = UnitInterval(NextSplitMix64(&state));
    std::swap((*order)[i - 1], (*order)[static_cast<size_t>(unit * i)]);
  }
}

absl::Status CheckDivides(int64_t num_units, int32_t num_experts) {
  if (num_experts >= 1 && num_units % num_experts == 0) return absl::OkStatus();
  const auto divides = [&](int64_t n) { return n >= 1 && num_units % n == 0; };
  int64_t below = std::clamp<int64_t>(num_experts, 1, num_units), above = below;
  while (!divides(below)) --below;
  while (!divides(above)) ++above;
  return absl::InvalidArgumentError(absl::StrCat(
      num_units, " hidden units cannot be split into ", num_experts, " experts of the same size; ",
      below == above ? "possible: " : absl::StrCat("the nearest numbers are ", below, " and "),
      above));
}

template <class Copy>
void CopyRows(size_t num_values, std::span<const int32_t> order, const Copy& copy) {
  BRAID_CHECK(!order.empty() && num_values % order.size() == 0);
  const size_t dimension = num_values / order.size();
  for (size_t i = 0; i < order.size(); ++i) copy(i * dimension, order[i] * dimension, dimension);
}

}  // namespace

absl::StatusOr<UnitOrder> SplitUnits(ExpertSplit split, std::span<const float> keys,
                                     int64_t num_units, int64_t dimension, int32_t num_experts,
                                     uint64_t seed) {
  RETURN_IF_ERROR(CheckDivides(num_units, num_experts));
  UnitOrder order(num_units);
  std::iota(order.begin(), order.end(), 0);
  if (split == ExpertSplit::kContiguous) return order;
  if (split == ExpertSplit::kKeys) {
    ASSIGN_OR_RETURN(const BalancedClusters clusters,
                     ClusterBalanced(keys, num_units, dimension, num_experts, {.seed = seed}));
    std::ranges::stable_sort(order, {}, [&](int32_t unit) { return clusters.cluster_of[unit]; });
    return order;
  }
  Shuffle(seed, &order);
  const int64_t expert_size = num_units / num_experts;
  for (int64_t begin = 0; begin < num_units; begin += expert_size) {
    std::sort(order.begin() + begin, order.begin() + begin + expert_size);
  }
  return order;
}

void ReorderUnits(std::span<const float> rows, std::span<const int32_t> order,
                  std::span<float> reordered) {
  CopyRows(rows.size(), order, [&](size_t to, size_t from, size_t n) {
    std::ranges::copy(rows.subspan(from, n), reordered.begin() + to);
  });
}

void RestoreUnits(std::span<const float> rows, std::span<const int32_t> order,
                  std::span<float> restored) {
  CopyRows(rows.size(), order, [&](size_t from, size_t to, size_t n) {
    std::ranges::copy(rows.subspan(from, n), restored.begin() + to);
  });
}

absl::Status CheckUnitOrder(std::span<const int32_t> order, int64_t num_units) {
  std::vector<bool> seen(num_units, false);
  for (const int32_t unit : order) {
    if (unit < 0 || unit >= num_units || seen[unit]) {
      return absl::DataLossError(absl::StrCat("unit order: unit ", unit, " of ", num_units,
                                              " is repeated or out of range"));
    }
    seen[unit] = true;
  }
  if (std::ssize(order) == num_units) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("unit order: got ", order.size(), " units, expected ", num_units));
}

}  // namespace braid
