// The second half of a step: clipping, AdamW or Muon on this rank's part, and distribution of the
// new weights.
#ifndef BRAID_TRAINER_WEIGHT_UPDATE_H_
#define BRAID_TRAINER_WEIGHT_UPDATE_H_

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"

namespace braid {

// Completes step state.step + 1: updates values and moments in the range state.moments from the
// summed gradients there, scaled so that their global norm, which is `gradient_norm`, is at most
// clip_norm. With a sharded optimizer (ZeRO stage 1, arXiv 1910.02054) every rank then receives the
// shards of the others, so that weights are bit-identical on all ranks.
absl::Status UpdateWeights(const v1::OptimizerConfig& config, double learning_rate,
                           double gradient_norm, TrainingState& state, Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_WEIGHT_UPDATE_H_
