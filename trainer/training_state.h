// The state that changes during training: the model, its moments, the position. Saved and restored
// as a checkpoint.
#ifndef BRAID_TRAINER_TRAINING_STATE_H_
#define BRAID_TRAINER_TRAINING_STATE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "model/config/shard.h"
#include "model/language_model.h"
#include "runs/checkpoint.h"
#include "trainer/checkpoint_share.h"
#include "trainer/parallel/communicator.h"

namespace braid {

struct TrainingState {
  std::unique_ptr<LanguageModel> model;
  // The range of model->trained_values() that this rank updates: everything, or its shard.
  Shard moments;
  // True when each rank updates only its own shard (ZERO_1, several ranks), so that updates need
  // collective calls. Cannot be derived from `moments`: one rank's shard may cover all values.
  bool sharded = false;
  // AdamW moments of that range, moments.size() elements each.
  std::vector<float> m;
  std::vector<float> v;
  // Exponential moving average of the weights in that range; empty without one.
  std::vector<float> average;
  int64_t step = 0;           // steps done
  int64_t num_updates = 0;    // updates since moments and average were zero
  int64_t dense_updates = 0;  // those before the upcycling
  int64_t num_tokens = 0;     // tokens predicted so far
  bool upcycled = false;      // experts are in use
  // Coefficient of the penalty of the gate RELU in the next step; 0 with other gates.
  double gate_penalty = 0;
  ValidationHistory validation;
  SpikeHistory spikes;
  // Absent when all parameters are trained.
  v1::PartialCheckpoint partial;
};

// Returns the range of `size` values whose moments rank `rank` keeps under a resolved spec:
// everything (REPLICATED) or its shard (ZERO_1; arXiv 1910.02054, section 5.1).
Shard MomentShard(const v1::RunSpec& spec, size_t size, int rank);

// Returns the state at step 0: the StartingModel, with zero moments. A pure function of the
// resolved spec (and of the weights it starts from) and the rank. DataLoss for a branch, which
// begins with a checkpoint.
absl::StatusOr<TrainingState> InitialState(const v1::RunSpec& spec, int rank);

// Returns the expert state made by copying the dense model's FFNs into the experts (arXiv
// 2405.03133, section 3.4). Moments carry over as m/E and v/E^2, because the gradient of an expert
// is about 1/E of the whole; those of routers start at 0. An average carries over as weights do.
// Collective: the dense moments are gathered once, because the shards of the expert model have
// other boundaries.
absl::StatusOr<TrainingState> UpcycledState(TrainingState dense, const v1::RunSpec& spec,
                                            Communicator& communicator);

// Returns views of the state for a CheckpointWriter. `dataset_key` is stored for RestoreState to
// compare.
CheckpointSource SourceOf(TrainingState& state, const std::string& dataset_key);

// Writes the state as CheckpointPath(checkpoints, state.step) and waits until it is published, for
// models outside a run. `tokenizer` is a file to copy.
absl::Status SaveState(TrainingState& state, const std::filesystem::path& checkpoints,
                       const std::string& dataset_key, const std::filesystem::path& tokenizer);

// Restores a checkpoint, without the validations of its source when it is the first one of a
// branch. FailedPrecondition when it belongs to other data or another model than the spec's, or
// when its base has changed.
absl::StatusOr<TrainingState> RestoreState(const std::filesystem::path& checkpoint,
                                           const v1::RunSpec& spec, const std::string& dataset_key,
                                           int rank);

// Loads only the model of a checkpoint, for evaluation and generation, with adapters merged into
// its weights; with `average`, the average of the trained weights, which the checkpoint must have.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(const std::filesystem::path& checkpoint,
                                                         bool average = false);

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_STATE_H_
