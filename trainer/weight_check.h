// Finds weights that are not the same on every rank: a flipped bit in memory or on a
// link, or ranks that compute differently.
#ifndef BRAID_TRAINER_WEIGHT_CHECK_H_
#define BRAID_TRAINER_WEIGHT_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "model/config/shard.h"
#include "model/language_model.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"

namespace braid {

// Compares the weights by hash (XXH3, 64 bits a parameter). DataLoss, the same on every
// rank, names `step` (steps done), the first parameter that differs, the ranks that
// are in the minority there (of two, rank 1) and both hashes. Called by every rank.
absl::Status CompareWeights(int64_t step, LanguageModel& model, Communicator& communicator);

// Guards the part of the weights that one rank updates alone. With a sharded optimiser
// the others take it over every step, and a flipped bit with it, which then is the
// same everywhere. So the owner remembers what it wrote.
//
//   UpdateWeights(...);  own.Remember(state);
//   ... RETURN_IF_ERROR(own.Check(state, rank)); UpdateWeights(...);
class OwnWeights {
 public:
  // The part as it is now; nothing when the optimiser is not sharded.
  void Remember(TrainingState& state);
  // DataLoss naming rank, step, parameter and both hashes when the part is not what it
  // was. OK when there is nothing to compare.
  absl::Status Check(TrainingState& state, int rank) const;

 private:
  Shard part_;
  std::vector<uint64_t> hashes_;  // by parameter
};

}  // namespace braid

#endif  // BRAID_TRAINER_WEIGHT_CHECK_H_
