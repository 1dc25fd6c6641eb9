// Detects weights that are not the same on every rank: a flipped bit in memory or on a network
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

// Compares the trained weights of all ranks by hash (XXH3, 64 bits per parameter). Collective.
// Aborted, the same on every rank, names `step` (steps done), the first parameter that differs, the
// ranks in the minority there (of two ranks, rank 1) and both hashes.
absl::Status CompareWeights(int64_t step, LanguageModel& model, Communicator& communicator);

// Detects changes of the weights that this rank alone updates. With a sharded optimizer every rank
// takes them over at each step, including a flipped bit, which CompareWeights would then find equal
// on all ranks. So the owner compares them with the hash of what it wrote.
//
//   UpdateWeights(...);  own.Remember(state);
//   ... RETURN_IF_ERROR(own.Check(state, rank)); UpdateWeights(...);
class OwnWeights {
 public:
  // Stores the hashes of the current values; nothing when the optimizer is not sharded.
  void Remember(TrainingState& state);
  // Aborted, naming rank, step, parameter and both hashes, when the values differ from those
  // remembered. OK when nothing was remembered.
  absl::Status Check(TrainingState& state, int rank) const;

 private:
  Shard part_;
  std::vector<uint64_t> hashes_;  // one per parameter
};

}  // namespace braid

#endif  // BRAID_TRAINER_WEIGHT_CHECK_H_
