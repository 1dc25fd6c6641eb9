// Finds weights that are not the same on every rank: a flipped bit in memory or on a
// link, or ranks that compute differently.
#ifndef BRAID_TRAINER_WEIGHT_CHECK_H_
#define BRAID_TRAINER_WEIGHT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/communicator.h"
#include "trainer/model/language_model.h"

namespace braid {

// Compares the weights by hash (XXH3, 64 bits a parameter). DataLoss, the same on every
// rank, names `step` (steps done), the first parameter that differs, the ranks that
// are in the minority there (of two, rank 1) and both hashes. Called by every rank.
absl::Status CompareWeights(int64_t step, LanguageModel& model, Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_WEIGHT_CHECK_H_
