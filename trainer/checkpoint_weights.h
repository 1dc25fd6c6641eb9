// The weights of a checkpoint as a model uses them. A checkpoint of a run that trains a part of its
// parameters holds that part, and refers to the checkpoint with the others (its base) or holds them
// too; adapters are merged into the matrices that they change.
#ifndef BRAID_TRAINER_CHECKPOINT_WEIGHTS_H_
#define BRAID_TRAINER_CHECKPOINT_WEIGHTS_H_

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "model/language_model.h"
#include "runs/checkpoint.h"

namespace braid {

// Returns views of the parameters of a model: all but adapters.
std::vector<CheckpointTensor> BaseTensors(LanguageModel& model);

// Returns the `tensors` that weights of `model` provide: all but parameters of layer mixing and
// heads that `model` lacks, which a run that starts from it initializes itself.
std::vector<CheckpointTensor> HeldBy(const v1::ModelConfig& model,
                                     std::span<const CheckpointTensor> tensors);

// Fills `tensors`, all parameters of the checkpoint's model without adapters, with its weights,
// adapters merged. A model for shorter sequences takes the first of its learned positions. Errors
// of ReadWeights, and of ReadBaseWeights.
absl::Status ReadMergedWeights(const std::filesystem::path& checkpoint,
                               const CheckpointState& state,
                               std::span<const CheckpointTensor> tensors);

// Fills `tensors`, all parameters of the base of `checkpoint`, with those of its base, and compares
// them with the stored checksums. FailedPrecondition when the base does not exist or differs; names
// the first tensor.
absl::Status ReadBaseWeights(const std::filesystem::path& checkpoint,
                             const v1::PartialCheckpoint& partial,
                             std::span<const CheckpointTensor> tensors);

// Returns the record of a run that trains a part of a model: its settings and, unless they say
// self_contained, the checkpoint `base` (of step `step`) with the checksums of `tensors`.
v1::PartialCheckpoint PartialOf(const v1::Finetuning& finetuning, const std::string& base,
                                int64_t step, std::span<const CheckpointTensor> tensors);

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_WEIGHTS_H_
