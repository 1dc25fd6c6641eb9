// Sums over the ranks that compute a batch together, as the model sees them.
#ifndef BRAID_MODEL_CONFIG_RANK_SUM_H_
#define BRAID_MODEL_CONFIG_RANK_SUM_H_

#include <functional>
#include <span>

#include "absl/status/status.h"

namespace braid {

// Replaces values, elementwise, by their sums over ranks, the same bits on every rank. Every rank
// makes the same calls in the same order with the same sizes. Errors: those of the communicator;
// the values are then undefined.
using RankSum = std::function<absl::Status(std::span<double> values)>;

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_RANK_SUM_H_
