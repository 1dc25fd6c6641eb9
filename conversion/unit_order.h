// Dense FFNs as experts: which hidden units form which expert, and back. An FFN is three matrices
// with one row per hidden unit, [F, D]; expert e of N is the rows [e F/N, (e + 1) F/N). Reordering
// the units of all three matrices alike does not change what the FFN computes, so a split is a
// permutation of rows, and the inverse permutation gives the dense FFN back, bit for bit.
#ifndef BRAID_CONVERSION_UNIT_ORDER_H_
#define BRAID_CONVERSION_UNIT_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

enum class ExpertSplit {
  // Units in the order of the dense FFN (SMoE-Dropout, openreview w1hwFUb_81, section 3.1).
  kContiguous,
  // A random partition.
  kRandom,
  // Balanced clusters of the keys, the rows of the gate matrix (EMoE, arXiv 2310.10908,
  // section 3.1).
  kKeys,
};

// order[i] is the dense unit that becomes unit i of the experts, [num_units]. Units of one expert
// are in ascending order.
using UnitOrder = std::vector<int32_t>;

// Splits the units of one FFN. keys: [num_units, dimension], used by kKeys. InvalidArgument when
// num_experts does not divide num_units, with the nearest numbers that do.
absl::StatusOr<UnitOrder> SplitUnits(ExpertSplit split, std::span<const float> keys,
                                     int64_t num_units, int64_t dimension, int32_t num_experts,
                                     uint64_t seed);

// reordered row i = row order[i] of `rows`. rows, reordered: [num_units, dimension].
void ReorderUnits(std::span<const float> rows, std::span<const int32_t> order,
                  std::span<float> reordered);
// The inverse: restored row order[i] = row i of `rows`.
void RestoreUnits(std::span<const float> rows, std::span<const int32_t> order,
                  std::span<float> restored);

// Returns OK when `order` is a permutation of [0, num_units).
absl::Status CheckUnitOrder(std::span<const int32_t> order, int64_t num_units);

}  // namespace braid

#endif  // BRAID_CONVERSION_UNIT_ORDER_H_
