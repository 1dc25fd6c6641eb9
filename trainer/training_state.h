// Everything that changes while a run trains: the model, its moments, the
// position. Saved and restored as a checkpoint.
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
#include "trainer/checkpoint_share.h"
#include "trainer/parallel/communicator.h"

namespace braid {

struct TrainingState {
  std::unique_ptr<LanguageModel> model;
  // The part of model->values() that this rank updates: all of it, or its shard.
  Shard moments;
  // AdamW moments of that part, of moments.size().
  std::vector<float> m;
  std::vector<float> v;
  int64_t step = 0;        // optimiser steps done
  int64_t num_tokens = 0;  // tokens predicted so far
  bool upcycled = false;   // experts are in use
};

// The part of `size` values whose moments rank `rank` keeps under a resolved spec.
Shard MomentShard(const v1::RunSpec& spec, size_t size, int rank);

// Step 0, with the StartingModel and no moments. A pure function of the resolved
// spec (and of the weights it starts from) and the rank.
absl::StatusOr<TrainingState> InitialState(const v1::RunSpec& spec, int rank);

// The dense model's FFNs copied into the experts (arXiv 2405.03133, section 3.4).
// Moments carry over as m/E and v/E^2 because an expert's gradient is about 1/E
// of the whole; those of routers start at 0. Called by every rank: the parts of the
// dense model's moments come together once, because the expert model is cut elsewhere.
absl::StatusOr<TrainingState> UpcycledState(TrainingState dense, const v1::RunSpec& spec,
                                            Communicator& communicator);

// Views for a CheckpointWriter. `dataset_key` is kept for RestoreState to compare.
CheckpointSource SourceOf(TrainingState& state, const std::string& dataset_key);

// Writes the whole state as CheckpointPath(checkpoints, state.step) and waits for
// it: for models that no run trains. `tokenizer` is a file to copy.
absl::Status SaveState(TrainingState& state, const std::filesystem::path& checkpoints,
                       const std::string& dataset_key, const std::filesystem::path& tokenizer);

// FailedPrecondition when the checkpoint is of other data or another model than
// the spec's.
absl::StatusOr<TrainingState> RestoreState(const std::filesystem::path& checkpoint,
                                           const v1::RunSpec& spec, const std::string& dataset_key,
                                           int rank);

// The model of a checkpoint alone, for evaluation and generation.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(const std::filesystem::path& checkpoint);

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_STATE_H_
